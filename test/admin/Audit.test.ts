/** Who may change what by the admin API, and the record of it. */
import { describe, expect } from "bun:test"
import { Deferred, Effect, Fiber, Redacted } from "effect"
import { operations } from "../../src/admin/AuditedOperations.ts"
import { Api, type AuditPage } from "../../src/admin/api/Api.ts"
import type { AdminToken } from "../../src/config/Config.ts"
import type { AuditRecord } from "../../src/journal/AuditLog.ts"
import { unavailable } from "../../src/journal/JournalError.ts"
import { ReloadRefused } from "../../src/reload/Reload.ts"
import { event, settlement } from "../journal/samples.ts"
import { it } from "../lib/effect.ts"
import { json, lane, type Setup, start } from "./fixture.ts"

const tokens: ReadonlyArray<AdminToken> = [
  { name: "ada", role: "operate", value: Redacted.make("the-token-of-ada") },
  { name: "screen", role: "read", value: Redacted.make("the-token-of-the-screen") },
]
const bearer = (who: "ada" | "the-screen") => ({ authorization: `Bearer the-token-of-${who}` })

/** All endpoints, each with its name (such as `lanes.pause`), method and path. */
const endpoints = Object.values(Api.groups).flatMap((group) =>
  Object.values(group.endpoints).map(({ identifier, method, path }) => ({
    name: `${group.identifier}.${identifier}`,
    method,
    path,
  })),
)
const changing = endpoints.filter(({ method }) => method !== "GET")

/** These endpoints change nothing. */
const notRecorded = ["deadLetters.preview"]

const { body, ...facts } = event("evt_9")
const owed = {
  ...{ ...facts, journal: "j1", in: "log", pending: ["lake"], sequence: 9, replayed: false },
  bodyBase64: Buffer.from(body).toString("base64"),
}

/** A request to each endpoint, with its record in the audit log. */
const requests: Readonly<
  Record<string, { path: string; body?: unknown; record: Partial<AuditRecord> & Pick<AuditRecord, "what" | "on"> }>
> = {
  "relay.reload": { path: "/reload", record: { what: "reload", on: "" } },
  "relay.import": {
    path: "/journal/import",
    body: { events: [owed] },
    record: { what: "journal import", on: "journal j1" },
  },
  "relay.acknowledge": { path: "/journal/acknowledge", record: { what: "journal acknowledge", on: "" } },
  "lanes.pause": { path: "/lanes/lake/pause", record: { what: "lanes pause", on: "lake" } },
  "lanes.resume": { path: "/lanes/lake/resume", record: { what: "lanes resume", on: "lake" } },
  "alerts.acknowledge": { path: "/alerts/chat/7/acknowledge", record: { what: "alerts ack", on: "chat 7" } },
  "alerts.resolve": { path: "/alerts/chat/7/resolve", record: { what: "alerts resolve", on: "chat 7" } },
  "lanes.move": {
    path: "/lanes/old/move",
    body: { to: "lake" },
    record: { what: "lanes move", on: "old lake", note: "3 events" },
  },
  "lanes.drop": { path: "/lanes/old/drop", record: { what: "lanes drop", on: "old", note: "3 events" } },
  "deadLetters.replay": {
    path: "/dead-letters/replay",
    body: { ids: ["lake:1"] },
    record: { what: "dlq replay", on: "lake:1", note: "1 dead letter" },
  },
  "events.erase": {
    path: "/events/erase",
    body: { event: "evt_1" },
    record: { what: "events erase", on: "--event sha256:7d4e5a76eae6d8c1", note: "1 erased, 0 left undelivered" },
  },
  "relay.restart": { path: "/restart", record: { what: "restart", on: "", note: "process 4242 was started" } },
  "deadLetters.drop": {
    path: "/dead-letters/drop",
    body: { sink: "lake", types: ["client.*"], since: 0 },
    record: {
      what: "dlq drop",
      on: "--sink lake --type client.* --since 1970-01-01T00:00:00.000Z",
      note: "0 dead letters",
    },
  },
  "replays.start": {
    path: "/replays",
    body: { events: { types: ["client.**"], account: "acct_1" }, to: { sink: "lake" } },
    record: {
      what: "replay",
      on: "--to lake --type client.** --account acct_1",
      note: expect.stringContaining("started as"),
    },
  },
  "alerts.mute": {
    path: "/alerts/chat/7/mute?for=3600000",
    record: { what: "alerts mute", on: "chat 7", note: expect.stringMatching(/^until \d{4}-/) },
  },
  "replays.cancel": {
    path: "/replays/none/cancel",
    record: { what: "replay cancel", on: "none", result: "refused", note: expect.stringContaining("no replay none") },
  },
}

const opened = Effect.fnUntraced(function* (setup: Setup = {}) {
  const times = { first: 1_000, last: 1_000, sentAt: 1_000 }
  const facts = { status: "firing", type: "", account: "", count: 1, newest: 7, messages: 1, sent: [] } as const
  const alerts = [{ sink: "chat", id: 7, ...facts, ...times }]
  const admin = yield* start({ admin: { tokens }, alerts, ...setup })
  const send = (path: string, payload: unknown, headers: Record<string, string> = bearer("ada")) =>
    admin.ask(`/api/v1${path}`, {
      method: "POST",
      ...(payload !== undefined && { body: JSON.stringify(payload) }),
      headers: { ...(payload !== undefined && { "content-type": "application/json" }), ...headers },
    })
  const records = (query = "", headers: Record<string, string> = bearer("ada")) =>
    Effect.map(Effect.flatMap(admin.ask(`/api/v1/audit${query}`, { headers }), json), (page) => page as AuditPage)
  return { ...admin, send, records }
})

describe("the audit log", () => {
  it.live("has every endpoint that changes something", function* () {
    const missing = changing.filter(({ name }) => !Object.hasOwn(operations, name) && !notRecorded.includes(name))
    expect(missing.map(({ name }) => name)).toEqual([])
    expect(
      changing
        .map(({ name }) => name)
        .filter((name) => !notRecorded.includes(name))
        .sort(),
    ).toEqual(Object.keys(requests).sort())
  })

  it.live("records until when a sink is muted, and what happens to its events afterwards", function* () {
    const { send, records } = yield* opened({ lanes: [lane("oncall", { type: "email" })] })
    yield* send("/lanes/oncall/pause?for=60000&ending=drop", undefined)
    const note = expect.stringMatching(/^until \d{4}-\S+Z, then drop$/)
    expect((yield* records()).records).toMatchObject([{ what: "lanes pause", on: "oncall", who: "ada", note }])
  })

  for (const [name, { path, body, record }] of Object.entries(requests)) {
    it.live(`has one record of ${name}: the user, the action, its target and the result`, function* () {
      const { journal, send, records } = yield* opened()
      yield* journal.openLane("lake")
      yield* journal.append(event("evt_1"), ["lake"])
      const failed = [{ at: 5, reason: "DeliveryRejected", message: "too large" } as const]
      yield* journal.settle([settlement("lake", 1, { deadLetter: [{ sequence: 1, at: 9, refunded: 0, failed }] })])
      const before = Date.now()
      const response = yield* send(path, body)
      expect([200, 204, 404]).toContain(response.status)
      const { records: found } = yield* records()
      expect(found).toEqual([
        {
          ...{ id: expect.any(Number), at: expect.any(Number), who: "ada", by: "the admin API" },
          ...{ result: "done", note: expect.any(String), relay: "" },
          ...record,
        },
      ])
      expect(found[0]?.at).toBeGreaterThanOrEqual(before)
    })
  }

  it.live("has a hash of an object's id, and not the id", function* () {
    const { send, records, journal } = yield* opened()
    yield* journal.openLane("lake")
    const object = "cli_1"
    yield* send("/events/erase", { object, sink: "lake" })
    yield* send("/dead-letters/drop", { object })
    yield* send("/dead-letters/replay", { object })
    yield* send("/replays", { events: { object }, to: { sink: "lake" } })
    const hash = `--object sha256:${new Bun.CryptoHasher("sha256").update(object).digest("hex").slice(0, 16)}`
    expect((yield* records()).records.map(({ what, on }) => [what, on]).reverse()).toEqual([
      ["events erase", `--sink lake ${hash}`],
      ["dlq drop", hash],
      ["dlq replay", hash],
      ["replay", `--to lake ${hash}`],
    ])
  })

  it.live("names the calling program and its user, also without tokens or with a shared one", function* () {
    const page = { "sec-fetch-site": "same-origin" }
    const open = yield* opened({ admin: {} })
    yield* open.send("/lanes/lake/pause", undefined, page)
    expect((yield* open.records("", {})).records).toMatchObject([{ who: "local", by: "the page" }])
    const one = yield* opened({ admin: { token: Redacted.make("the-token-of-ada") } })
    yield* one.send("/lanes/lake/pause", undefined, { ...page, ...bearer("ada") })
    expect((yield* one.records()).records).toMatchObject([{ who: "admin", by: "the page" }])
  })

  it.live("records why an operation was refused or failed", function* () {
    const refusal = { message: "only a restart changes listen\nand more", diagnostics: [] }
    const { send, records } = yield* opened({
      reload: Effect.fail(new ReloadRefused({ reason: "restart", ...refusal })),
    })
    yield* send("/reload", undefined)
    yield* send("/lanes/lake/drop", undefined)
    yield* send("/dead-letters/drop", { types: ["a["] })
    const failing = yield* opened({ reload: Effect.fail(new ReloadRefused({ reason: "journal", ...refusal })) })
    yield* failing.send("/reload", undefined)
    expect((yield* records()).records.map(({ what, result, note }) => [what, result, note])).toEqual([
      ["dlq drop", "refused", expect.stringContaining("not a regular expression")],
      ["lanes drop", "refused", "the sink lake is in the config"],
      ["reload", "refused", "only a restart changes listen"],
    ])
    expect((yield* failing.records()).records).toMatchObject([
      { what: "reload", result: "failed", note: "only a restart changes listen" },
    ])
  })

  it.live("records operations that ended with a bug, and those that were stopped", function* () {
    const begun = yield* Deferred.make<void>()
    const bug = yield* opened({ reload: Effect.die(new Error("the secret of a bug")) })
    expect((yield* bug.send("/reload", undefined)).status).toBe(500)
    expect((yield* bug.records()).records).toMatchObject([
      { result: "failed", note: expect.not.stringContaining("secret") },
    ])
    const stopped = yield* opened({ reload: Effect.andThen(Deferred.succeed(begun, undefined), Effect.never) })
    const abort = new AbortController()
    const asking = yield* Effect.forkChild(
      stopped.ask("/api/v1/reload", { method: "POST", headers: bearer("ada"), signal: abort.signal }),
    )
    yield* Deferred.await(begun)
    abort.abort()
    yield* Fiber.await(asking)
    expect((yield* stopped.records()).records).toMatchObject([{ what: "reload", result: "failed" }])
  })

  it.live("has no dry run, no preview, and no request that does not match the schema", function* () {
    const { send, records } = yield* opened()
    expect((yield* send("/replays", { events: {}, to: "routed", dryRun: true })).status).toBe(200)
    expect((yield* send("/dead-letters/preview", {})).status).toBe(200)
    expect((yield* send("/dead-letters/drop", { lanes: "lake" })).status).toBe(400)
    expect((yield* send("/lanes/old/move", undefined)).status).toBe(400)
    expect((yield* records()).records).toEqual([])
  })

  it.live("has an import in parts once, and again when a part ends otherwise or is of another journal", function* () {
    const { send, records } = yield* opened()
    const part = (sequence: number, journal = "j1") =>
      send("/journal/import", { events: [{ ...owed, sequence, id: `evt_${sequence}`, journal }] })
    for (let sequence = 1; sequence <= 20; sequence++) yield* part(sequence)
    yield* part(1, "j2")
    yield* part(21)
    expect((yield* records()).records.map(({ on }) => on)).toEqual(["journal j1", "journal j2", "journal j1"])
  })

  it.live("contains no secret and no part of an event, and cuts long texts", function* () {
    const { send, records } = yield* opened()
    yield* send("/journal/import", { events: [{ ...owed, bodyBase64: Buffer.from("payload").toString("base64") }] })
    yield* send("/dead-letters/drop", { ids: Array.from({ length: 1_000 }, (_, index) => `lake:${index}`) })
    const page = yield* records()
    expect(JSON.stringify(page)).not.toMatch(/the-token|payload|cGF5bG9hZA/)
    expect(page.records[0]?.on.length).toBeLessThan(600)
  })

  it.live("is read a page at a time, from a time on", function* () {
    const { send, records } = yield* opened()
    for (let index = 0; index < 5; index++) yield* send("/lanes/lake/pause", undefined)
    const first = yield* records("?limit=3")
    expect(first.records.length).toBe(3)
    const second = yield* records(`?limit=3&before=${first.next}`)
    expect([second.records.length, second.next]).toEqual([2, undefined])
    const ids = [...first.records, ...second.records].map(({ id }) => id)
    expect(ids).toEqual([...new Set(ids)].sort((a, b) => b - a))
    expect((yield* records(`?since=${Date.now() + 60_000}`)).records).toEqual([])
  })

  it.live("doesn't undo an operation if its record can't be written", function* () {
    const { journal, send, told } = yield* opened({ audit: { record: () => Effect.fail(unavailable("no disk")) } })
    expect((yield* send("/lanes/lake/pause", undefined)).status).toBe(200)
    expect(yield* told).toEqual(["pause lake"])
    expect(yield* journal.audit.list({ limit: 9 })).toEqual([])
  })
})

describe("a token", () => {
  for (const { name, path } of changing) {
    it.live(`with the role read is refused ${name}, with its name and the role that is needed`, function* () {
      const { ask, told, records } = yield* opened()
      const url = path.replace(/:\w+/, "lake").replace(":id", "7")
      const response = yield* ask(url, { method: "POST", headers: bearer("the-screen") })
      expect(response.status).toBe(403)
      expect(yield* json(response)).toEqual({
        _tag: "Forbidden",
        message: "the token screen has the role read and can't change anything: use one with the role operate",
        token: "screen",
        needs: "operate",
      })
      expect(yield* told).toEqual([])
      const found = (yield* records()).records
      if (notRecorded.includes(name)) return expect(found).toEqual([])
      expect(found).toMatchObject([
        {
          who: "screen",
          result: "refused",
          on: url === path ? "" : path.includes(":id") && path.includes(":sink") ? "lake 7" : "lake",
          note: expect.stringContaining("role"),
        },
      ])
    })
  }

  it.live("with the role read sees all that can be seen, and that it may only read", function* () {
    const { ask } = yield* opened()
    const headers = bearer("the-screen")
    for (const { path } of endpoints.filter(({ method, name }) => method === "GET" && name !== "relay.tap")) {
      const response = yield* ask(`${path.replace(/:\w+/, "lake")}?type=client.created`, { headers })
      expect([path, [401, 403].includes(response.status)]).toEqual([path, false])
    }
    expect((yield* ask("/metrics", { headers })).status).toBe(200)
    const status = yield* json(yield* ask("/api/v1/status", { headers }))
    expect(status).toMatchObject({ caller: { name: "screen", role: "read" } })
  })

  it.live("with a name is named in the record of its drops", function* () {
    const { journal, send } = yield* opened()
    yield* journal.openLane("lake")
    yield* journal.append(event("evt_1"), ["lake"])
    const failed = [{ at: 5, reason: "DeliveryRejected", message: "too large" } as const]
    yield* journal.settle([settlement("lake", 1, { deadLetter: [{ sequence: 1, at: 9, refunded: 0, failed }] })])
    yield* send("/dead-letters/drop", { ids: ["lake:1"] })
    const { events } = yield* journal.events({ limit: 1 })
    expect(events[0]?.deliveries).toMatchObject([{ sink: "lake", outcome: "dropped", by: "ada (the admin API)" }])
  })
})
