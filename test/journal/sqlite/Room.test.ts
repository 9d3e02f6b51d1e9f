/** The journal's response to a lack of room or disk space, and to old events. */
import { describe, expect, spyOn } from "bun:test"
import { statfsSync, statSync } from "node:fs"
import { tmpdir } from "node:os"
import { Duration, Effect } from "effect"
import { TestClock } from "effect/testing"
import type { JournalError } from "../../../src/journal/JournalError.ts"
import { Space } from "../../../src/journal/sqlite/file/Space.ts"
import { it } from "../../lib/effect.ts"
import { event, letter, retrying, settlement } from "../samples.ts"
import { options } from "../temporary.ts"
import { appendAll, failure, ids, lane, read, session } from "./session.ts"

describe("SqliteJournal and room", () => {
  const large = (id: string) => event(id, { body: new Uint8Array(100_000) })

  it.effect("refuses appends when maxSize is reached, lets lanes settle, and takes appends again", function* () {
    const at = options({ maxSize: 3_000_000 })
    yield* session(at, function* (journal) {
      yield* journal.openLane("lake")
      let refused: JournalError | undefined
      let count = 0
      while (refused === undefined && count < 100) {
        const result = yield* Effect.result(journal.append(large(`evt_${count}`), ["lake"]))
        if (result._tag === "Failure") refused = result.failure
        else count++
      }
      expect(refused?.reason).toMatchObject({ _tag: "JournalFull", cause: "maxSize" })
      expect(count).toBeGreaterThan(20)
      expect(yield* journal.status).toMatchObject({ health: "full", filling: 95 })
      expect(yield* journal.append(large("evt_0"), ["lake"])).toBe("duplicate")
      yield* journal.settle([settlement("lake", count)])
      yield* TestClock.adjust(Duration.seconds(2))
      expect(yield* journal.append(large("more"), ["lake"])).toBe("appended")
      const status = yield* journal.status
      expect(status.health).toBe("ok")
      expect(status.first).toBeGreaterThan(1)
    })
  })

  it.effect("prunes delivered events before it refuses an append, however fast a burst arrives", function* () {
    const maxSize = 3_000_000
    yield* session(options({ maxSize }), function* (journal) {
      yield* journal.openLane("lake")
      // No time passes, so the journal doesn't check its room in between. Time is mocked so that a pass of pruning
      // handles only one row.
      let time = 0
      const busy = spyOn(performance, "now").mockImplementation(() => {
        time += 1_000
        return time
      })
      const burst = Effect.gen(function* () {
        for (let count = 1; count <= 60; count++) {
          expect(yield* journal.append(large(`evt_${count}`), ["lake"])).toBe("appended")
          yield* journal.settle([settlement("lake", count)])
        }
      })
      yield* Effect.ensuring(
        burst,
        Effect.sync(() => busy.mockRestore()),
      )
      const status = yield* journal.status
      expect(status.first).toBeGreaterThan(30)
      // There was still room when the last append started.
      expect(status.usedBytes).toBeLessThan(maxSize + 2 * 100_000)
    })
  })

  it.effect("names the quarantine first if it takes the space", function* () {
    yield* session(options({ maxSize: 3_000_000 }), function* (journal) {
      yield* journal.openLane("_quarantine")
      let count = 0
      for (;;) {
        const appended = yield* Effect.result(journal.append(large(`evt_${++count}`), ["_quarantine"]))
        if (appended._tag === "Failure") break
        yield* journal.settle([settlement("_quarantine", count, { deadLetter: [letter(count)] })])
      }
      const refused = yield* failure(journal.append(large("more"), ["lake"]))
      expect(refused.message).toMatch(/The quarantine takes 2 MiB of it \(\d+, most of them from the webhook \w+\)/)
      expect((yield* journal.status).message).toContain("relay dlq list --sink _quarantine")
    })
  })

  it.live("refuses appends while the disk has less than minFree, and lets lanes settle", function* () {
    const at = options()
    yield* session(at, (journal) => appendAll(journal, ["a", "b"]))
    yield* session({ ...at, minFree: Number.MAX_SAFE_INTEGER }, function* (journal) {
      const refused = yield* failure(journal.append(event("c"), ["lake"]))
      expect(refused.reason).toMatchObject({ _tag: "JournalFull", cause: "disk" })
      yield* journal.settle([settlement("lake", 2)])
      expect((yield* journal.openLane("lake")).backlog).toBe(0)
    })
  })

  it.effect("checks the disk sooner if a burst may have used its last space", function* () {
    const at = options()
    const { bavail, bsize } = statfsSync(tmpdir())
    const mebibyte = 1024 * 1024
    const most = event("a", { body: new Uint8Array(mebibyte) })
    yield* session({ ...at, minFree: (bavail * bsize - 30 * mebibyte) / 1.25 }, function* (journal) {
      yield* TestClock.adjust(Duration.seconds(2))
      const looks = spyOn(Space.prototype, "look")
      const after = Effect.fnUntraced(function* (from: number, to: number) {
        looks.mockClear()
        for (let count = from; count < to; count++) yield* journal.append({ ...most, id: `evt_${count}` }, ["lake"])
        yield* TestClock.adjust(Duration.millis(20))
        return looks.mock.calls.length
      })
      expect(yield* after(0, 1)).toBe(0)
      expect(yield* after(1, 40)).toBeGreaterThan(0)
      looks.mockRestore()
    })
  })

  it.effect("gives the space of the write-ahead log back while the disk has little left", function* () {
    const { bavail, bsize } = statfsSync(tmpdir())
    const grown = (minFree: number) => {
      const at = { ...options(), minFree }
      return session(at, function* (journal) {
        yield* Effect.forEach(ids(100), (id) => journal.append(large(id), ["lake"]), { concurrency: "unbounded" })
        yield* TestClock.adjust(Duration.seconds(2))
        return statSync(`${at.path}-wal`).size
      })
    }
    const most = 4 * 1024 * 1024
    expect(yield* grown(0)).toBeGreaterThan(most)
    expect(yield* grown(bavail * bsize * 0.9)).toBeLessThanOrEqual(most)
  })

  it.effect("counts and keeps events after a restart that are older than the window of duplicates", function* () {
    const duplicates = { age: Duration.hours(24), count: 2 }
    const at = options({ retention: Duration.minutes(3), duplicates })
    yield* TestClock.setTime(10 * 3_600_000)
    yield* session(at, function* (journal) {
      yield* journal.openLane("slow")
      const append = (id: string) => journal.append(event(id, { receivedAt: 10 * 3_600_000 }), ["slow"])
      // Four of them share a row, and the lane has passed half of it.
      yield* Effect.forEach(ids(4), append, { concurrency: "unbounded" })
      for (const id of ids(6).slice(4)) yield* append(id)
      yield* journal.settle([settlement("slow", 2)])
    })
    yield* session(at, function* (journal) {
      expect(yield* lane(journal, "slow")).toMatchObject({ backlog: 4 })
      yield* TestClock.adjust(Duration.minutes(4))
      expect((yield* journal.status).first).toBe(6)
      expect(yield* read(journal)).toEqual(ids(6).slice(2))
    })
  })

  it.effect("returns all pending events in order, also if they are larger than a read", function* () {
    const at = options({ retention: Duration.minutes(3) })
    yield* TestClock.setTime(10 * 3_600_000)
    const [old, body] = [{ receivedAt: 10 * 3_600_000 }, new Uint8Array(3_000_000)]
    yield* session(at, function* (journal) {
      yield* journal.openLane("slow")
      for (const id of ids(6)) yield* journal.append(event(id, { ...old, body }), ["slow"])
      yield* TestClock.adjust(Duration.minutes(4))
      expect((yield* journal.status).first).toBe(6)
    })
    yield* session(at, function* (journal) {
      const found: Array<number> = []
      for (let last = 0; last < 6; last = found.at(-1) ?? 6) {
        const entries = yield* journal.read(last, 100, "slow")
        found.push(...entries.map(({ sequence }) => sequence))
      }
      expect(found).toEqual([1, 2, 3, 4, 5, 6])
    })
  })

  it.effect("deletes events older than the retention, but not those that a lane still waits for", function* () {
    const at = options({ retention: Duration.minutes(3) })
    yield* TestClock.setTime(10 * 3_600_000)
    yield* session(at, function* (journal) {
      yield* journal.openLane("slow")
      const old = (id: string) => event(id, { receivedAt: 10 * 3_600_000 })
      for (const id of ids(6)) yield* journal.append(old(id), ["lake", "slow"])
      yield* journal.settle([
        settlement("lake", 6),
        settlement("slow", 3, { retry: [retrying(2)], deadLetter: [letter(3)] }),
      ])
      yield* TestClock.adjust(Duration.minutes(2))
      expect((yield* journal.status).first).toBe(1)
      yield* TestClock.adjust(Duration.minutes(2))
      // The last row is kept, because it shows the log's last sequence.
      expect((yield* journal.status).first).toBe(6)
      expect((yield* journal.readRetries("slow", [2])).entries.length).toBe(1)
      expect((yield* journal.deadLetters({ limit: 9 })).length).toBe(1)
      expect(yield* lane(journal, "slow")).toMatchObject({ backlog: 4 })
    })
    yield* session(at, function* (journal) {
      expect(yield* lane(journal, "slow")).toMatchObject({ backlog: 4, cursor: { sequence: 3 } })
      expect(yield* read(journal, 3)).toEqual(["evt_3", "evt_4", "evt_5"])
      yield* journal.settle([settlement("slow", 6, { deadLetter: [letter(5)] })])
      expect((yield* journal.deadLetters({ limit: 1 })).map(({ entry }) => entry.event.id)).toEqual(["evt_4"])
      yield* TestClock.adjust(Duration.minutes(1))
    })
    yield* session(at, function* (journal) {
      expect(yield* read(journal)).toEqual(["evt_5"])
      expect(yield* journal.head).toBe(6)
      expect((yield* journal.status).health).toBe("ok")
    })
  })

  it.effect("prunes where every look at the time finds it used up, and the next start misses nothing", function* () {
    const at = options({ retention: Duration.hours(1) })
    yield* TestClock.setTime(10 * 3_600_000)
    const real = performance.now.bind(performance)
    let late = 0
    const slow = spyOn(performance, "now").mockImplementation(() => {
      late += 10
      return real() + late
    })
    yield* Effect.addFinalizer(() => Effect.sync(() => slow.mockRestore()))
    yield* session(at, function* (journal) {
      yield* journal.openLane("slow")
      for (const id of ids(6)) yield* journal.append(event(id), ["slow"])
      yield* TestClock.adjust(Duration.minutes(2))
      expect((yield* journal.status).first).toBe(6)
    })
    yield* session(at, function* (journal) {
      // The journal waits for the start, which may take several slices.
      expect(yield* lane(journal, "slow")).toMatchObject({ backlog: 6 })
      expect(yield* journal.status).toMatchObject({ health: "ok", message: "" })
    })
  })

  it.effect("prunes nothing while the disk is full, so that lanes can use the remaining space", function* () {
    yield* TestClock.setTime(10 * 3_600_000)
    const full = spyOn(Space.prototype, "isDiskFull").mockReturnValue(true)
    yield* Effect.addFinalizer(() => Effect.sync(() => full.mockRestore()))
    yield* session(options({ retention: Duration.hours(1) }), function* (journal) {
      yield* journal.openLane("slow")
      for (const id of ids(6)) yield* journal.append(event(id), ["slow"])
      yield* TestClock.adjust(Duration.minutes(2))
      expect((yield* journal.status).first).toBe(1)
      full.mockReturnValue(false)
      yield* TestClock.adjust(Duration.minutes(2))
      expect((yield* journal.status).first).toBe(6)
    })
  })

  // Appends ten times the journal's maximum size, while one lane has a few pending events and one lane has none.
  it.effect(
    "a sink that is away takes the room of its own events, and nobody else's",
    function* () {
      const at = options({ maxSize: 4_000_000 })
      const some = (id: string) => event(id, { body: new Uint8Array(20_000) })
      const together = 10
      yield* session(at, function* (journal) {
        yield* journal.openLane("away")
        yield* journal.openLane("idle")
        for (let first = 1; first <= 2_000; first += together) {
          yield* Effect.forEach(
            Array.from({ length: together }, (_, index) => first + index),
            (sequence) => journal.append(some(`evt_${sequence}`), sequence % 100 === 7 ? ["lake", "away"] : ["lake"]),
            { concurrency: "unbounded", discard: true },
          )
          yield* journal.settle([settlement("lake", first + together - 1)])
          yield* TestClock.adjust(Duration.millis(250))
        }
        expect((yield* journal.status).usedBytes).toBeLessThan(4_000_000)
        expect(yield* lane(journal, "away")).toMatchObject({ backlog: 20, cursor: { sequence: 0 } })
      })
      yield* session(at, function* (journal) {
        expect((yield* journal.status).health).toBe("ok")
        const pending = (yield* journal.read(0, 200)).filter(({ sinks }) => sinks.includes("away"))
        expect(pending.map(({ sequence }) => sequence)).toEqual(Array.from({ length: 20 }, (_, n) => n * 100 + 7))
        // The log reads the same from any position, and after settlements in parts.
        expect((yield* journal.read(507, 1)).map(({ sequence }) => sequence)).toEqual([607])
        yield* journal.settle([
          settlement("away", 200, { cursor: { sequence: 200, settled: [[300, 310]] }, retry: [retrying(7)] }),
        ])
        yield* TestClock.adjust(Duration.seconds(1))
        expect((yield* journal.read(0, 3)).map(({ sequence }) => sequence)).toEqual([207, 407, 507])
        expect((yield* journal.readRetries("away", [7])).entries.map(({ event }) => event.id)).toEqual(["evt_7"])
        expect(yield* lane(journal, "away")).toMatchObject({ backlog: 18 })
        expect(yield* journal.moveLane("away", "heir")).toBe(18)
        expect((yield* journal.lanes).map(({ name, backlog }) => [name, backlog])).toEqual([
          ["heir", 18],
          ["idle", 0],
          ["lake", 0],
        ])
      })
    },
    30_000,
  )
})
