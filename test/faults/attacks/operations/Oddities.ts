/** Configs and moments that are allowed and odd. */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { path } from "../../relay/Traffic.ts"
import { deliver, inTurns } from "../Attack.ts"
import { attack, attackWhile, type Case, type Play } from "../Play.ts"

const others = "the other sink has every event; none is refused"
const secrets = [{ name: "faults", value: "only-the-fault-campaign-knows" }]

/** Returns the number of these events that a text lacks. */
const missingIn = (text: string, numbers: ReadonlyArray<number>): number => {
  const there = new Set([...text.matchAll(/"id":"evt_(\d+)"/g)].map(([, number]) => Number(number)))
  return numbers.filter((number) => !there.has(number)).length
}

const settled = (play: Play, name: string, seconds = 20): Promise<void> =>
  play.until(async () => (await play.lane(name))?.backlog === 0, `${name} does not get all of it`, seconds)

export const cases: ReadonlyArray<Case> = [
  attack("sinks and a webhook are called as every object's properties", async (play) => {
    const names = ["constructor", "toString", "hasOwnProperty", "valueOf"]
    const sinks = Object.fromEntries(names.map((name) => [name, play.to(play.a, { headers: { "x-sink": name } })]))
    await play.start(sinks, play.webhooks(undefined, "constructor"))
    await play.burst(30)
    for (const name of names) await settled(play, name)
    await play.has(play.a, play.acknowledged.slice(0, 30), "all of them")
    play.check(play.most(play.a) === names.length, `an event came ${play.most(play.a)} times to ${names.length} sinks`)
    const metrics = await play.subject.metric("relay_lane_backlog_events")
    play.check(
      names.every((name) => metrics.has(name)),
      "the metrics lack a sink",
    )
  }),
  attack("60 sinks come and go, twice", async (play) => {
    const many = Object.fromEntries(Array.from({ length: 60 }, (_, n) => [`s${n}`, play.to(play.a)]))
    await play.start({})
    await play.reload(many)
    await play.burst(20)
    await play.reload({})
    await play.reload(many)
    await play.burst(20)
    await play.until(
      async () => (await play.subject.status()).lanes.every(({ backlog }) => backlog < 5),
      "they do not catch up",
      30,
    )
  }),
  attackWhile(
    "two sinks are to write to one file, which is refused",
    "the one that was there goes on",
    async (play) => {
      const file = join(play.subject.directory, "shared.ndjson")
      const x = { type: "file", path: file }
      await play.start({ x })
      await play.reload({ x, y: { type: "file", path: `${play.subject.directory}/./shared.ndjson` } }, {}, 422)
      await play.burst(100)
      const sent = play.acknowledged
      await play.until(() => missingIn(readFileSync(file, "utf8"), sent) === 0, "some are not in the file")
    },
  ),
  attack("a file sink begins a new file with each byte", async (play) => {
    const directory = join(play.subject.directory, "many")
    const file = join(directory, "events.ndjson")
    await play.start({ x: { type: "file", path: file, rotate: { size: "1 B" } } }).catch(() => undefined)
    await play.burst(150)
    const sent = play.acknowledged
    await settled(play, "x")
    const text = readdirSync(directory)
      .map((name) => readFileSync(join(directory, name), "utf8"))
      .join("")
    const missing = missingIn(text, sent)
    play.check(missing === 0, `${missing} of ${sent.length} are in no file`)
    play.lost += missing
  }),
  attack("one delivery comes fifty times at once", async (play) => {
    await play.start({ a: play.to(play.a) })
    const number = 500_000
    const statuses = await Promise.all(Array.from({ length: 50 }, () => play.subject.sender.send(number)))
    play.check(
      statuses.every((status) => status === 202),
      "a duplicate was refused",
    )
    await play.has(play.a, [number], "a")
    await Bun.sleep(200)
    play.check(play.a.times.get(number) === 1, `it came ${play.a.times.get(number)} times`)
  }),
  attack("one id comes by two webhooks", async (play) => {
    const webhooks = { one: { path, secrets }, two: { path: "/hooks/two", secrets } }
    await play.start({ a: play.to(play.a) }, { webhooks })
    const body = play.subject.sender.bodyOf(600_000)
    const url = `http://127.0.0.1:${play.subject.port}`
    play.check((await deliver(`${url}/hooks/two`, body)) === 202, "the second webhook refused it")
    await play.subject.sender.send(600_000)
    await play.until(() => play.a.times.get(600_000) === 2, "it did not come once from each")
  }),
  attack("a sink leads back to the relay", async (play) => {
    const webhooks = { one: { path, secrets }, two: { path: "/hooks/two", secrets } }
    const back = { type: "http", url: `http://127.0.0.1:${play.subject.port}/hooks/two` }
    await play.start({ back, a: play.to(play.a) }, { webhooks })
    await play.burst(50)
    const sent = play.acknowledged
    await play.has(play.a, sent, "a")
    await Bun.sleep(500)
    play.check(play.most(play.a) <= 2, `an event went round ${play.most(play.a)} times`)
  }),
  attack("the relay's own events go to a sink that rejects them", async (play) => {
    play.a.bodyOf = () => ""
    play.a.answer = () => new Response(null, { status: 413 })
    const routes = [
      { name: "everything", match: "**", to: "steady" },
      { name: "own", match: "relay.**", to: "a" },
      { name: "some", match: "**", where: { "/account_id": "acct_1" }, to: "a" },
    ]
    await play.start({ a: play.to(play.a) }, { routes })
    await play.burst(100)
    await Bun.sleep(3_000)
    const letters = (await play.lane("a"))?.deadLetters ?? 0
    play.check(letters > 0 && letters < 40, `there are ${letters} dead letters of two events`)
    play.a.altered = 0
  }),
  attackWhile(
    "a sink is renamed and its certificates are not there",
    "the reload is refused, and the sink goes on under its old name",
    async (play) => {
      play.shut(play.a)
      await play.start({ a: play.to(play.a) })
      await play.burst(40)
      const z = { type: "http", url: "https://127.0.0.1:1/", tls: { ca: "/nonexistent" }, renamedFrom: "a" }
      await play.reload({ z }, {}, 422)
      play.open(play.a)
      await play.has(play.a, play.acknowledged, "a")
      play.check((await play.lane("z")) === undefined, "the new name was left behind")
    },
  ),
  attack("a sink is renamed while its old name is dropped and moved", async (play) => {
    play.shut(play.a)
    await play.start({ a: play.to(play.a), b: play.to(play.b) })
    await play.burst(300)
    const sent = play.acknowledged
    await play.waiting("a", 300)
    play.config({ z: play.to(play.a, { renamedFrom: "a" }), b: play.to(play.b) })
    const reloading = play.subject.reload()
    await Promise.all(
      [1, 2, 3].flatMap(() => [play.subject.tell("/lanes/a/drop"), play.subject.tell("/lanes/a/move", { to: "b" })]),
    )
    await reloading
    play.open(play.a)
    await play.has(play.a, sent, "z")
  }),
  attackWhile("one order key's head fails for ever", "events of other keys pass", async (play) => {
    const isStuck = (number: number) => number % 50 === 7
    play.a.answer = (number) => (isStuck(number) ? new Response(null, { status: 500 }) : undefined)
    await play.start({ a: play.to(play.a, { order: "key", key: "{{account_id}}" }) })
    await play.burst(400)
    const sent = play.acknowledged
    await play.has(
      play.a,
      sent.filter((number) => !isStuck(number)),
      "a",
    )
    play.open(play.a)
    await play.has(play.a, sent, "a")
  }),
  attack("dead letters are over their limit", async (play) => {
    play.shut(play.a)
    const more = { delivery: { maxDeadLetters: "1 KiB", pauseAfter: 10_000, retry: { maxAttempts: 1 } } }
    await play.start({ a: play.to(play.a, more) })
    await play.burst(100)
    const sent = play.acknowledged
    await play.until(async () => (await play.lane("a"))?.condition === "blocked", "it does not say that it is blocked")
    play.open(play.a)
    await play.reload({ a: play.to(play.a) })
    await play.tell("/dead-letters/replay", { sink: "a" })
    await play.tell("/lanes/a/resume", undefined, 204)
    await play.has(play.a, sent, "a")
  }),
  attackWhile(
    "SIGTERM comes while a receiver says nothing",
    "it ends in time, and goes on at the next start",
    async (play) => {
      play.a.answer = () => Bun.sleep(60_000).then(() => new Response(null, { status: 500 }))
      await play.start({ a: play.to(play.a) })
      await play.burst(50)
      const sent = play.acknowledged
      play.mayRefuse = true
      const began = performance.now()
      const code = await play.end("SIGTERM")
      const seconds = (performance.now() - began) / 1_000
      play.check(code === 0 && seconds < 25, `it ended with ${code} after ${seconds.toFixed(0)} s`)
      play.open(play.a)
      await play.restart()
      await play.has(play.a, sent, "a")
    },
  ),
  attack("a receiver goes and comes ten times", async (play) => {
    await play.start({ a: play.to(play.a) })
    await inTurns(Array(10).keys(), 1, async () => {
      await play.a.goAway()
      await play.burst(10)
      play.a.comeBack()
      await Bun.sleep(50)
    })
    await play.has(play.a, play.acknowledged, "a")
  }),
  ...(["a directory", "garbage"] as const).map(
    (what): Case => ({
      name: `the journal's index is ${what} at the next start`,
      meanwhile: others,
      run: async (play) => {
        play.shut(play.a)
        await play.start({ a: play.to(play.a) })
        await play.burst(50)
        const sent = play.acknowledged
        play.mayRefuse = true
        await play.end("SIGKILL")
        const index = `${play.subject.journal}-index`
        rmSync(index, { force: true })
        if (what === "garbage") writeFileSync(index, Buffer.alloc(8_192, 0x5a))
        else mkdirSync(index)
        play.open(play.a)
        await play.restart()
        await play.has(play.a, sent, "a")
        const events = JSON.parse(await play.subject.ask("/api/v1/events?limit=10")) as { readonly events?: unknown }
        play.check(Array.isArray(events.events), "events are not listed any more")
      },
    }),
  ),
]
