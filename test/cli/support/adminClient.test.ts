/** The commands that ask a running relay, over HTTP, against the admin API on a journal in memory. */
import { afterAll, describe, expect } from "bun:test"
import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Effect, Redacted } from "effect"
import { Journal } from "../../../src/journal/Journal.ts"
import * as SqliteJournal from "../../../src/journal/sqlite/SqliteJournal.ts"
import { lane, type Setup, start } from "../../admin/fixture.ts"
import { event, optionsAt, retrying, settlement } from "../../journal/samples.ts"
import { it } from "../../lib/effect.ts"
import { cli } from "../harness.ts"

const directory = mkdtempSync(join(tmpdir(), "relay-asking-"))
afterAll(() => rmSync(directory, { recursive: true }))

let files = 0

/** Serves an admin API, and gives the command line that talks to it. */
const running = Effect.fnUntraced(function* (setup: Setup = {}, token?: string) {
  const admin = yield* start(setup)
  const server = yield* Effect.acquireRelease(
    Effect.sync(() => Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: admin.handle })),
    (server) => Effect.promise(() => server.stop(true)),
  )
  const file = join(directory, `${files++}.json`)
  const section = { listen: `127.0.0.1:${server.port}`, ...(token === undefined ? {} : { token }) }
  // Only the admin part can be read: the rest is out of this user's reach.
  writeFileSync(file, JSON.stringify({ admin: section, webhooks: { a: { secrets: "file:/nonexistent" } } }))
  const ask = (...args: ReadonlyArray<string>) => Effect.promise(() => cli([...args, "-c", file]))
  return { ...admin, ask }
})

const deadLetter = (sequence: number) => ({
  sequence,
  at: 9,
  refunded: 0,
  failed: [{ at: 5, reason: "DeliveryRejected", message: "the sink answered 422\u001b[2J" }],
})

describe("asking a running relay", () => {
  it.live("status exits 0 when all is well and 1 when something is red, as text and as JSON", () =>
    Effect.gen(function* () {
      const well = yield* running({
        lanes: [lane("lake", { condition: "waiting", message: "it refuses connections" })],
      })
      expect((yield* well.ask("status")).code).toBe(0)
      const ill = yield* running({ lanes: [lane("lake", { condition: "misconfigured", message: "it answers 401" })] })
      const text = yield* ill.ask("status")
      expect([text.code, text.stderr]).toEqual([1, ""])
      expect(text.stdout).toStartWith("lake: misconfigured; it answers 401")
      const asJson = yield* ill.ask("status", "--json")
      expect(asJson.code).toBe(1)
      expect(JSON.parse(asJson.stdout)).toMatchObject({ red: true, lanes: [{ name: "lake" }] })
    }).pipe(Effect.orDie),
  )

  it.live("lanes are listed and steered, and a refusal is told as the relay said it", () =>
    Effect.gen(function* () {
      const { ask, told } = yield* running()
      expect((yield* ask("lanes", "list")).stdout).toMatch(/old +- +orphaned +3/)
      expect((yield* ask("lanes", "pause", "lake")).code).toBe(0)
      expect((yield* ask("lanes", "move", "old", "lake")).stdout).toBe("3 events moved from old to lake\n")
      expect(yield* told).toEqual(["pause lake", "move old lake"])
      expect(yield* ask("lanes", "drop", "lake")).toMatchObject({
        code: 1,
        stderr: "relay: the sink lake is in the config\n",
      })
      expect((yield* ask("lanes", "resume", "nope")).stderr).toBe(
        "relay: there is no lane nope; `relay lanes list` shows them\n",
      )
    }).pipe(Effect.orDie),
  )

  it.live("dead letters are listed with why, shown in full, replayed and dropped", () =>
    Effect.gen(function* () {
      const { ask, journal } = yield* running()
      yield* journal.openLane("lake")
      for (const sequence of [1, 2, 3]) {
        yield* journal.append(event(`evt_${sequence}`), ["lake"])
        yield* journal.settle([settlement("lake", sequence, { deadLetter: [deadLetter(sequence)] })])
      }
      const list = yield* ask("dlq", "list")
      expect(list.stdout).toMatch(/lake:3 +appointment\.created +evt_3 .* the sink answered 422/)
      // What a sink answered must not clear the terminal.
      expect(list.stdout).not.toContain("\u001b")
      expect((yield* ask("dlq", "list", "--limit", "2")).stderr).toContain("--before lake:2")
      expect((yield* ask("dlq", "show", "lake:2")).stdout).toContain('{"id":"evt_2"}')
      expect((yield* ask("dlq", "show", "lake:7")).code).toBe(1)
      expect((yield* ask("dlq", "replay", "lake:1", "lake:2")).stdout).toBe(
        "2 dead letters queued for delivery again\n",
      )
      const absent = yield* ask("dlq", "replay", "lake:1")
      expect([absent.code, absent.stdout]).toEqual([1, "0 dead letters queued for delivery again\n"])
      expect(absent.stderr).toContain("`relay dlq list` shows the dead letters")
      expect((yield* ask("dlq", "drop", "--all", "--json")).stdout).toBe('{\n  "count": 1\n}\n')
      expect((yield* ask("dlq", "list")).stderr).toBe("no dead letters\n")
    }).pipe(Effect.orDie),
  )

  it.live("what is in quarantine says how it gets out, and why it does not", () =>
    Effect.gen(function* () {
      const { ask, journal } = yield* running()
      yield* journal.openLane("_quarantine")
      for (const sequence of [1, 2]) {
        yield* journal.append(event(`evt_${sequence}`, { problem: "the body is not JSON" }), ["_quarantine"])
        yield* journal.settle([settlement("_quarantine", sequence, { deadLetter: [deadLetter(sequence)] })])
      }
      expect((yield* ask("dlq", "list")).stderr).toContain("`relay dlq replay` routes what is in _quarantine again")
      expect((yield* ask("dlq", "show", "_quarantine:2")).stdout).toContain("relay dlq replay _quarantine:2")
      const why = "the webhook scheduling is not in the config"
      expect(yield* ask("dlq", "replay", "_quarantine:1", "_quarantine:2")).toEqual({
        code: 0,
        stdout: `0 dead letters queued for delivery again\n2 dead letters still in quarantine: ${why}\n`,
        stderr: "",
      })
      expect(JSON.parse((yield* ask("dlq", "replay", "--all", "--json")).stdout)).toEqual({
        count: 0,
        stayed: [{ why, count: 2 }],
      })
    }).pipe(Effect.orDie),
  )

  it.live("nothing is replayed or dropped because nothing was said, or two things were", () =>
    Effect.gen(function* () {
      const { ask } = yield* running()
      for (const args of [[], ["lake:1", "--all"], ["--all", "--sink", "lake"], ["lake:1", "--type", "a.b"]]) {
        expect((yield* ask("dlq", "drop", ...args)).code).toBe(64)
      }
    }).pipe(Effect.orDie),
  )

  it.live("replay sends what the journal holds, between two times", () =>
    Effect.gen(function* () {
      const { ask, journal } = yield* running()
      yield* journal.openLane("lake")
      yield* journal.append(event("evt_1", { receivedAt: Date.UTC(2026, 0, 2) }), ["lake"])
      const between = (since: string, until: string) =>
        ask("replay", "--sink", "lake", "--since", since, "--until", until, "--type", "appointment.*")
      expect((yield* between("2026-01-02", "2026-01-03")).stdout).toBe("1 event queued for lake again\n")
      expect((yield* between("2026-01-03", "2026-01-04")).stdout).toBe("0 events queued for lake again\n")
      expect((yield* between("2026-01-03", "2026-01-02")).code).toBe(64)
      expect((yield* ask("replay", "--sink", "nope", "--since", "1 day")).code).toBe(1)
      expect((yield* ask("journal", "acknowledge")).code).toBe(0)
    }).pipe(Effect.orDie),
  )

  it.live("journal import brings back what a journal or its salvage owed, once, and names sinks that are no more", () =>
    Effect.gen(function* () {
      const { ask, journal } = yield* running()
      yield* journal.openLane("lake")
      const other = optionsAt(join(directory, "other", "journal.db"))
      yield* Effect.flatMap(Journal, (journal) =>
        Effect.gen(function* () {
          for (const lane of ["lake", "old"]) yield* journal.openLane(lane)
          for (let index = 1; index <= 450; index++) yield* journal.append(event(`evt_${index}`), ["lake", "old"])
          const done = Array.from({ length: 400 }, (_, index) => index + 1)
          yield* journal.settle([
            settlement("lake", done.length, { deadLetter: [deadLetter(7)], retry: [retrying(9)] }),
          ])
        }),
      ).pipe(Effect.provide(SqliteJournal.layer(other)))
      const salvaged = join(directory, "salvaged.ndjson")
      expect((yield* ask("journal", "salvage", salvaged, other.path)).code).toBe(0)
      const first = yield* ask("journal", "import", other.path)
      expect([first.code, first.stderr]).toEqual([0, ""])
      expect(first.stdout).toBe(
        "51 events queued for delivery, 1 dead letter restored\n  450 events for old not imported: the config has no such sink; add it and import again, or ignore them\n",
      )
      const entries = (yield* journal.read(0, 1_000)).filter(({ sinks }) => sinks.length > 0)
      expect(entries.map(({ event }) => event)).toEqual(
        [9, ...Array.from({ length: 50 }, (_, i) => 401 + i)].map((n) => event(`evt_${n}`)),
      )
      // A line that was cut short costs itself alone.
      appendFileSync(salvaged, '{"journal":"cut sh')
      const again = yield* ask("journal", "import", salvaged)
      expect([again.code, again.stderr]).toEqual([0, ""])
      expect(again.stdout).toStartWith(
        "0 events queued for delivery, 52 events already in the journal\n  1 record of it could not be read\n  450 ",
      )
      expect(JSON.parse((yield* ask("journal", "import", salvaged, "--json")).stdout)).toMatchObject({
        known: 52,
        pending: 0,
      })
      const { code, stderr } = yield* ask("journal", "import", join(directory, "nothing"))
      expect([code, stderr]).toEqual([74, expect.stringContaining("nothing can't be read")])
    }).pipe(Effect.orDie),
  )

  it.live("the token of the config is sent; one that does not fit is told as such, and not shown", () =>
    Effect.gen(function* () {
      const admin = { listen: { host: "127.0.0.1", port: 9080 }, token: Redacted.make("the-right-token") }
      expect((yield* (yield* running({ admin }, "the-right-token")).ask("lanes", "list")).code).toBe(0)
      const { code, stderr } = yield* (yield* running({ admin }, "another-token")).ask("lanes", "list")
      expect([code, stderr]).toEqual([69, expect.stringContaining("rejects the token")])
      expect(stderr).not.toContain("another-token")
    }).pipe(Effect.orDie),
  )

  it.live("another program on the address is no relay", () =>
    Effect.gen(function* () {
      const server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => Response.json({ hello: "world" }) })
      const file = join(directory, "other.json")
      writeFileSync(file, JSON.stringify({ admin: { listen: `127.0.0.1:${server.port}` } }))
      const { code, stderr } = yield* Effect.promise(() => cli(["status", "-c", file]))
      expect([code, stderr]).toEqual([69, expect.stringContaining("not a relay of this version")])
      yield* Effect.promise(() => server.stop(true))
    }).pipe(Effect.orDie),
  )
})
