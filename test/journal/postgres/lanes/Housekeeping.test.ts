import { expect } from "bun:test"
import { Duration, Effect } from "effect"
import { it } from "../../../lib/effect.ts"
import { suiteUnless } from "../../../lib/lacking.ts"
import { reasonToSkip } from "../../../parts/Postgres.ts"
import { event, retrying, settlement } from "../../samples.ts"
import { relays, seconds } from "../relays.ts"

suiteUnless(reasonToSkip(), "what a relay keeps in the database", () => {
  it.effect("rows are deleted when they are old and every lane has passed them, but for the newest", function* () {
    const { start, sql } = yield* relays
    const { journal } = yield* start("a", Duration.seconds(1))
    const firsts = Effect.map(sql("SELECT first::int AS first FROM relay.log ORDER BY first"), (rows) =>
      rows.map(({ first }) => Number(first)),
    )
    for (const lane of ["lake", "audit"]) yield* journal.openLane(lane)
    for (const id of ["a", "b", "c", "d"]) {
      yield* journal.append(event(id, { receivedAt: 1 }), id === "b" ? ["lake", "audit"] : ["lake"])
    }
    yield* journal.append(event("e", { receivedAt: 1 }), ["lake"])
    yield* seconds(3)
    expect(yield* firsts).toEqual([1, 2, 3, 4, 5])
    yield* journal.settle([settlement("lake", 5)])
    yield* seconds(3)
    expect(yield* firsts).toEqual([2, 5])
    yield* journal.settle([settlement("audit", 5)])
    yield* seconds(3)
    expect(yield* firsts).toEqual([5])
    expect(yield* journal.append(event("f"), ["lake"])).toBe("appended")
    expect(yield* journal.head).toBe(6)
  })

  it.effect("the outcome of an event delivered after its row was deleted is forgotten after a restart", function* () {
    const { start, sql } = yield* relays
    const { journal, stop } = yield* start("a", Duration.seconds(1))
    yield* journal.openLane("lake")
    for (const id of ["a", "b"]) yield* journal.append(event(id, { receivedAt: 1 }), ["lake"])
    yield* journal.settle([settlement("lake", 2, { delivered: [], retry: [retrying(1)] })])
    yield* seconds(3)
    const late = { sequence: 1, at: 3_000, took: 12, attempts: 2, refunded: 0, failed: [] }
    yield* journal.settle([settlement("lake", 2, { delivered: [], endRetry: [1], late: [late] })])
    const ended = Effect.map(sql("SELECT sequence::int FROM relay.ended"), ({ length }) => length)
    expect(yield* ended).toBe(1)
    yield* stop
    yield* start("a", Duration.seconds(1))
    yield* seconds(62)
    expect(yield* ended).toBe(0)
  })

  it.effect("delivered rows make room when the journal is nearly full, no more of them than it takes", function* () {
    const { start } = yield* relays
    const maxSize = 3_000_000
    const { journal } = yield* start("a", undefined, undefined, maxSize)
    yield* journal.openLane("lake")
    const used = Effect.map(journal.status, ({ usedBytes }) => usedBytes)
    let count = 0
    for (; (yield* used) < 0.95 * maxSize; count++) {
      yield* journal.append(event(`e${count}`, { body: Buffer.alloc(10_000, count) }), ["lake"])
      if (count % 50 === 49) yield* seconds(1)
    }
    yield* journal.settle([settlement("lake", count)])
    yield* seconds(5)
    expect(yield* used).toBeLessThan(0.91 * maxSize)
    expect(yield* used).toBeGreaterThan(0.85 * maxSize)
  })

  it.effect("damaged events at the end of a stream are passed over, and missing ones are not", function* () {
    const { start, sql } = yield* relays
    const before = yield* start("a")
    yield* before.journal.openLane("lake")
    for (const id of ["a", "b", "c"]) yield* before.journal.append(event(id), ["lake"])
    yield* before.stop
    yield* sql("UPDATE relay.log SET bytes = decode(repeat('00', octet_length(bytes)), 'hex') WHERE first = 3")
    const { journal } = yield* start("a")
    expect((yield* journal.read(0, 9)).map(({ sequence }) => sequence)).toEqual([1, 2])
    const places = Effect.forEach([0, 1, 2, 3], (after) => journal.pastLost(after))
    expect(yield* places).toEqual([0, 1, 3, 3])
    yield* sql("DELETE FROM relay.log WHERE first = 3")
    expect(yield* places).toEqual([0, 1, 2, 3])
  })

  it.effect("deliveries are forgotten after the window, by the relay that delivers the shared stream", function* () {
    const { start, sql } = yield* relays
    const { journal } = yield* start("a")
    yield* journal.append(event("old"), ["lake"])
    yield* sql("UPDATE relay.seen SET at = at - 25 * 3600 * 1000")
    yield* journal.append(event("new"), ["lake"])
    yield* seconds(62)
    expect(yield* journal.append(event("new"), ["lake"])).toBe("duplicate")
    expect(yield* journal.append(event("old"), ["lake"])).toBe("appended")
  })
})
