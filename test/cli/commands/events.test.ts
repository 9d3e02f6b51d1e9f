/** `events` and `explain EVENT_ID`, over HTTP, against the admin API on a journal in memory. */
import { describe, expect, test } from "bun:test"
import { readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { Duration, Effect, Layer } from "effect"
import type { EventReport } from "../../../src/admin/api/EventApi.ts"
import { remark, render } from "../../../src/cli/reports/eventReport.ts"
import { painted } from "../../../src/cli/support/output.ts"
import * as SqliteJournal from "../../../src/journal/sqlite/SqliteJournal.ts"
import { lane, config as plainConfig, type Setup, start } from "../../admin/fixture.ts"
import { event, letter, optionsAt, retrying, settlement } from "../../journal/samples.ts"
import { whole } from "../../journal/whole.ts"
import { it } from "../../lib/effect.ts"
import { cli, temporary } from "../harness.ts"

const directory = temporary()

let files = 0
const person = "Ann Example"
const noon = Date.UTC(2026, 0, 2, 12)
const body = new TextEncoder().encode(
  JSON.stringify({
    id: "evt_2",
    account_id: "acct_1",
    version: "1",
    created_at: "2026-01-02T12:00:00Z",
    data: { type: "client.created", object: { id: "cli_1", first_name: person } },
  }),
)

/** A relay that keeps three events; the second is a client's, waiting for a retry. */
const running = Effect.fnUntraced(function* (setup: Setup = {}) {
  const sinks = plainConfig().sinks.map((sink) => ({
    ...sink,
    config: { path: "lake.ndjson", format: "raw", body: "" },
  }))
  const routes = [{ name: "clients", match: ["client.*"], except: [], where: {}, to: ["lake", "new"] }]
  const admin = yield* start({
    lanes: [lane("lake", { condition: "paused", message: "by a person" })],
    config: { sinks, routes },
    ...setup,
  })
  const { journal } = admin
  yield* journal.openLane("lake")
  yield* journal.append(event("evt_1\u001b[2J", { receivedAt: noon }), ["lake"])
  yield* journal.append(event("evt_2", { type: "client.created", receivedAt: noon + 1, body }), ["lake"])
  yield* journal.append(
    event("", { type: "", accountId: "", receivedAt: noon + 2, problem: "the body is not JSON" }),
    [],
  )
  yield* journal.settle([settlement("lake", 2, { retry: [retrying(2)] })])
  const server = yield* Effect.acquireRelease(
    Effect.sync(() => Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: admin.handle })),
    (server) => Effect.promise(() => server.stop(true)),
  )
  const file = join(directory, `${files++}.json`)
  writeFileSync(file, JSON.stringify({ admin: { listen: `127.0.0.1:${server.port}` } }))
  const ask = (...args: ReadonlyArray<string>) => Effect.promise(() => cli([...args, "-c", file]))
  return { journal, ask }
})

/** The report on an event of the relay itself. */
const own: EventReport = {
  sequence: 1,
  origin: "delivered",
  id: "evt_relay_1",
  type: "relay.lane_paused",
  accountId: "",
  webhook: "relay",
  receivedAt: noon,
  webhookId: "",
  signature: "",
  secret: "",
  size: 9,
  sinks: [],
  routes: [],
  timeline: [{ at: noon, what: "received by webhook relay" }],
}

describe("relay events", () => {
  it.live("lists kept events, newest first, with their outcomes", function* () {
    const { ask } = yield* running()
    const { code, stdout, stderr } = yield* ask("events")
    expect([code, stderr]).toEqual([0, ""])
    const [, ...rows] = stdout.trimEnd().split("\n")
    expect(rows).toEqual([
      expect.stringMatching(/12:00:00\.002Z +seq_3 +- +- +scheduling +unrouted$/),
      expect.stringMatching(/12:00:00\.001Z +evt_2 +client\.created +acct_1 +scheduling +lake retrying$/),
      expect.stringMatching(/evt_1\ufffd\[2J .* lake delivered 1970-01-01T00:00:02\.000Z$/),
    ])
    const json = JSON.parse((yield* ask("events", "--json")).stdout)
    expect(json).toMatchObject({ looked: 3, events: [{ sequence: 3 }, { sequence: 2 }, { sequence: 1 }] })
  })

  it.live(
    "shows an event as collecting if its digest was not tried yet, and doesn't list it as retrying",
    function* () {
      const digest = { sends: "digest", resolves: false, wait: Duration.seconds(30), maxEvents: 9 } as const
      const sinks = plainConfig().sinks.map((sink) => ({
        ...sink,
        alert: digest,
        config: { path: "lake.ndjson", format: "raw", body: "" },
      }))
      const queued = lane("lake", { backlog: 2, retrying: 2, oldestAt: noon })
      const { ask, journal } = yield* running({ lanes: [queued], config: { sinks } })
      yield* journal.append(event("evt_4", { receivedAt: noon }), ["lake"])
      yield* journal.settle([settlement("lake", 4, { retry: [{ ...retrying(4), tried: 0, failed: [] }] })])
      const { stdout } = yield* ask("events")
      expect(stdout).toMatch(/evt_4 .* lake collecting\n/)
      expect(stdout).toMatch(/evt_2 .* lake retrying\n/)
      expect((yield* ask("lanes", "list")).stdout).toMatch(/lake +file +running +2 +.* 0 +0\n/)
      const [found] = JSON.parse((yield* ask("lanes", "list", "--json")).stdout)
      expect(found).toMatchObject({ backlog: 2, retrying: 0, collecting: 2 })
    },
  )

  it.live("takes filters, and says where the next page begins or that there are no events", function* () {
    const { ask } = yield* running()
    const page = yield* ask("events", "--limit", "1")
    expect(page.stderr).toBe("1 event searched, back to 2026-01-02T12:00:00.002Z; for older ones: --before 3\n")
    expect((yield* ask("events", "--limit", "1", "--before", "3")).stdout).toContain("evt_2")
    const filters = ["--type", "client.*", "--account", "acct_1", "--webhook", "scheduling", "--outcome", "retrying"]
    const times = ["--since", "2026-01-02", "--until", "2026-01-03"]
    expect((yield* ask("events", ...filters, ...times)).stdout).toContain("evt_2")
    expect((yield* ask("events", "--object", "cli_1")).stdout).toContain("evt_2")
    expect((yield* ask("events", "--object", "cli_2")).stdout).toBe("")
    const none = yield* ask("events", "--account", "acct_2")
    expect([none.code, none.stdout]).toEqual([0, ""])
    expect(none.stderr).toContain("no match in 3 events searched, back to 2026-01-02T12:00:00.000Z")
    for (const [flag, unknown, says] of [
      ["--sink", "lkae", "there is no sink lkae in the config: did you mean lake?"],
      ["--webhook", "elsewhere", "there is no webhook elsewhere in the config: `relay status` shows them"],
      ["--type", "appointmnt.*", "no event type of the scheduling service or the relay matches appointmnt.*"],
    ] as const) {
      expect((yield* ask("events", flag, unknown)).stderr).toContain(says)
      expect((yield* ask("dlq", "list", flag, unknown)).stderr).toContain(flag === "--sink" ? "lkae" : says)
      expect((yield* ask("replay", "--to", "lake", flag, unknown, "--dry-run")).stderr).toContain(says)
    }
    expect(none.stderr).not.toContain("there is no")
    for (const wrong of [
      ["--outcome", "lost"],
      ["--since", "soon"],
      ["--limit", "0"],
      ["--object", ""],
    ]) {
      expect((yield* ask("events", ...wrong)).code).toBe(64)
    }
    expect((yield* ask("events", "--type", "a..b")).code).toBe(64)
  })
})

describe("relay events erase", () => {
  it.live(
    "erases, lists the copies that it leaves or can't reach, and events and explain show the erasure",
    function* () {
      const { ask } = yield* running()
      const dry = yield* ask("events", "erase", "--account", "acct_1", "--dry-run")
      const left = "1 event not erased, because sinks have yet to get them; repeat the command later, or give them up"
      expect([dry.code, dry.stdout]).toEqual([1, "dry run, nothing was erased: 1 event would be erased\n"])
      expect(dry.stderr).toContain(`${left} with --give-up:\n  evt_2 for lake\n`)
      expect((yield* ask("events")).stdout).not.toContain("erased")
      const done = yield* ask("events", "erase", "--account", "acct_1", "--give-up")
      expect([done.code, done.stderr]).toEqual([0, ""])
      expect(done.stdout).toBe(
        "2 events erased\n  1 event among them given up: a sink had yet to get what was erased\n",
      )
      expect((yield* ask("events")).stdout).toMatch(/evt_2 .* lake dropped \(erased 20\S+Z\)\n/)
      const { stdout } = yield* ask("explain", "evt_2", "--reveal")
      expect(stdout).toMatch(/erased +20\S+Z: body, signature and answers are gone\n/)
      expect(stdout).toMatch(/given up by the command line, to be erased\n/)
      expect(stdout).toMatch(/what lake would be sent: its body was erased on 20/)
      expect(stdout).not.toContain(person)
      const again = yield* ask("events", "erase", "--account", "acct_1", "--json")
      expect(JSON.parse(again.stdout)).toMatchObject({ count: 0, before: 2, undelivered: 0 })
    },
  )

  it.live("erases an object's events, and lists the others that have its id elsewhere in their body", function* () {
    const { ask, journal } = yield* running()
    const others = Array.from({ length: 102 }, (_, number) => `other_${number}`)
    for (const id of others) {
      const note = new TextEncoder().encode(JSON.stringify({ note: "for cli_1" }))
      yield* journal.append(event(id, { receivedAt: noon + 3, body: note }), [])
    }
    const { code, stdout } = yield* ask("events", "erase", "--object", "cli_1", "--give-up")
    expect(code).toBe(0)
    expect(stdout).toStartWith("1 event erased\n  1 event among them given up: ")
    expect(stdout).toContain("\nnot erased, but with the id elsewhere in the body: 102 events; `relay explain`")
    expect(stdout).toContain("erases it:\n  seq_4 other_0 appointment.created\n")
    expect(stdout).toEndWith("  seq_103 other_99 appointment.created\n  and 2 others\n")
    const none = yield* ask("events", "erase", "--object", "cli_none")
    expect([none.code, none.stdout]).toEqual([1, "0 events erased\nno other event has the id in its body\n"])
    expect(none.stderr).toContain("the journal holds no event of --object cli_none")
  })

  it.live("wants one selector, and finds an event that there is", function* () {
    const { ask } = yield* running()
    for (const wrong of [[], ["--account", "a", "--event", "b"], ["--account", ""]]) {
      expect((yield* ask("events", "erase", ...wrong)).code).toBe(64)
    }
    const none = yield* ask("events", "erase", "--event", "evt_9")
    expect([none.code, none.stderr]).toEqual([1, expect.stringContaining("the journal holds no event of evt_9")])
  })

  it.live("works on the file while no relay runs, and leaves no byte there", function* () {
    const at = optionsAt(join(directory, "offline", "journal.db"))
    const fill = Effect.flatMap(whole, (journal) =>
      Effect.gen(function* () {
        for (const id of ["evt_1", "evt_2"]) yield* journal.append(event(id, { body, receivedAt: Date.now() }), [])
      }),
    )
    yield* Effect.scoped(Effect.provide(fill, SqliteJournal.layer(at)))
    const file = join(directory, "offline.json")
    writeFileSync(file, JSON.stringify({ journal: { path: at.path } }))
    const files = () => readdirSync(join(directory, "offline")).map((name) => join(directory, "offline", name))
    const holding = () => files().filter((name) => readFileSync(name).includes(person))
    expect(holding()).not.toEqual([])
    const ask = (...args: ReadonlyArray<string>) =>
      Effect.promise(() => cli(["events", "erase", "--account", "acct_1", "--offline", ...args, "-c", file]))
    expect((yield* ask("--dry-run")).stdout).toBe("dry run, nothing was erased: 2 events would be erased\n")
    expect(holding()).not.toEqual([])
    const done = yield* ask()
    expect([done.code, done.stderr]).toEqual([0, ""])
    expect(done.stdout).toMatch(/^2 events erased\nnot reached: blocks of the disk .*\nnot reached: backups, /)
    expect(holding()).toEqual([])
    const recorded = Effect.flatMap(whole, ({ audit }) => audit.list({ limit: 9 }))
    const records = yield* Effect.scoped(Effect.provide(recorded, SqliteJournal.layer(at)))
    expect(records.map(({ who, what, on, note }) => [who, what, on, note])).toEqual([
      [
        expect.stringMatching(/^user /),
        "events erase",
        expect.stringMatching(/^--account sha256:[0-9a-f]{16}$/),
        "2 erased, 0 left undelivered",
      ],
    ])
  })

  it.live("leaves the file unchanged while a relay runs on it", function* () {
    const at = optionsAt(join(directory, "running", "journal.db"))
    const file = join(directory, "running.json")
    writeFileSync(file, JSON.stringify({ journal: { path: at.path } }))
    yield* Layer.build(SqliteJournal.layer(at))
    const asked = yield* Effect.promise(() => cli(["events", "erase", "--event", "a", "--offline", "-c", file]))
    expect([asked.code, asked.stdout]).toEqual([74, ""])
    expect(asked.stderr).toContain("relay")
  })
})

describe("relay explain EVENT_ID", () => {
  it.live("shows an event's origin, the routes, its state at each sink, and what would be sent", function* () {
    const { ask } = yield* running()
    const { code, stdout, stderr } = yield* ask("explain", "evt_2")
    expect([code, stderr]).toEqual([0, ""])
    expect(stdout).toContain("received   2026-01-02T12:00:00.001Z by webhook scheduling (wh_1)")
    expect(stdout).toContain(`sha256=${"A".repeat(64)}, verified by the secret current`)
    expect(stdout).toMatch(/clients +matches +by client\.\* +lake, new/)
    expect(stdout).toContain("routed to lake when it was accepted; the current routes: lake, new")
    expect(stdout).toContain("received by webhook scheduling, verified by the secret current")
    expect(stdout).toMatch(/routed to lake \(the current routes: clients\)/)
    expect(stdout).toMatch(/1970-01-01T00:00:02\.000Z +lake +next attempt/)
    expect(stdout).toContain("the sink lake is paused: by a person")
    expect(stdout).toMatch(/1970-01-01T00:00:00\.005Z +lake +DeliveryFailed: the sink answered 500/)
    expect(stdout).toContain("what lake would be sent, by the current config; personal data is masked")
    expect(stdout).toContain('"first_name": "***"')
  })

  it.live("shows personal data only if asked for", function* () {
    const { ask } = yield* running()
    for (const more of [[], ["--json"], ["--payload", "lake"]]) {
      const { stdout, stderr } = yield* ask("explain", "evt_2", ...more)
      expect([stdout.includes(person), stderr.includes(person), stdout.includes("***")]).toEqual([false, false, true])
      expect((yield* ask("explain", "evt_2", "--reveal", ...more)).stdout).toContain(person)
    }
  })

  it.live("prints one payload by itself, or the reason why there is none", function* () {
    const { ask } = yield* running()
    const one = yield* ask("explain", "evt_2", "--payload", "lake")
    expect(JSON.parse(one.stdout)).toMatchObject({ file: "lake.ndjson", line: { id: "evt_2" } })
    expect(yield* ask("explain", "evt_2", "--payload", "new")).toMatchObject({
      code: 64,
      stdout: "",
      stderr: expect.stringContaining("it was not routed to this sink"),
    })
  })

  it.live("says when and by which attempt an event was delivered, and why one is quarantined", function* () {
    const { ask, journal } = yield* running()
    yield* journal.append(event("evt_4", { receivedAt: noon }), ["lake"])
    const delivered = [{ from: 1, to: 4, at: noon + 9, took: 7, code: 200 }]
    yield* journal.settle([settlement("lake", 4, { delivered })])
    expect((yield* ask("explain", "evt_4")).stdout).toMatch(
      /12:00:00\.009Z +lake +delivered by attempt 1 \(7 ms, answered 200\)/,
    )
    const [found] = JSON.parse((yield* ask("events", "--delivered-after", "2026-01-02", "--json")).stdout).events
    expect(found.timeline).toEqual([
      { at: noon, what: "received by webhook scheduling, verified by the secret current" },
      { at: noon, what: "routed to lake" },
      {
        at: noon + 9,
        sink: "lake",
        what: "delivered by attempt 1",
        attempt: { took: 7, code: 200, delivered: true },
      },
    ])
    expect((yield* ask("events", "--attempts-over", "0")).stdout).toContain("lake retrying")
    expect((yield* ask("explain", "seq_3")).stdout).toMatch(/quarantined +the body is not JSON/)
  })

  it.live("distinguishes replays from received events, and shows the age of dead letters", function* () {
    const { ask, journal } = yield* running()
    yield* journal.settle([settlement("lake", 2, { deadLetter: [letter(2)] })])
    expect((yield* ask("explain", "evt_2")).stdout).toMatch(/1970-01-01T00:00:00\.009Z +lake +became a dead letter/)
    expect((yield* ask("dlq", "replay", "lake:2")).code).toBe(0)
    const { stdout } = yield* ask("explain", "evt_2")
    expect(stdout).toContain("the sink answered 500")
    expect(stdout).toMatch(/1970-01-01T00:00:00\.009Z +lake +became a dead letter/)
    expect(stdout).toMatch(/lake +replayed by the command line\n.*lake +next attempt/)
    expect((yield* ask("replay", "evt_2", "--to", "lake")).code).toBe(0)
    const copied = (yield* ask("explain", "evt_2")).stdout
    expect(copied).toContain("replay of what was received")
    expect(copied).toMatch(/replayed as seq_4 by the command line/)
    expect(copied).toContain("replayed from seq_2")
  })

  it.live(
    "fails for an id that isn't kept, or that belongs to another webhook, and says how far it searched",
    function* () {
      const { ask } = yield* running()
      expect(yield* ask("explain", "evt_none")).toEqual({
        code: 1,
        stdout: "",
        stderr: expect.stringMatching(
          /^relay: evt_none never came: the journal still has every event since 2026-01-02T12:00:00.000Z\nIn the sender's log, look for evt_none\. /,
        ),
      })
      expect((yield* ask("explain", "evt_2", "--webhook", "other")).code).toBe(1)
      expect((yield* ask("explain", "0b6b7f-e1")).code).toBe(1)
    },
  )

  test("says for each sink whether it got the message, and whether the message is a digest", () => {
    const at = { outcome: "delivered", attempts: [], payload: { line: 1 } } as const
    const sinks: EventReport["sinks"] = [
      { ...at, sink: "lake" },
      { ...at, sink: "chat", sentIn: "digest" },
      { ...at, sink: "crm", outcome: "pending" },
    ]
    const lines = render({ ...own, sinks }, painted(false), true, 200).split("\n")
    expect(lines.filter((line) => line.startsWith("what "))).toEqual([
      "what lake was sent, by the current config:",
      "what chat would be sent, by the current config, of this event alone; a digest of several has another body and idempotency key:",
      "what crm would be sent, by the current config:",
    ])
  })

  test("says if the search has not reached the end", () => {
    const page = { events: [], looked: 12_000, lookedTo: noon, next: "7" }
    expect(remark(page, "evt_1")).toBe(
      "evt_1 is not found so far: 12,000 events searched, back to 2026-01-02T12:00:00.000Z. Older events are still being indexed; try again in a minute",
    )
  })

  test("says that the relay's own event has no signature, and that no route matched an event", () => {
    const text = render(own, painted(false), false, 200)
    expect(text).toContain("none, it is the relay's own event")
    expect(text).toContain("no route matched when it was accepted")
  })

  test("says which secret came with an event that its sender did not sign", () => {
    const unsigned = { ...own, type: "invoice.paid", webhook: "billing", signature: "" }
    const textOf = (secret: string) => render({ ...unsigned, secret }, painted(false), false, 200)
    expect(textOf("now")).toContain("none, it came with the secret now")
    expect(textOf("")).toContain("none, its webhook verifies nothing")
  })
})
