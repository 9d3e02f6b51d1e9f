import { describe, expect } from "bun:test"
import { config } from "../../admin/fixture.ts"
import { answer, event, settlement } from "../../journal/samples.ts"
import { it } from "../../lib/effect.ts"
import { temporary } from "../harness.ts"
import { runningIn } from "../running.ts"

const directory = temporary()
const running = runningIn(directory)

const deadLetter = (sequence: number) => ({
  sequence,
  at: 9,
  refunded: 0,
  failed: [{ at: 5, reason: "DeliveryRejected", message: "the sink answered 422\u001b[2J", answer }],
})

describe("dlq", () => {
  it.live("a dry run counts the newer events of the same keys that a sink with order already got", function* () {
    const sinks = config().sinks.map((sink) => ({ ...sink, order: "key" as const }))
    const { ask, journal } = yield* running({ config: { sinks } })
    yield* journal.openLane("lake")
    for (const [id, accountId] of Object.entries({ a: "acct_1", b: "acct_2", c: "acct_1", d: "acct_1" })) {
      yield* journal.append(event(id, { accountId }), ["lake"])
    }
    yield* journal.settle([settlement("lake", 4, { deadLetter: [deadLetter(1), deadLetter(2)] })])
    const { stdout } = yield* ask("dlq", "replay", "--sink", "lake", "--dry-run")
    expect(stdout).toContain(
      "\n2 newer events of the same keys were delivered to lake already: it would get older events of these keys after them\n",
    )
    expect((yield* ask("dlq", "replay", "lake:2", "--dry-run")).stdout).not.toContain("newer")
    const routed = yield* ask("replay", "c", "--routed", "--dry-run")
    expect(routed.stdout + routed.stderr).toContain("1 newer event of the same keys was delivered to lake already")
  })

  it.live("dead letters are listed with why, shown in full, replayed and dropped", function* () {
    const { ask, journal } = yield* running()
    yield* journal.openLane("lake")
    for (const sequence of [1, 2, 3]) {
      yield* journal.append(event(`evt_${sequence}`), ["lake"])
      yield* journal.settle([settlement("lake", sequence, { deadLetter: [deadLetter(sequence)] })])
    }
    const list = yield* ask("dlq", "list")
    expect(list.stdout).toMatch(/lake:3 +appointment\.created +evt_3 .* the sink answered 422/)
    // The answer of a sink must not clear the terminal.
    expect(list.stdout).not.toContain("\u001b")
    expect((yield* ask("dlq", "list", "--limit", "2")).stderr).toContain("--before lake:2")
    expect(list.stdout + (yield* ask("dlq", "list", "--json")).stdout).not.toContain("no such field")
    const shown = (yield* ask("dlq", "show", "lake:2")).stdout
    expect(shown).toContain('{"id":"evt_2"}')
    // The answer to the attempt, line by line, without its control characters.
    expect(shown).toMatch(
      /attempt .*the sink answered 422.*\n +Ann Example\?\n +{"error":"no such field"} \ufffd\[2J ü🙂\n/,
    )
    expect(JSON.parse((yield* ask("dlq", "show", "lake:2", "--json")).stdout).attempts[0].answer).toBe(answer)
    expect((yield* ask("dlq", "show", "lake:7")).code).toBe(1)
    const dry = yield* ask("dlq", "replay", "lake:1", "lake:2", "lake:9", "--dry-run")
    expect([dry.code, dry.stderr]).toEqual([1, expect.stringContaining("1 id not found")])
    expect(dry.stdout).toStartWith(
      [
        "dry run, nothing was sent: 2 dead letters would be queued for delivery again",
        "",
        "  TYPE                 SINK  EVENTS",
        "  appointment.created  lake  2",
        "",
        "  FIRST  TYPE                 ACCOUNT  RECEIVED",
        "  evt_1  appointment.created  acct_1   1970-01-01T00:00:01.000Z",
        "",
      ].join("\n"),
    )
    expect(JSON.parse((yield* ask("dlq", "replay", "--all", "--dry-run", "--json")).stdout)).toMatchObject({
      count: 3,
      groups: [{ sink: "lake", count: 3 }],
      stayed: [],
    })
    expect((yield* ask("dlq", "replay", "--sink", "nope", "--dry-run")).code).toBe(1)
    expect((yield* ask("dlq", "replay", "lake:1", "lake:2")).stdout).toBe("2 dead letters queued for delivery again\n")
    const absent = yield* ask("dlq", "replay", "lake:1")
    expect([absent.code, absent.stdout]).toEqual([1, "0 dead letters queued for delivery again\n"])
    expect(absent.stderr).toContain("`relay dlq list` shows the dead letters")
    expect((yield* ask("dlq", "drop", "--all", "--json")).stdout).toBe('{\n  "count": 1\n}\n')
    expect((yield* ask("dlq", "list")).stderr).toBe("no dead letters\n")
  })

  it.live("only the dead letters of one sink since a time are replayed", function* () {
    const { ask, journal } = yield* running()
    for (const lane of ["lake", "crm"]) yield* journal.openLane(lane)
    const now = Date.now()
    for (const [index, receivedAt] of [now - 5 * 86_400_000, now - 60_000].entries()) {
      const sequence = index + 1
      const body = new TextEncoder().encode(JSON.stringify({ data: { object: { client_id: `cli_${sequence}` } } }))
      yield* journal.append(event(`evt_${sequence}`, { receivedAt, body }), ["lake", "crm"])
      for (const lane of ["lake", "crm"]) {
        yield* journal.settle([settlement(lane, sequence, { deadLetter: [deadLetter(sequence)] })])
      }
    }
    const list = yield* ask("dlq", "list", "--sink", "crm", "--since", "yesterday")
    expect(list.stdout).toContain("crm:2")
    expect(list.stdout).not.toContain("crm:1")
    expect((yield* ask("dlq", "replay", "--sink", "crm", "--since", "yesterday")).stdout).toBe(
      "1 dead letter queued for delivery again\n",
    )
    const left = yield* journal.deadLetters({ limit: 10 })
    expect(left.map(({ id }) => id).sort()).toEqual(["crm:1", "lake:1", "lake:2"])
    expect((yield* ask("dlq", "drop", "--sink", "lake", "--object", "cli_2")).stdout).toBe("1 dead letter deleted\n")
    expect((yield* ask("dlq", "drop", "--sink", "lake", "--account", "acct_1")).stdout).toBe("1 dead letter deleted\n")
    const dropped = yield* ask("events", "--sink", "lake", "--outcome", "dropped", "--json")
    expect(JSON.parse(dropped.stdout).events.map(({ id }: { id: string }) => id)).toEqual(["evt_2", "evt_1"])
    expect((yield* ask("events", "--sink", "crm", "--outcome", "dropped")).stdout).toBe("")
    const late = yield* ask("dlq", "drop", "--since", "2026-01-02", "--until", "2026-01-01")
    expect([late.code, late.stderr]).toEqual([64, expect.stringContaining("--since must be before --until")])
  })

  it.live("a quarantined delivery is shown with its reason and with the ways out", function* () {
    const { ask, journal } = yield* running()
    yield* journal.openLane("_quarantine")
    for (const sequence of [1, 2]) {
      yield* journal.append(event(`evt_${sequence}`, { problem: "the body is not JSON" }), ["_quarantine"])
      yield* journal.settle([settlement("_quarantine", sequence, { deadLetter: [deadLetter(sequence)] })])
    }
    expect((yield* ask("dlq", "list")).stderr).toContain("`relay dlq replay` routes what is in _quarantine again")
    expect((yield* ask("dlq", "show", "_quarantine:2")).stdout).toContain("relay dlq replay _quarantine:2")
    const why = "the webhook scheduling is not in the config"
    expect((yield* ask("dlq", "replay", "--all", "--dry-run")).stdout).toBe(
      `dry run, nothing was sent: 0 dead letters would be queued for delivery again\n2 dead letters still in quarantine: ${why}\n`,
    )
    expect(yield* ask("dlq", "replay", "_quarantine:1", "_quarantine:2")).toEqual({
      code: 0,
      stdout: `0 dead letters queued for delivery again\n2 dead letters still in quarantine: ${why}\n`,
      stderr: "",
    })
    expect(JSON.parse((yield* ask("dlq", "replay", "--all", "--json")).stdout)).toEqual({
      count: 0,
      erased: 0,
      stayed: [{ why, count: 2 }],
    })
  })

  it.live("nothing is replayed or dropped without a selection, or with two", function* () {
    const { ask } = yield* running()
    for (const args of [[], ["lake:1", "--all"], ["--all", "--sink", "lake"], ["lake:1", "--type", "a.b"]]) {
      expect((yield* ask("dlq", "drop", ...args)).code).toBe(64)
    }
  })
})
