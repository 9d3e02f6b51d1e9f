import { describe, expect } from "bun:test"
import { Duration, Effect, Schema } from "effect"
import { EventPage, EventReports } from "../../src/admin/api/EventApi.ts"
import type { LaneConfig, RelayConfig } from "../../src/config/Config.ts"
import { instant } from "../../src/formats/Texts.ts"
import { HttpConfig } from "../../src/sinks/http/HttpConfig.ts"
import { answer, attempts, event, letter, retrying, settlement } from "../journal/samples.ts"
import { it } from "../lib/effect.ts"
import { json, lane, config as plainConfig, type Setup, start, text } from "./fixture.ts"

const person = "Ann Example"
const body = new TextEncoder().encode(
  JSON.stringify({
    id: "evt_client",
    account_id: "acct_1",
    version: "1",
    created_at: "2026-11-21T08:00:00Z",
    data: { type: "client.created", object: { id: "cli_1", first_name: person } },
  }),
)

const [sink] = plainConfig().sinks
const sinks = ["lake", "audit"].map((name) => ({
  ...sink,
  name,
  type: name === "lake" ? "file" : "unknown",
  config: { path: `${name}.ndjson`, format: "raw" },
})) as RelayConfig["sinks"]
const route = { except: [], where: {} }
const config = {
  sinks,
  routes: [
    { ...route, name: "clients", match: ["client.*"], where: { "/data/object/id": ["cli_1"] }, to: ["lake"] },
    { ...route, name: "blocks", match: ["block.*"], to: ["lake"] },
  ],
}

/** Three events. The second is a client's, and ends differently at each sink. */
const kept = Effect.fnUntraced(function* (setup: Setup = {}) {
  const admin = yield* start({ config, ...setup })
  const { journal } = admin
  for (const name of ["lake", "audit"]) yield* journal.openLane(name)
  yield* journal.append(event("evt_1", { receivedAt: 10 }), ["lake"])
  yield* journal.append(event("evt_client", { type: "client.created", receivedAt: 20, body }), ["lake", "audit", "old"])
  yield* journal.append(event("", { type: "", accountId: "", problem: "the body is not JSON", receivedAt: 30 }), [
    "_quarantine",
  ])
  yield* journal.settle([
    settlement("lake", 2, { retry: [retrying(2)] }),
    settlement("audit", 2, { deadLetter: [letter(2)] }),
  ])
  const list = (query: string) =>
    Effect.flatMap(admin.ask(`/api/v1/events?${query}`), json).pipe(Effect.map(Schema.decodeUnknownSync(EventPage)))
  const explain = (id: string, query = "") =>
    Effect.flatMap(admin.ask(`/api/v1/events/${encodeURIComponent(id)}${query}`), json).pipe(
      Effect.map(Schema.decodeUnknownSync(EventReports)),
    )
  return { ...admin, list, explain }
})

describe("events of the admin API", () => {
  it.live("are found by an id that looks like a place, beside the event at that place", function* () {
    const { journal, explain } = yield* kept()
    yield* journal.append(event("seq_1", { receivedAt: 40 }), ["lake"])
    const found = (id: string) =>
      Effect.map(explain(id), ({ events }) => events.map((event) => [event.sequence, event.id] as const))
    expect(yield* found("seq_1")).toEqual([
      [1, "evt_1"],
      [4, "seq_1"],
    ])
    expect(yield* found("seq_4")).toEqual([[4, "seq_1"]])
  })

  it.live("distinguish an id that never arrived from one that may have been deleted", function* () {
    const whole = yield* kept()
    expect((yield* whole.explain("evt_none")).kept).toEqual({ since: 10, pruned: false })
    expect((yield* whole.list("account=acct_none")).kept).toEqual({ since: 10, pruned: false })
    expect((yield* whole.explain("evt_1")).kept).toBeUndefined()
    const pruned = yield* kept({ status: { first: 40 } })
    expect((yield* pruned.explain("evt_none")).kept).toEqual({ since: 10, pruned: true })
    const empty = yield* start()
    const none = yield* Effect.flatMap(empty.ask("/api/v1/events/evt_none"), json)
    expect(none).toMatchObject({ kept: { pruned: false } })
  })

  it.live("are listed and explained whatever their time of receipt", function* () {
    const { journal, list, explain } = yield* kept()
    yield* journal.append(event("evt_late", { receivedAt: Number.MAX_SAFE_INTEGER }), ["lake"])
    expect((yield* list("")).events.map(({ receivedAt }) => receivedAt)).toContain(Number.MAX_SAFE_INTEGER)
    expect((yield* explain("evt_late")).events).toHaveLength(1)
    expect(instant(Number.MAX_SAFE_INTEGER)).toBe("9007199254740991 ms")
  })

  it.live("are listed newest first, by type, account, webhook, time and outcome, without a payload", function* () {
    const { ask, list } = yield* kept()
    const sequences = (query: string) => Effect.map(list(query), ({ events }) => events.map((event) => event.sequence))
    expect(yield* sequences("")).toEqual([3, 2, 1])
    expect(yield* sequences("types=client.*")).toEqual([2])
    expect(yield* sequences("account=acct_1&webhook=scheduling")).toEqual([2, 1])
    expect(yield* sequences("since=10&until=20")).toEqual([1])
    expect(yield* sequences("outcome=dead")).toEqual([2])
    expect(yield* list("limit=1&before=3")).toMatchObject({ events: [{ id: "evt_client" }], next: "2" })
    const listed = JSON.stringify(yield* list(""))
    expect(listed).toContain("the sink answered 500")
    expect(listed).not.toContain(person)
    const lost = yield* ask("/api/v1/events?outcome=lost")
    expect([lost.status, yield* text(lost)]).toEqual([400, expect.stringContaining("outcome is one of delivered")])
    const bad = yield* ask("/api/v1/events?types=client..x")
    expect([bad.status, yield* json(bad)]).toEqual([
      409,
      expect.objectContaining({ message: expect.stringMatching(/^the type client\.\.x: .*empty segment/) }),
    ])
  })

  it.live(
    "have a story: the signature, the promised sinks, the current routes, and the state at each sink",
    function* () {
      const waiting = lane("lake", { condition: "waiting", message: "it refuses connections" })
      const { explain } = yield* kept({ lanes: [waiting, lane("audit")] })
      const { events, next } = yield* explain("evt_client")
      expect(next).toBeUndefined()
      expect(events).toMatchObject([
        {
          sequence: 2,
          signature: `sha256=${"A".repeat(64)}`,
          secret: "current",
          webhookId: "wh_1",
          size: body.length,
          routes: [
            {
              route: "clients",
              verdict: "matches",
              because: 'client.* where /data/object/id is "cli_1"',
              sinks: ["lake"],
            },
            { route: "blocks", verdict: "no pattern matches" },
          ],
          sinks: [
            {
              sink: "lake",
              outcome: "retrying",
              due: 2_000,
              attempts: [{ ...attempts[0], answer: "***" }],
              lane: "waiting: it refuses connections",
            },
            {
              sink: "audit",
              outcome: "dead",
              at: 9,
              note: "a sink of the type unknown can't show its payload",
            },
            { sink: "old", outcome: "pending", attempts: [], note: "no sink in the config has this name" },
          ],
        },
      ])
    },
  )

  it.live("show no personal data in requests and answers of sinks, unless asked for", function* () {
    const { explain } = yield* kept()
    const masked = yield* explain("evt_client")
    expect(masked.events[0]?.sinks[0]?.payload).toMatchObject({
      file: "lake.ndjson",
      line: { data: { object: { id: "cli_1", first_name: "***" } } },
    })
    expect(JSON.stringify(masked)).not.toContain(person)
    const revealed = yield* explain("evt_client", "?reveal=true")
    expect(revealed.events[0]?.sinks[0]?.payload).toMatchObject({
      line: { data: { object: { first_name: person } } },
    })
    expect(revealed.events[0]?.sinks.map(({ attempts }) => attempts[0]?.answer)).toEqual([answer, answer, undefined])
  })

  it.live("say that a sink with digests or batches gets another message for several events", function* () {
    const [plain] = sinks
    if (plain === undefined) throw new Error("there is no sink")
    const batches = Schema.decodeUnknownSync(HttpConfig)({ url: "https://lake.example/", format: "ndjson" })
    const grouping: ReadonlyArray<LaneConfig> = [
      { ...plain, name: "alone" },
      {
        ...plain,
        name: "digests",
        alert: { sends: "digest", resolves: false, wait: Duration.seconds(30), maxEvents: 9 },
      },
      { ...plain, name: "batches", type: "http", config: batches },
    ]
    const { explain, journal } = yield* kept({ config: { ...config, sinks: grouping } })
    const names = grouping.map(({ name }) => name)
    for (const name of names) yield* journal.openLane(name)
    yield* journal.append(event("evt_grouped", { type: "client.created", body }), names)
    const { events } = yield* explain("evt_grouped")
    expect(events[0]?.sinks.map(({ payload, sentIn }) => [payload !== undefined, sentIn])).toEqual([
      [true, undefined],
      [true, "digest"],
      [true, "batch"],
    ])
  })

  it.live("show only the length of a body that is not an envelope", function* () {
    const { explain, journal } = yield* kept()
    yield* journal.replay([1, 2].map((sequence) => ({ sequence, sinks: ["lake"] })))
    yield* journal.append(event("evt_odd", { body: new TextEncoder().encode(person) }), ["lake"])
    const story = yield* explain("evt_odd")
    expect(story.events).toMatchObject([
      { size: person.length, sinks: [{ note: expect.stringContaining("is not an envelope") }] },
    ])
    expect(JSON.stringify(story)).not.toContain(person)
  })

  it.live("without an id are named by their place in the log, with the reason for the quarantine", function* () {
    const { explain } = yield* kept()
    const { events } = yield* explain("seq_3")
    expect(events).toMatchObject([{ sequence: 3, id: "", problem: "the body is not JSON", routes: [] }])
    expect((yield* explain("seq_4")).events).toEqual([])
    expect((yield* explain("evt_none")).events).toEqual([])
  })

  it.live("have their replays in their story, with the payload only once", function* () {
    const { explain, journal } = yield* kept()
    yield* journal.replay([{ sequence: 2, sinks: ["audit"] }])
    const { events } = yield* explain("evt_client")
    expect(events.map(({ sequence, origin }) => [sequence, origin])).toEqual([
      [4, "replayed"],
      [2, "delivered"],
    ])
    expect(events[0]?.sinks).toEqual([{ sink: "audit", outcome: "pending", attempts: [] }])
  })

  it.live("are searched until the end of the journal", function* () {
    const { handle, journal } = yield* kept()
    let asked = 0
    const { events } = journal
    Object.assign(journal, {
      events: (query: Parameters<typeof events>[0]) =>
        ++asked < 4 ? Effect.succeed({ events: [], looked: 1, lookedTo: 5, next: String(100 - asked) }) : events(query),
    })
    const response = yield* Effect.promise(async () =>
      handle(new Request("http://127.0.0.1:9080/api/v1/events/evt_1", { headers: { host: "127.0.0.1:9080" } })),
    )
    expect(yield* json(response)).toMatchObject({ events: [{ sequence: 1 }], looked: 6 })
  })
})
