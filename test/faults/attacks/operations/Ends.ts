/**
 * The process ends at each step of an operator's request. Unfinished work continues at the next start, or can be
 * requested again. No pending event is stranded.
 */
import { attackWhile, type Case, type Play } from "../Play.ts"

const waiting = 600
const meanwhile = "what was acknowledged is delivered after the next start, to the other sink and to this one"

/** Milliseconds after the request at which the process ends. */
const moments = [0, 4, 15, 50] as const

interface Step {
  readonly name: string
  /** Prepares the relay for the request. */
  readonly before: (play: Play) => Promise<void>
  /** Sends the request. Its answer is never awaited. */
  readonly ask: (play: Play) => Promise<unknown>
  /** An operator's actions after the next start. */
  readonly after?: (play: Play) => Promise<unknown>
  /** Maximum number of arrivals of one event. */
  readonly most?: number
}

/** The events wait for `a`, whose receiver fails. */
const backlog = async (play: Play): Promise<void> => {
  play.shut(play.a)
  await play.start({ a: play.to(play.a) })
  await play.burst(waiting)
  await play.waiting("a", waiting)
}

const mortal = { delivery: { retry: { initial: "10 millis", max: "20 millis", maxAttempts: 1 }, pauseAfter: 10_000 } }

const deadLetters = async (play: Play): Promise<void> => {
  play.shut(play.a)
  await play.start({ a: play.to(play.a, mortal) })
  await play.burst(waiting)
  await play.until(
    async () => ((await play.lane("a"))?.deadLetters ?? 0) >= waiting / 2,
    "there are no dead letters",
    30,
  )
}

/** Asks without waiting for an answer, which may never come. */
const ask = (play: Play, path: string, payload?: object): Promise<unknown> =>
  play.subject.tell(path, payload).catch(() => undefined)

const steps: ReadonlyArray<Step> = [
  {
    name: "a sink is renamed",
    before: backlog,
    ask: (play) => {
      play.config({ z: play.to(play.a, { renamedFrom: "a" }) })
      return ask(play, "/reload")
    },
  },
  {
    name: "a backlog is moved",
    before: async (play) => {
      await backlog(play)
      await play.reload({ b: play.to(play.a) })
    },
    ask: (play) => ask(play, "/lanes/a/move", { to: "b" }),
    after: (play) => ask(play, "/lanes/a/move", { to: "b" }),
    most: 100,
  },
  {
    name: "dead letters are replayed",
    before: deadLetters,
    ask: (play) => ask(play, "/dead-letters/replay", { sink: "a" }),
    after: async (play) => {
      await ask(play, "/lanes/a/resume")
      await ask(play, "/dead-letters/replay", { sink: "a" })
    },
    most: 100,
  },
  {
    name: "a sink is removed and one added",
    before: backlog,
    ask: (play) => {
      play.config({ b: play.to(play.b) })
      return ask(play, "/reload")
    },
    after: (play) => {
      play.config({ a: play.to(play.a), b: play.to(play.b) })
      return ask(play, "/reload")
    },
  },
]

const endsAt = ({ name, before, ask, after, most = 2 }: Step, moment: number, signal: NodeJS.Signals): Case => ({
  name: `${name}, and ${signal} comes ${moment} ms later`,
  meanwhile,
  run: async (play) => {
    await before(play)
    const sent = play.acknowledged.slice(0, waiting)
    void ask(play)
    await Bun.sleep(moment)
    play.mayRefuse = true
    await play.end(signal)
    play.open(play.a)
    play.relay = await play.subject.start()
    await after?.(play)
    await play.has(play.a, sent, "this one", 30)
    play.check(play.most(play.a) <= most, `something came ${play.most(play.a)} times`)
  },
})

export const cases: ReadonlyArray<Case> = [
  ...steps.flatMap((step) => moments.map((moment) => endsAt(step, moment, "SIGKILL"))),
  ...steps.slice(0, 2).flatMap((step) => [4, 50].map((moment) => endsAt(step, moment, "SIGTERM"))),
  attackWhile("a replay of the log is cut off by kill -9, and asked for once more", meanwhile, async (play) => {
    await play.start({ a: play.to(play.a) })
    await play.burst(waiting)
    const sent = play.acknowledged
    await play.has(play.a, sent, "this one")
    await play.tell("/lanes/a/pause", undefined, 200)
    play.a.times.clear()
    const until = Date.now() + 60_000
    void ask(play, "/replays", { events: { until }, to: { sink: "a" } })
    await Bun.sleep(5)
    await play.restart("SIGKILL")
    await play.replay("a", until)
    await play.tell("/lanes/a/resume", undefined, 204)
    await play.has(play.a, sent, "this one")
  }),
  attackWhile("an orphaned backlog is dropped, and kill -9 comes at once", meanwhile, async (play) => {
    await backlog(play)
    await play.reload({})
    void ask(play, "/lanes/a/drop")
    await play.restart("SIGKILL")
    // A lane is dropped in parts. A second request drops the rest.
    if ((await play.lane("a")) !== undefined) await ask(play, "/lanes/a/drop")
    play.check((await play.lane("a")) === undefined, "what was left of it could not be dropped")
  }),
  attackWhile("SIGTERM comes in the middle of ten reloads", meanwhile, async (play) => {
    await play.start({ a: play.to(play.a) })
    play.mayRefuse = true
    for (let round = 0; round < 10; round++) {
      play.config({ a: play.to(play.a, { concurrency: round + 1 }) })
      void ask(play, "/reload")
    }
    const code = await play.end("SIGTERM")
    play.check(code === 0, `it ended with ${code}`)
    await play.restart()
    await play.has(play.a, play.acknowledged, "this one")
  }),
  attackWhile(
    "it is frozen for three seconds under load, and goes on",
    "what was acknowledged is delivered; nothing is given up",
    async (play) => {
      play.mayRefuse = true
      play.a.answer = () => Bun.sleep(50).then(() => new Response(null, { status: 204 }))
      await play.start({ a: play.to(play.a, { concurrency: 2 }) })
      await play.burst(100)
      play.relay?.signal("SIGSTOP")
      await Bun.sleep(3_000)
      play.relay?.signal("SIGCONT")
      await play.burst(20)
      await play.has(play.a, play.acknowledged, "this one")
      play.check((await play.lane("a"))?.deadLetters === 0, "the pause cost dead letters")
    },
  ),
]
