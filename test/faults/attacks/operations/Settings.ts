/** Settings that change under load, or that can't. */

import { secret } from "../../relay/Traffic.ts"
import { attack, attackWhile, type Case, type Play } from "../Play.ts"

const others = "the other sink has every event; none is refused"

/** Events wait for `a` while its config takes each of these forms. Then all are delivered, at most `atMost` times. */
const through = (name: string, first: object, steps: ReadonlyArray<object>, atMost = 1): Case => ({
  name,
  meanwhile: others,
  run: async (play) => {
    play.shut(play.a)
    await play.start({ a: play.to(play.a, first) })
    for (const more of steps) {
      await play.burst(30)
      await play.reload({ a: play.to(play.a, more) })
    }
    const sent = play.acknowledged
    play.open(play.a)
    await play.has(play.a, sent, "a")
    play.check(play.most(play.a) <= atMost, `something came ${play.most(play.a)} times`)
  },
})

/** A reload that must be refused, and leave all as it was. */
const refused = (name: string, changes: (play: Play) => object, status: number): Case => ({
  name,
  meanwhile: "the active config stays; all are delivered",
  run: async (play) => {
    await play.start({ a: play.to(play.a) })
    await play.reload({ a: play.to(play.a) }, changes(play), status)
    const { config } = await play.subject.status()
    play.check(config.refusal !== "", "the status does not say that it was refused")
    await play.burst(10)
    await play.has(play.a, play.acknowledged, "a")
    await play.reload({ a: play.to(play.a) })
  },
})

const keyed = { order: "key", key: "{{account_id}}" }

export const cases: ReadonlyArray<Case> = [
  through("order by key, on and off, with what waits", {}, [keyed, {}, keyed, { ...keyed, key: "{{id}}" }, {}]),
  through("concurrency 1, then 100, then 1", { concurrency: 1 }, [{ concurrency: 100 }, { concurrency: 1 }]),
  through("a rate limit comes and goes", { rateLimit: "1/minute" }, [{}, { rateLimit: "10/second" }, {}]),
  through("maxRetrying below what is retrying", {}, [
    { delivery: { maxRetrying: 1 } },
    { delivery: { maxRetrying: 5 } },
  ]),
  through("the shortest deadline", {}, [{ delivery: { timeout: "1 millis" } }, {}], 100),
  through("a signature of our own, in and out", {}, [
    { sign: { secret: "s" } },
    { sign: { secret: "t", header: "x-other" } },
    {},
  ]),
  attack("waits of an hour become short ones, and a person resumes", async (play) => {
    play.shut(play.a)
    await play.start({ a: play.to(play.a, { delivery: { retry: { initial: "1 hour", max: "1 hour" } } }) })
    await play.burst(30)
    const sent = play.acknowledged
    await play.reload({ a: play.to(play.a) })
    play.open(play.a)
    await play.tell("/lanes/a/resume", undefined, 204)
    await play.has(play.a, sent, "a")
  }),
  attack("digests go on and off, with what waits", async (play) => {
    const template = { format: "template", body: { id: "{{id}}", events: "{{events}}", count: "{{count}}" } }
    const digest = { ...template, digest: { by: ["id"], wait: "3 seconds" } }
    const told = new Set<number>()
    // A digest isn't an event's own body, so the numbers of its events are read from its text.
    const server = Bun.serve({
      port: 0,
      fetch: async (request) => {
        const text = await request.text()
        if (closed) return new Response(null, { status: 500 })
        for (const [, number] of text.matchAll(/evt_(\d+)/g)) told.add(Number(number))
        return new Response(null, { status: 204 })
      },
    })
    let closed = false
    const to = { type: "http", url: `http://127.0.0.1:${server.port}/` }
    await play.start({ a: { ...to, ...digest } })
    await play.burst(10)
    await play.waiting("a", 10)
    await play.reload({ a: { ...to, ...template } })
    closed = true
    await play.burst(10)
    await play.waiting("a", 10)
    await play.reload({ a: { ...to, ...digest } })
    await play.burst(10)
    await play.reload({ a: { ...to, ...digest, digest: { by: ["type", "/data/object/id"], wait: "100 millis" } } })
    const sent = play.acknowledged
    closed = false
    await play.until(async () => ((await play.lane("a"))?.retrying ?? 99) < 20, "windows stay open", 20)
    await play.until(() => sent.every((number) => told.has(number)), "some are told of in no digest")
    await server.stop(true)
  }),
  attackWhile("a secret is rotated under load", "not one delivery is refused", async (play) => {
    await play.start({})
    const old = { name: "faults", value: secret }
    for (let round = 0; round < 5; round++) {
      const next = { name: `next-${round}`, value: `another-secret-${round}` }
      await play.reload({}, play.webhooks([next, old]))
      await play.reload({}, play.webhooks([old]))
      await play.reload({}, play.webhooks([old, { ...next, expires: "2020-01-01T00:00:00Z" }]))
    }
  }),
  attackWhile("a webhook is renamed under load", "not one delivery is refused", async (play) => {
    await play.start({})
    for (const name of ["other", "third", "scheduling"]) await play.reload({}, play.webhooks(undefined, name))
  }),
  attackWhile("a webhook moves away and back", "what was acknowledged is delivered", async (play) => {
    play.mayRefuse = true
    play.shut(play.a)
    await play.start({ a: play.to(play.a) })
    await play.burst(20)
    const sent = play.acknowledged
    await play.reload({ a: play.to(play.a) }, play.webhooks(undefined, "elsewhere", "/hooks/elsewhere"))
    play.open(play.a)
    await play.has(play.a, sent, "a")
    await play.reload({ a: play.to(play.a) })
  }),
  attackWhile(
    "a backlog's limit is put below what waits",
    "what does not go to that sink is accepted, and the limit can be raised again",
    async (play) => {
      play.mayRefuse = true
      play.shut(play.a)
      const routes = [
        { name: "everything", match: "**", to: "steady" },
        { name: "one", match: "**", where: { "/account_id": "acct_1" }, to: "a" },
      ]
      await play.start({ a: play.to(play.a) }, { routes })
      await play.burst(150)
      const { sender } = play.subject
      await play.waiting("a", 2)
      await play.reload({ a: play.to(play.a, { backlog: { max: 1 } }) }, { routes })
      play.check((await sender.send(100_001)) === 503, "an event for a full sink was accepted")
      play.check((await sender.send(100_002)) === 202, "an event for another sink was refused")
      play.open(play.a)
      await play.until(async () => (await play.lane("a"))?.backlog === 0, "what waits is not delivered")
      play.check((await sender.send(100_051)) === 202, "an event for a sink that has room again was refused")
    },
  ),
  attack("a backlog that is over its limit becomes dead letters, and is replayed", async (play) => {
    play.shut(play.a)
    await play.start({ a: play.to(play.a) })
    await play.tell("/lanes/a/pause", undefined, 200)
    await play.burst(100)
    const sent = play.acknowledged
    await play.reload({ a: play.to(play.a, { backlog: { max: 10, whenFull: "deadLetter" } }) })
    await play.until(async () => ((await play.lane("a"))?.deadLetters ?? 0) >= 50, "nothing was given up")
    play.open(play.a)
    await play.reload({ a: play.to(play.a) })
    await play.tell("/lanes/a/resume", undefined, 204)
    await play.tell("/dead-letters/replay", { sink: "a" })
    await play.has(play.a, sent, "a")
  }),
  refused("the journal's path changes", () => ({ journal: { path: "./elsewhere.db" } }), 409),
  refused(
    "the journal becomes smaller than what it holds",
    (play) => ({ journal: { type: "sqlite", path: play.subject.journal, minFree: "1 MiB", maxSize: "1 MiB" } }),
    409,
  ),
  refused("the clients' API changes", () => ({ clients: { baseUrl: "http://127.0.0.1:1" } }), 409),
  refused("a route leads nowhere", () => ({ routes: [{ name: "everything", match: "**", to: "nobody" }] }), 422),
  refused(
    "a sink is called __proto__",
    (play) => ({ sinks: JSON.parse(`{"__proto__":${JSON.stringify(play.to(play.a))}}`) }),
    422,
  ),
  refused("a sink has the name of the quarantine", (play) => ({ sinks: { _quarantine: play.to(play.a) } }), 422),
]
