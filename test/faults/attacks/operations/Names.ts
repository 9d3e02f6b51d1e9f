/** Sinks that are removed, renamed and brought back, with every kind of pending event. */
import { attack, attackWhile, type Case, type Play } from "../Play.ts"

/** Events wait for the sink `a`: as retries, because its receiver fails. */
const waits = async (play: Play, count = 60, more: object = {}): Promise<ReadonlyArray<number>> => {
  play.shut(play.a)
  await play.start({ a: play.to(play.a, more) })
  await play.burst(count)
  await play.waiting("a", count)
  return play.acknowledged
}

/** Some pending events become dead letters. */
const mortal = { delivery: { retry: { initial: "20 millis", max: "40 millis", maxAttempts: 2 }, pauseAfter: 10_000 } }

const withDeadLetters = async (play: Play): Promise<ReadonlyArray<number>> => {
  play.shut(play.a)
  await play.start({ a: play.to(play.a, mortal) })
  await play.burst(30)
  const sent = play.acknowledged
  await play.until(async () => ((await play.lane("a"))?.deadLetters ?? 0) > 0, "there is no dead letter")
  return sent
}

export const cases: ReadonlyArray<Case> = [
  attack("a sink is removed with what waits, and brought back", async (play) => {
    const sent = await waits(play)
    await play.reload({})
    play.check((await play.lane("a"))?.condition === "orphaned", "what waits is not shown as orphaned")
    await play.burst(20)
    play.open(play.a)
    await play.reload({ a: play.to(play.a) })
    await play.has(play.a, sent, "a")
    play.check(play.most(play.a) === 1, "something came twice")
  }),
  attack("a sink is removed with what waits, and that moved to another", async (play) => {
    const sent = await waits(play)
    await play.reload({ b: play.to(play.b) })
    const { code } = await play.command("lanes", "move", "a", "b")
    play.check(code === 0, `relay lanes move ended with ${code}`)
    await play.has(play.b, sent, "b")
    play.check((await play.lane("a")) === undefined, "the lane is still there")
  }),
  attack("a sink is removed with dead letters, and brought back", async (play) => {
    const sent = await withDeadLetters(play)
    await play.reload({})
    await play.burst(10)
    play.open(play.a)
    await play.reload({ a: play.to(play.a, mortal) })
    await play.tell("/lanes/a/resume", undefined, 204)
    await play.tell("/dead-letters/replay", { sink: "a" })
    await play.has(play.a, sent, "a")
  }),
  attack("a sink is renamed with what waits", async (play) => {
    const sent = await waits(play)
    play.open(play.a)
    await play.reload({ z: play.to(play.a, { renamedFrom: "a" }) })
    await play.has(play.a, sent, "z")
    play.check((await play.lane("a")) === undefined, "the old name is still there")
  }),
  attack("a sink is renamed with dead letters", async (play) => {
    const sent = await withDeadLetters(play)
    play.open(play.a)
    await play.reload({ z: play.to(play.a, { ...mortal, renamedFrom: "a" }) })
    await play.tell("/dead-letters/replay", { sink: "z" })
    await play.has(play.a, sent, "z")
  }),
  attack("a sink is renamed there and back, three times", async (play) => {
    const sent = await waits(play)
    for (const [from, to] of [
      ["a", "z"],
      ["z", "a"],
      ["a", "z"],
      ["z", "a"],
      ["a", "z"],
      ["z", "a"],
    ] as const) {
      await play.reload({ [to]: play.to(play.a, { renamedFrom: from }) })
    }
    play.open(play.a)
    await play.has(play.a, sent, "a")
  }),
  attack("a sink takes a name that was another's before", async (play) => {
    play.shut(play.a)
    play.shut(play.b)
    await play.start({ a: play.to(play.a), z: play.to(play.b) })
    await play.burst(40)
    const sent = play.acknowledged
    await play.waiting("z", 40)
    await play.reload({ a: play.to(play.a) })
    play.open(play.a)
    play.open(play.b)
    // Pending events of both sinks go to the receiver that has the name now.
    await play.reload({ z: play.to(play.a, { renamedFrom: "a" }) })
    await play.has(play.a, sent, "z")
    play.check(
      (await play.lane("a")) === undefined,
      `what waited for the old name is ${(await play.lane("a"))?.condition}`,
    )
  }),
  attackWhile("two sinks swap their names, which is refused", "both go on under the config in force", async (play) => {
    play.shut(play.a)
    play.shut(play.b)
    const now = { a: play.to(play.a), b: play.to(play.b) }
    await play.start(now)
    await play.burst(40)
    await play.waiting("b", 40)
    await play.reload({ a: play.to(play.b, { renamedFrom: "b" }), b: play.to(play.a, { renamedFrom: "a" }) }, {}, 422)
    await play.burst(10)
    const sent = play.acknowledged
    play.open(play.a)
    play.open(play.b)
    await play.has(play.a, sent, "a")
    await play.has(play.b, sent, "b")
  }),
  attackWhile(
    "two sinks say that they were the same one, which is refused",
    "it goes on under the config in force",
    async (play) => {
      const sent = await waits(play)
      const both = { y: play.to(play.a, { renamedFrom: "a" }), z: play.to(play.b, { renamedFrom: "a" }) }
      await play.reload(both, {}, 422)
      play.open(play.a)
      await play.has(play.a, sent, "a")
    },
  ),
  attack("a sink is renamed from itself", async (play) => {
    const sent = await waits(play)
    play.open(play.a)
    play.config({ a: play.to(play.a, { renamedFrom: "a" }) })
    await play.subject.reload()
    await play.has(play.a, sent, "a")
  }),
  attack("a sink is renamed from one that is still there", async (play) => {
    const sent = await waits(play)
    play.open(play.a)
    play.config({ a: play.to(play.a), z: play.to(play.b, { renamedFrom: "a" }) })
    await play.subject.reload()
    await play.until(
      () => sent.every((number) => play.a.times.has(number) || play.b.times.has(number)),
      "what waited went to neither",
    )
  }),
  attack("a sink is paused, renamed and resumed", async (play) => {
    await play.start({ a: play.to(play.a) })
    await play.tell("/lanes/a/pause", undefined, 200)
    await play.burst(30)
    const sent = play.acknowledged
    await play.reload({ z: play.to(play.a, { renamedFrom: "a" }) })
    play.check((await play.lane("z"))?.condition === "paused", "a person's pause was forgotten")
    await play.restart("SIGKILL")
    play.check((await play.lane("z"))?.condition === "paused", "a person's pause was forgotten at a crash")
    await play.tell("/lanes/z/resume", undefined, 204)
    await play.has(play.a, sent, "z")
  }),
  attack("a sink changes its type under the same name", async (play) => {
    const sent = await waits(play)
    const file = `${play.subject.directory}/changed.ndjson`
    await play.reload({ a: { type: "file", path: file } })
    const lines = async () => {
      const text = await Bun.file(file)
        .text()
        .catch(() => "")
      return sent.every((number) => text.includes(`"evt_${number}"`))
    }
    await play.until(lines, "the file has not all of it")
  }),
  attack("the route to a sink is removed, with what waits", async (play) => {
    const sent = await waits(play)
    await play.reload({ a: play.to(play.a) }, { routes: [{ name: "everything", match: "**", to: "steady" }] })
    play.open(play.a)
    await play.has(play.a, sent, "a")
  }),
]
