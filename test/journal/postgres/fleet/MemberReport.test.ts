import { describe, expect, it as test } from "bun:test"
import { Effect } from "effect"
import type { LaneReport } from "../../../../src/journal/FleetStatus.ts"
import type { Database } from "../../../../src/journal/postgres/connection/Database.ts"
import { decodeReport } from "../../../../src/journal/postgres/fleet/Membership.ts"
import { relayVersion } from "../../../../src/runtime/Version.ts"
import { it } from "../../../lib/effect.ts"
import { suiteUnless } from "../../../lib/lacking.ts"
import { reasonToSkip } from "../../../parts/Postgres.ts"
import { event, settlement } from "../../samples.ts"
import { relays, seconds } from "../relays.ts"

const lane: LaneReport = { name: "lake", type: "file", condition: "running", message: "", oldestAt: 0 }
const stream = { lanes: { lake: { backlog: 1, retrying: 0, deadLetters: 0 } }, accepted: 2, kept: 2, bytes: 900 }

describe("the report of another relay", () => {
  test("is read as it was written, without the fields of later versions", () => {
    const written = { streams: { 0: { ...stream, later: 1 } }, lanes: [{ ...lane, later: 1 }], later: 1 }
    expect(decodeReport(written)).toEqual({ streams: { 0: stream }, lanes: [lane], isWhole: true })
  })

  test("is whole and empty if the relay has just joined", () => {
    expect(decodeReport({})).toEqual({ streams: {}, lanes: [], isWhole: true })
  })

  test("counts for nothing if it is not a report", () => {
    for (const nonsense of [null, 7, "x", [], { streams: {} }, { streams: [], lanes: {} }]) {
      expect(decodeReport(nonsense)).toEqual({ streams: {}, lanes: [], isWhole: false })
    }
  })

  test("counts without the streams and sinks that can't be read", () => {
    const { bytes: _, ...withoutBytes } = stream
    const lanes = { lake: { backlog: "1", retrying: 0, deadLetters: 0 } }
    const streams = {
      1: withoutBytes,
      2: { ...stream, bytes: -1 },
      3: { ...stream, kept: 1e300 },
      4: { ...stream, lanes },
    }
    const written = { streams: { 0: stream, ...streams }, lanes: [lane, { ...lane, condition: "thinking" }] }
    expect(decodeReport(written)).toEqual({ streams: { 0: stream }, lanes: [lane], isWhole: false })
  })
})

suiteUnless(reasonToSkip(), "a relay whose report the others can't read", () => {
  /** Replaces the report that a heartbeat carries. */
  const reporting =
    (change: (report: string) => string) =>
    (db: Database): Database => ({
      ...db,
      queryUnsafe: <Row>(...[use, sql, params = [], options]: Parameters<Database["queryUnsafe"]>) =>
        db.queryUnsafe<Row>(
          use,
          sql,
          use === "beat" ? params.map((param, at) => (at === 5 ? change(String(param)) : param)) : params,
          options,
        ),
    })

  for (const [what, change] of [
    ["lacks a field", (report: string) => report.replaceAll(/,"bytes":\d+/g, "")],
    ["is nonsense", () => '{"streams":{"2":{"bytes":1e300}},"lanes":7}'],
  ] as const) {
    it.effect(`is shown, and stops and deletes nothing: its report ${what}`, function* () {
      const { start } = yield* relays
      const a = yield* start("a")
      const old = yield* start("old", undefined, reporting(change))
      yield* old.journal.fleet?.introduce(() => ({
        ...{ version: "0.0.9", configHash: "", sinks: {}, address: "", lanes: [] },
      })) ?? Effect.void
      for (const { journal } of [a, old]) yield* journal.openLane("lake")
      expect(yield* a.journal.append(event("one"), ["lake"])).toBe("appended")
      yield* a.journal.settle([settlement("lake", 1)])
      yield* old.journal.append(event("two"), ["lake"])
      yield* seconds(5)
      expect(yield* a.journal.append(event("three"), ["lake"])).toBe("appended")
      const status = yield* a.journal.status
      expect(status.health).toBe("ok")
      expect(status.message).toContain("relay old (version 0.0.9)")
      expect(status.message).toContain(`(version ${relayVersion})`)
      const { events } = yield* old.journal.events({ limit: 10 })
      expect(events.map(({ event }) => event.id).sort()).toEqual(["one", "three", "two"])
      const { members = [] } = (yield* a.journal.fleet?.status ?? Effect.undefined) ?? {}
      expect(members.map(({ name }) => name)).toEqual(["a", "old"])
    })
  }

  it.effect("is heard although its sink's message holds text that PostgreSQL refuses", function* () {
    const { start } = yield* relays
    const [a, b] = [yield* start("a"), yield* start("b")]
    const message = "receiver said \0 and \ud83d"
    const lanes = [{ name: "lake", type: "file", condition: "waiting", message, oldestAt: 0 }] as const
    yield* b.journal.fleet?.introduce(() => ({
      ...{ version: "9", configHash: "", sinks: {}, address: "", lanes },
    })) ?? Effect.void
    yield* seconds(5)
    expect(b.journal.mayStart()).toBe(true)
    const { members = [] } = (yield* a.journal.fleet?.status ?? Effect.undefined) ?? {}
    expect(members[1]?.lanes[0]?.message).toBe("receiver said \ufffd and \ufffd")
  })
})
