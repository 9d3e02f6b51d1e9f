import { describe, expect } from "bun:test"
import { Duration, Effect, Fiber, Logger, Redacted, Schema } from "effect"
import { DeadLetterInFull } from "../../src/admin/api/DeadLetterApi.ts"
import { maxStreams as mostStreams } from "../../src/admin/api/LiveTail.ts"
import type { Status } from "../../src/admin/status/Status.ts"
import type { Webhook } from "../../src/config/Config.ts"
import * as Runtime from "../../src/runtime/Runtime.ts"
import * as Raw from "../e2e/http/Raw.ts"
import { routes, webhook } from "../ingest/fixture.ts"
import { event, letter, settlement } from "../journal/samples.ts"
import { it } from "../lib/effect.ts"
import { envelope } from "../lib/kit.ts"
import { config, json, lane, start, text } from "./fixture.ts"

const letters = Effect.fnUntraced(function* (admin: Effect.Success<ReturnType<typeof start>>, count: number) {
  const { journal } = admin
  yield* journal.openLane("lake")
  for (let index = 1; index <= count; index++) {
    yield* journal.append(event(`evt_${index}`, { type: index % 2 === 0 ? "block.created" : "client.created" }), [
      "lake",
    ])
    yield* journal.settle([
      settlement("lake", index, {
        deadLetter: [
          {
            sequence: index,
            at: 9,
            refunded: 0,
            failed: [{ at: 5, reason: "DeliveryRejected", message: "too large" }],
          },
        ],
      }),
    ])
  }
})

describe("the probes", () => {
  it.live("/healthz answers while the process does", function* () {
    const { ask } = yield* start({ status: { health: "full", message: "full" } })
    expect((yield* ask("/healthz")).status).toBe(200)
  })

  it.live("accept any host name, such as a pod's or a service's, and need no token", function* () {
    const { ask } = yield* start({ admin: { token: Redacted.make("a-token") } })
    const asked = (path: string, method = "GET") =>
      Effect.map(ask(path, { method, headers: { host: "relay-0.relay.prod.svc.cluster.local:9080" } }), (_) => _.status)
    expect([yield* asked("/healthz"), yield* asked("/readyz"), yield* asked("/readyz", "HEAD")]).toEqual([
      200, 200, 200,
    ])
    expect([yield* asked("/readyz", "POST"), yield* asked("/healthz/../metrics")]).toEqual([421, 421])
  })

  it.live("report readiness on the delivery port, and leave all other paths to deliveries", function* () {
    const next = () => new Response("a delivery")
    for (const [health, said] of [
      ["ok", "ready\n"],
      ["full", "not ready\n"],
    ] as const) {
      const { ask } = yield* start({ status: { health, message: "/var/lib/relay is full" }, before: next })
      expect(yield* text(yield* ask("/readyz"))).toBe(said)
      expect(yield* text(yield* ask("/readyz", { method: "POST" }))).toBe("a delivery")
      expect(yield* text(yield* ask("/metrics"))).toBe("a delivery")
    }
  })

  it.live("/readyz is about keeping deliveries: a dead sink does not matter to it", function* () {
    const { ask } = yield* start({ lanes: [lane("lake", { condition: "misconfigured", message: "401" })] })
    expect((yield* ask("/readyz")).status).toBe(200)
  })

  it.live("/readyz fails while the journal can't store an event, and during a drain", function* () {
    for (const health of ["starting", "full", "broken"] as const) {
      const { ask } = yield* start({ status: { health, message: "the reason" } })
      const response = yield* ask("/readyz")
      expect([response.status, yield* text(response)]).toEqual([503, `${health}: the reason\n`])
      expect(yield* json(yield* ask("/api/v1/status"))).toMatchObject({ notReady: `${health}: the reason` })
    }
    const { ask } = yield* start({ draining: true })
    expect((yield* ask("/readyz")).status).toBe(503)
    expect(yield* json(yield* ask("/api/v1/status"))).toMatchObject({ notReady: "draining", draining: true })
  })

  it.live("/readyz stays ready on a red journal, because new events are stored", function* () {
    const { ask } = yield* start({ status: { health: "red", message: "a record was damaged" } })
    expect((yield* ask("/readyz")).status).toBe(200)
  })
})

describe("a request without a Host, by HTTP/1.0", () => {
  const asking = Effect.fnUntraced(function* (head: string) {
    const { handle } = yield* start()
    const address = { host: "127.0.0.1", port: 0 }
    const { port } = (yield* Runtime.serve({ address, handler: handle })).address
    return (yield* Effect.promise(() => Raw.send(port, head))).statuses
  })

  it.live("is answered if it is a probe", function* () {
    expect(yield* asking("GET /readyz HTTP/1.0\r\n\r\n")).toEqual([200])
    expect(yield* asking("GET /healthz?from=haproxy HTTP/1.0\r\n\r\n")).toEqual([200])
    expect(yield* asking("GET /readyz HTTP/1.1\r\nHost:\r\n\r\n")).toEqual([200])
  })

  it.live("is refused if it isn't a probe", function* () {
    expect(yield* asking("GET /api/v1/status HTTP/1.0\r\n\r\n")).toEqual([421])
    expect(yield* asking("GET //localhost/readyz HTTP/1.0\r\n\r\n")).toEqual([421])
    expect(yield* asking("POST /api/v1/reload HTTP/1.0\r\nContent-Length: 0\r\n\r\n")).toEqual([400])
  })
})

describe("an import", () => {
  it.live("refuses an event that could not be shown, and takes it with a time that can be", function* () {
    const { ask } = yield* start()
    const send = (receivedAt: number) => {
      const { body, ...facts } = event("evt_1", { receivedAt })
      const bodyBase64 = Buffer.from(body).toString("base64")
      const kept = { ...facts, journal: "a", in: "log", pending: ["lake"], sequence: 1, replayed: false, bodyBase64 }
      const headers = { "content-type": "application/json" }
      return Effect.map(
        ask("/api/v1/journal/import", { method: "POST", headers, body: JSON.stringify({ events: [kept] }) }),
        ({ status }) => status,
      )
    }
    expect(yield* send(8.64e15 + 2)).toBe(400)
    expect(yield* send(8.64e15)).toBe(200)
  })
})

describe("what a request may cost the relay", () => {
  it.live("refuses a live stream beyond the limit with words, and takes one again once another ends", function* () {
    const { ask } = yield* start()
    const open = () => Effect.map(ask("/api/v1/tap"), ({ body, status }) => ({ status, reader: body?.getReader() }))
    const streams = yield* Effect.forEach(Array.from({ length: mostStreams }), open)
    for (const { reader } of streams) yield* Effect.promise(async () => reader?.read())
    const refused = yield* ask("/api/v1/tap")
    expect([refused.status, yield* json(refused)]).toEqual([
      429,
      expect.objectContaining({ message: expect.stringContaining(`${mostStreams} live streams are open`) }),
    ])
    yield* Effect.promise(async () => streams[0]?.reader?.cancel())
    const again = yield* Effect.repeat(open(), { until: ({ status }) => status === 200 })
    expect(again.status).toBe(200)
    for (const { reader } of [...streams, again]) yield* Effect.promise(async () => reader?.cancel())
  })

  it.live("refuses a body that is larger than its endpoint needs, or of unknown length, unread", function* () {
    const { ask } = yield* start()
    const post = (path: string, headers: Readonly<Record<string, string>>) =>
      Effect.map(
        ask(path, { method: "POST", body: "{}", headers: { "content-type": "application/json", ...headers } }),
        ({ status }) => status,
      )
    const large = { "content-length": String(2 * 1024 * 1024) }
    expect(yield* post("/api/v1/dead-letters/drop", large)).toBe(413)
    expect(yield* post("/api/v1/journal/import", large)).toBe(400)
    expect(yield* post("/api/v1/journal/import", { "content-length": String(65 * 1024 * 1024) })).toBe(413)
    expect(yield* post("/api/v1/dead-letters/drop", { "transfer-encoding": "chunked" })).toBe(411)
  })
})

describe("the admin API", () => {
  it.live("answers a refused request with problem+json", function* () {
    const { ask } = yield* start()
    const response = yield* ask("/api/v1/status", { headers: { host: "evil.example" } })
    expect(response.status).toBe(421)
    expect(response.headers.get("content-type")).toBe("application/problem+json")
    expect(yield* json(response)).toMatchObject({ status: 421, requestId: expect.any(String) })
  })

  it.live("shows when a lane tries next, and its last failure", function* () {
    const { ask } = yield* start({
      lanes: [lane("lake", { nextAttemptAt: 7, lastFailure: { at: 5, message: "refused" } })],
    })
    expect(yield* json(yield* ask("/api/v1/status"))).toMatchObject({
      totals: { received: 0, refused: 0 },
      lanes: [{ name: "lake", nextAttemptAt: 7, lastFailure: { at: 5, message: "refused" } }],
    })
  })

  it.live("has the steps of a lane's last hour, and refuses an unknown lane", function* () {
    const { ask } = yield* start()
    expect(yield* json(yield* ask("/api/v1/lanes/lake/history"))).toEqual({
      since: expect.any(Number),
      ...{ at: [], delivered: [], failed: [], backlog: [], p99: [] },
    })
    expect((yield* ask("/api/v1/lanes/nobody/history")).status).toBe(404)
  })

  it.live("shows which lanes send digests", function* () {
    const [lake] = config().sinks
    if (lake === undefined) return expect.unreachable()
    const digest = { sends: "digest", resolves: false, wait: Duration.minutes(5), maxEvents: 10 } as const
    const { ask } = yield* start({
      lanes: [lane("lake"), lane("chat")],
      config: { sinks: [lake, { ...lake, name: "chat", alert: digest }] },
    })
    const { lanes } = (yield* json(yield* ask("/api/v1/status"))) as Status
    expect(lanes.map(({ name, digest }) => [name, digest])).toEqual([
      ["lake", undefined],
      ["chat", true],
    ])
  })

  it.live("reports the relay's health", function* () {
    const { ask } = yield* start()
    expect(yield* json(yield* ask("/api/v1/status"))).toMatchObject({
      version: "1.2.3",
      journal: { health: "ok", head: 0 },
      lanes: [
        { name: "lake", condition: "running" },
        { name: "old", condition: "orphaned", backlog: 3 },
      ],
    })
  })

  it.live("lists the refused requests of the last hour, with reasons and remedies", function* () {
    const refused = {
      webhook: "",
      reason: "unknownPath",
      requestId: "abc-7",
      from: "203.0.113.7",
      detail: "/hooks/schedulng",
    } as const
    const { ask } = yield* start({ refused: [refused, refused] })
    expect(yield* json(yield* ask("/api/v1/status"))).toMatchObject({
      refusals: [
        {
          webhook: "",
          reason: "unknownPath",
          status: 404,
          count: 2,
          lastRequestId: "abc-7",
          what: "no webhook has this path",
          advice: expect.stringContaining("edit panel"),
          details: [{ detail: "/hooks/schedulng", count: 2 }],
        },
      ],
    })
  })

  it.live("names the webhook whose path is similar to the refused path", function* () {
    const advice = Effect.fnUntraced(function* (detail: string) {
      const refused = { webhook: "", reason: "unknownPath", requestId: "abc-7", from: "", detail } as const
      const { ask } = yield* start({ refused: [refused], config: { webhooks: [webhook({ path: "/hooks/one" })] } })
      const status = (yield* json(yield* ask("/api/v1/status"))) as Status
      return status.refusals[0]?.advice
    })
    for (const path of ["/hooks/one/", "//hooks/one", "/Hooks/One", "/relay/hooks/one", "/one"]) {
      const named = `${path} is almost the path of scheduling, /hooks/one. Then compare it with the receiver URL`
      expect(yield* advice(path)).toStartWith(named)
    }
    for (const path of ["/", "/hooks/two", "/wp-login.php", "/hooks/one/two"]) {
      expect(yield* advice(path)).toStartWith("compare it with the receiver URL")
    }
  })

  it.live("names a secret that can't be one before it advises to compare the secrets", function* () {
    const refused = {
      webhook: "scheduling",
      reason: "signatureMismatch",
      requestId: "abc-7",
      from: "203.0.113.7",
      detail: "",
    } as const
    const secret = (name: string, value: string) => ({ name, value: Redacted.make(value) })
    const right = webhook({ secrets: [secret("main", "a-long-signing-secret")] })
    const other = webhook({ name: "other", secrets: [secret("second", "export SECRET=a-long-signing-secret")] })
    const advice = Effect.fnUntraced(function* (webhooks: ReadonlyArray<Webhook>) {
      const { ask } = yield* start({ refused: [refused], config: { webhooks } })
      const status = (yield* json(yield* ask("/api/v1/status"))) as Status
      return status.refusals[0]?.advice
    })
    expect(yield* advice([right])).toStartWith("compare the secret with the one in")
    const named = yield* advice([right, other])
    expect(named).toStartWith("look at the secret second: this is a name with a value (KEY=value)")
    expect(named).toContain("Then compare the secret with the one in")
    expect(named).not.toContain("a-long-signing-secret")
    expect(yield* advice([right, { ...other, path: "/other" }])).toStartWith("compare the secret")
  })

  it.live("writes the changes of a request to the relay's log", () => {
    const lines: Array<string> = []
    const reload = Effect.as(Effect.logInfo("reloaded"), { file: "x", changes: [], notes: [], warnings: [] })
    return Effect.gen(function* () {
      const { post } = yield* start({ reload })
      expect((yield* post("/api/v1/reload")).status).toBe(200)
      expect(lines).toEqual(["reloaded"])
    }).pipe(
      Effect.provide(Logger.layer([Logger.make(({ message }) => void lines.push(String(message)))])),
      Effect.orDie,
    )
  })

  it.live("refuses to pause the quarantine, and resumes a paused quarantine", function* () {
    const { post, told } = yield* start({ lanes: [lane("_quarantine", { condition: "paused" })] })
    const refused = yield* post("/api/v1/lanes/_quarantine/pause")
    expect([refused.status, yield* json(refused)]).toEqual([
      409,
      expect.objectContaining({ message: expect.stringContaining("_quarantine can't be paused: it sends nothing") }),
    ])
    expect((yield* post("/api/v1/lanes/_quarantine/resume")).status).toBe(204)
    expect(yield* told).toEqual(["resume _quarantine"])
  })

  it.live("mutes a sink that sends alerts, and no other", function* () {
    const lanes = [lane("oncall", { type: "pagerduty" }), lane("lake", { type: "kafka" })]
    const { ask, post, told } = yield* start({ lanes })
    const muted = yield* post("/api/v1/lanes/oncall/pause?for=60000&ending=drop")
    expect(yield* json(muted)).toEqual({ until: expect.any(Number), ending: "drop" })
    const refused = yield* post("/api/v1/lanes/lake/pause?for=60000&ending=drop")
    expect([refused.status, yield* json(refused)]).toEqual([
      409,
      expect.objectContaining({
        message:
          "lake is a sink of the type kafka, whose events must be delivered: only a sink that sends alerts (alertmanager, discord, email, pagerduty, slack, teams) can be muted with digest or drop",
      }),
    ])
    const endless = yield* post("/api/v1/lanes/oncall/pause?ending=digest")
    expect([endless.status, yield* json(endless)]).toEqual([
      409,
      expect.objectContaining({ message: "`ending` takes effect when the pause ends, so it needs `for`" }),
    ])
    expect((yield* post("/api/v1/lanes/nope/pause?for=60000&ending=digest")).status).toBe(404)
    expect(yield* told).toEqual([
      expect.stringMatching(/^mute oncall until \d+ then drop$/),
      expect.stringMatching(/^mute nope until \d+ then digest$/),
    ])
    const { lanes: shown } = (yield* json(yield* ask("/api/v1/status"))) as { lanes: ReadonlyArray<object> }
    expect(shown).toMatchObject([{ name: "oncall", alerts: true }, { name: "lake" }])
    expect(shown[1]).not.toHaveProperty("alerts")
  })

  it.live("controls lanes, and refuses unknown lanes and impossible changes", function* () {
    const { post, told } = yield* start()
    const statuses: Record<string, number> = {}
    for (const path of ["lake/pause", "lake/resume", "nope/pause", "lake/drop", "old/drop"]) {
      statuses[path] = (yield* post(`/api/v1/lanes/${path}`)).status
    }
    for (const [from, to] of [
      ["old", "lake"],
      ["old", "nope"],
      ["old", "old"],
      ["lake", "old"],
    ]) {
      statuses[`${from}>${to}`] = (yield* post(`/api/v1/lanes/${from}/move`, { to })).status
    }
    expect(statuses).toEqual({
      "lake/pause": 200,
      "lake/resume": 204,
      "nope/pause": 404,
      "lake/drop": 409,
      "old/drop": 200,
      "old>lake": 200,
      "old>nope": 404,
      "old>old": 409,
      "lake>old": 409,
    })
    expect(yield* told).toEqual(["pause lake", "resume lake", "pause nope", "drop old", "move old lake"])
  })

  it.live("lists dead letters newest first, page by page, without a payload", function* () {
    const admin = yield* start()
    yield* letters(admin, 5)
    const page = yield* json(yield* admin.ask("/api/v1/dead-letters?limit=2"))
    expect(page).toMatchObject([{ id: "lake:5" }, { id: "lake:4" }])
    expect(JSON.stringify(page)).not.toContain("body")
    const next = yield* json(yield* admin.ask("/api/v1/dead-letters?limit=2&before=lake:4"))
    expect(next).toMatchObject([{ id: "lake:3" }, { id: "lake:2" }])
    const nowhere = yield* admin.ask("/api/v1/dead-letters?before=zzz")
    expect([nowhere.status, yield* text(nowhere)]).toEqual([409, expect.stringContaining("there is no place zzz")])
    const typed = yield* json(yield* admin.ask("/api/v1/dead-letters?types=block.created"))
    expect(typed).toHaveLength(2)
    expect(yield* json(yield* admin.ask("/api/v1/dead-letters?types=block.*"))).toEqual(typed)
    expect((yield* admin.ask("/api/v1/dead-letters?limit=0")).status).toBe(400)
  })

  it.live("selects dead letters by sink, type, account, webhook, and the times of receipt and death", function* () {
    const admin = yield* start()
    const { journal } = admin
    for (const lane of ["lake", "crm"]) yield* journal.openLane(lane)
    for (const sequence of [1, 2, 3, 4]) {
      const facts = { accountId: `acct_${sequence % 2}`, webhook: `web_${sequence}`, receivedAt: sequence * 100 }
      const type = sequence === 4 ? "client.created" : "block.created"
      yield* journal.append(event(`evt_${sequence}`, { type, ...facts }), ["lake", "crm"])
      const died = { sequence, at: sequence * 1_000, refunded: 0, failed: [] }
      for (const lane of ["lake", "crm"]) yield* journal.settle([settlement(lane, sequence, { deadLetter: [died] })])
    }
    const list = (query: string) =>
      Effect.map(Effect.flatMap(admin.ask(`/api/v1/dead-letters?sink=lake&${query}`), json), (letters) =>
        (letters as ReadonlyArray<{ readonly id: string }>).map(({ id }) => id).join(" "),
      )
    expect(yield* list("since=200&until=400")).toBe("lake:3 lake:2")
    expect(yield* list("since=200&until=400&limit=1")).toBe("lake:3")
    expect(yield* list("since=200&until=400&limit=1&before=lake:3")).toBe("lake:2")
    expect(yield* list("endedSince=4000")).toBe("lake:4")
    expect(yield* list("endedUntil=2000")).toBe("lake:1")
    expect(yield* list("account=acct_1")).toBe("lake:3 lake:1")
    expect(yield* list("account=acct_1&webhook=web_3")).toBe("lake:3")
    expect(yield* list("types=client.*&types=x.y")).toBe("lake:4")
    const selection = { sink: "lake", since: 200, until: 400 }
    const preview = yield* json(yield* admin.post("/api/v1/dead-letters/preview", selection))
    expect(preview).toMatchObject({ count: 2, groups: [{ sink: "lake", count: 2 }] })
    const replayed = yield* json(yield* admin.post("/api/v1/dead-letters/replay", selection))
    expect(replayed).toEqual({ count: 2, stayed: [], erased: 0 })
    const dropped = yield* json(yield* admin.post("/api/v1/dead-letters/drop", { account: "acct_1", until: 300 }))
    expect(dropped).toEqual({ count: 2 })
    const left = yield* journal.deadLetters({ limit: 10 })
    expect(left.map(({ id }) => id)).toEqual(["lake:4", "crm:4", "crm:3", "crm:2"])
  })

  it.live(
    "replays dead letters into at most half of the backlog limit of their sink, and the rest as they go",
    function* () {
      const backlog = { max: 4, whenFull: "deadLetter" } as const
      const sinks = config().sinks.map((sink) => ({ ...sink, backlog }))
      const admin = yield* start({ config: { sinks } })
      yield* letters(admin, 5)
      const { journal } = admin
      const replay = yield* Effect.forkChild(admin.post("/api/v1/dead-letters/replay", { sink: "lake" }))
      const slices: Array<ReadonlyArray<number>> = []
      for (let left = 5; left > 0; left -= slices.at(-1)?.length ?? 0) {
        const waiting = journal.returned("lake").pipe(Effect.repeat({ until: (some) => some.length > 0 }))
        const sequences = (yield* waiting).map(({ sequence }) => sequence)
        slices.push(sequences)
        yield* journal.settle([settlement("lake", 5, { endRetry: sequences })])
      }
      expect(slices).toEqual([[1, 2], [3, 4], [5]])
      expect(yield* Effect.flatMap(Fiber.join(replay), json)).toEqual({ count: 5, stayed: [], erased: 0 })
    },
  )

  it.live(
    "routes quarantined events within half of the backlog limit of their sinks, and the rest as they go",
    function* () {
      const backlog = { max: 4, whenFull: "refuse" } as const
      const sinks = config().sinks.map((sink) => ({ ...sink, backlog }))
      const { journal, post } = yield* start({ config: { sinks, webhooks: [webhook()], routes } })
      const quarantine = "_quarantine"
      for (const name of [quarantine, "lake"]) yield* journal.openLane(name)
      const problem = "the event type is not in the catalogue"
      for (let index = 1; index <= 5; index++) {
        const body = new TextEncoder().encode(envelope(`evt_${index}`, { type: "client.created" }))
        yield* journal.append(event(`evt_${index}`, { problem, body }), [quarantine])
      }
      const deadLetter = [1, 2, 3, 4, 5].map(letter)
      yield* journal.settle([settlement(quarantine, 5, { deadLetter })])
      const replay = yield* Effect.forkChild(post("/api/v1/dead-letters/replay", { sink: quarantine }))
      const waited: Array<number> = []
      for (let left = 5; left > 0; left -= waited.at(-1) ?? 0) {
        const backlogs = Effect.map(journal.lanes, (lanes) => lanes.find(({ name }) => name === "lake")?.backlog ?? 0)
        waited.push(yield* backlogs.pipe(Effect.repeat({ until: (events) => events > 0 })))
        const newest = (yield* journal.read(5, 10)).at(-1)?.sequence ?? 0
        yield* journal.settle([settlement("lake", newest)])
      }
      expect(waited).toEqual([2, 2, 1])
      expect(yield* Effect.flatMap(Fiber.join(replay), json)).toEqual({ count: 5, stayed: [], erased: 0 })
    },
  )

  it.live("shows one dead letter with its bytes as they came", function* () {
    const admin = yield* start()
    yield* letters(admin, 3)
    const response = yield* admin.ask("/api/v1/dead-letters/lake:2")
    const letter = Schema.decodeUnknownSync(DeadLetterInFull)(yield* json(response))
    expect(letter).toMatchObject({ id: "lake:2", eventId: "evt_2", attempts: [{ message: "too large" }] })
    expect(Buffer.from(letter.body, "base64").toString()).toBe('{"id":"evt_2"}')
    for (const id of ["lake:9", "other:2", "lake:x", "lake"]) {
      expect((yield* admin.ask(`/api/v1/dead-letters/${id}`)).status).toBe(404)
    }
  })

  it.live("replays and drops dead letters by id, by filter, and all of them", function* () {
    const admin = yield* start()
    yield* letters(admin, 1203)
    const count = (path: string, body: unknown) =>
      Effect.flatMap(admin.post(`/api/v1/dead-letters/${path}`, body), json)
    expect(yield* count("drop", { ids: ["lake:1", "lake:9999"] })).toEqual({ count: 1 })
    expect(yield* count("replay", { types: ["block.*"] })).toEqual({ count: 601, stayed: [], erased: 0 })
    expect(yield* count("drop", {})).toEqual({ count: 601 })
    expect(yield* admin.journal.deadLetters({ limit: 10 })).toEqual([])
  })

  it.live("shows the dead letters that a replay would send first and last, and replays them at a rate", function* () {
    const admin = yield* start()
    yield* letters(admin, 12)
    const post = (path: string, body: unknown) => admin.post(`/api/v1/dead-letters/${path}`, body)
    const ends = (body: unknown) =>
      Effect.map(Effect.flatMap(post("preview", body), json), (preview) => {
        const { first, last } = preview as Record<string, ReadonlyArray<{ readonly sequence: number }>>
        return [first, last].map((shown) => shown?.map(({ sequence }) => sequence))
      })
    expect(yield* ends({})).toEqual([
      [1, 2, 3, 4, 5],
      [8, 9, 10, 11, 12],
    ])
    expect(yield* ends({ ids: ["lake:3", "lake:9", "lake:3"] })).toEqual([[3, 9], []])
    expect((yield* post("drop", { rate: 4 })).status).toBe(400)
    expect((yield* post("replay", { rate: 0 })).status).toBe(400)
    expect(yield* json(yield* post("replay", { sink: "lake", rate: 4_000 }))).toMatchObject({ count: 12 })
  })

  it.live("takes no selection of dead letters that it does not know, least of all for all of them", function* () {
    const admin = yield* start()
    yield* letters(admin, 2)
    for (const body of [
      { ids: [] },
      { id: "lake:1" },
      { lanes: "lake" },
      { ids: "lake:1" },
      { ids: ["lake:1"], sink: "lake" },
    ]) {
      expect((yield* admin.post("/api/v1/dead-letters/drop", body)).status).toBe(400)
    }
    expect((yield* admin.ask("/api/v1/dead-letters?lanes=lake")).status).toBe(400)
    expect(yield* admin.journal.deadLetters({ limit: 10 })).toHaveLength(2)
  })

  it.live("reports that a lane doesn't exist, so that a mistyped name isn't an empty list", function* () {
    const admin = yield* start()
    yield* letters(admin, 2)
    const answers = [
      yield* admin.ask("/api/v1/dead-letters?sink=lakes"),
      yield* admin.post("/api/v1/dead-letters/replay", { sink: "lakes" }),
      yield* admin.post("/api/v1/dead-letters/drop", { sink: "lakes", types: ["block.created"] }),
    ]
    for (const answer of answers) {
      expect(answer.status).toBe(404)
      expect(yield* json(answer)).toMatchObject({ message: expect.stringContaining("no lane lakes") })
    }
    for (const type of ["a..b", ""]) {
      const refused = yield* admin.post("/api/v1/dead-letters/drop", { types: [type] })
      expect([refused.status, yield* json(refused)]).toMatchObject([409, { message: expect.stringContaining("empty") }])
    }
    expect((yield* admin.ask("/api/v1/dead-letters?types=a..b")).status).toBe(409)
    expect(yield* admin.journal.deadLetters({ limit: 10 })).toHaveLength(2)
  })

  it.live("describes itself as OpenAPI", function* () {
    const { ask } = yield* start()
    expect(yield* json(yield* ask("/openapi.json"))).toMatchObject({
      info: { title: "relay admin API", version: "1.2.3" },
      paths: {
        "/api/v1/lanes/{name}/pause": { post: expect.anything() },
        "/api/v1/alerts/{sink}/{id}/resolve": { post: expect.anything() },
      },
    })
  })
})
