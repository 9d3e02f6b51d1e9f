import { describe, expect, test } from "bun:test"
import { Effect, Fiber } from "effect"
import { eventLoop } from "../../../../src/event/EventLoop.ts"
import * as Reappending from "../../../../src/journal/archive/Reappending.ts"
import { Engine } from "../../../../src/journal/sqlite/commit/Engine.ts"
import { open } from "../../../../src/journal/sqlite/file/Store.ts"
import { scan } from "../../../../src/journal/sqlite/operations/StartupScan.ts"
import * as SqliteJournal from "../../../../src/journal/sqlite/SqliteJournal.ts"
import { tablesOf } from "../../../../src/journal/sqlite/service/SqliteArchive.ts"
import { Origin } from "../../../../src/journal/stream/Record.ts"
import { it } from "../../../lib/effect.ts"
import { event, letter, retrying, settlement, waiting } from "../../samples.ts"
import { options } from "../../temporary.ts"
import { whole } from "../../whole.ts"
import { appendAll } from "../session.ts"

describe("a replay", () => {
  it.live("processes a slice of its targets, and reads entries of many rows in any order", () =>
    Effect.gen(function* () {
      const journal = yield* whole
      const body = new Uint8Array(300_000)
      // One commit for each event, so each has its own row.
      for (let number = 0; number < 8; number++) yield* journal.append(event(`evt_${number}`, { body }), ["lake"])
      const targets = [8, 1, 7, 2, 6].map((sequence) => ({ sequence, sinks: ["lake"] }))
      expect(yield* journal.replay(targets)).toEqual({ done: 4, gone: [] })
      expect((yield* journal.read(8, 9)).map((entry) => entry.event.id)).toEqual(["evt_7", "evt_0", "evt_6", "evt_1"])
    }).pipe(Effect.provide(SqliteJournal.layer(options()))),
  )

  for (const { isShared, done, why } of [
    { isShared: false, done: 256, why: "because each commit waits for the disk" },
    { isShared: true, done: 16, why: "while deliveries arrive, because a slice holds the event loop" },
  ]) {
    it.live(`processes ${done} small events at a time, ${why}`, () =>
      Effect.gen(function* () {
        Object.defineProperty(eventLoop, "isShared", { value: isShared, configurable: true })
        yield* Effect.addFinalizer(() => Effect.sync(() => Reflect.deleteProperty(eventLoop, "isShared")))
        const journal = yield* whole
        const events = Array.from({ length: 300 }, (_, number) => journal.append(event(`evt_${number}`), ["lake"]))
        yield* Effect.all(events, { concurrency: "unbounded" })
        const targets = events.map((_, number) => ({ sequence: number + 1, sinks: ["lake"] }))
        expect(yield* journal.replay(targets)).toEqual({ done, gone: [] })
      }).pipe(Effect.scoped, Effect.provide(SqliteJournal.layer(options()))),
    )
  }
})

test("a replay finds retries, dead letters and pending events that the log was pruned of", async () => {
  const at = options()
  const engine = new Engine(open(at.path), at)
  for (const _ of scan(engine, at, Date.now()));
  const ids = ["a", "b", "c", "d"]
  engine.appendWith(
    ids.map((id) => ({ event: event(id), sinks: ["lake"] })),
    Origin.delivered,
    () => () => {},
  )
  const change = { cursor: { sequence: 2, settled: [] }, retry: [retrying(1)], deadLetter: [letter(2)] }
  await new Promise((done) => engine.settle([settlement("lake", 2, change)], done))
  engine.appendWith([{ event: event("last"), sinks: [] }], Origin.delivered, () => () => {})
  const { first } = engine.log.oldestRow() ?? { first: 0 }
  engine.exclusively(() => {
    for (const stored of engine.log.stored(first, [3])) engine.pending.add(stored)
    engine.log.delete(first)
    return {
      result: undefined,
      committed: () => {
        engine.pending.last = 3
      },
    }
  })
  const targets = [1, 2, 3, 4].map((sequence) => ({ sequence, sinks: ["audit"] }))
  const replay = Reappending.replay(tablesOf(engine), targets)
  expect(await Effect.runPromise(replay)).toEqual({ done: 4, gone: [4] })
  expect(engine.read(5, 9).map(({ event }) => event.id)).toEqual(["a", "b", "c"])
  engine.stop()
  engine.store.close()
})

describe("a lane that moves", () => {
  it.live("has its retries moved before later events of their keys, also when the move is cut short", () =>
    Effect.gen(function* () {
      const journal = yield* whole
      yield* journal.openLane("new")
      yield* appendAll(journal, ["a", "b", "c"], ["old"])
      yield* journal.settle([settlement("old", 1, { retry: [retrying(1, "acct_1")] })])
      // The move is interrupted after its first slice.
      yield* Fiber.interrupt(yield* Effect.forkChild(journal.moveLane("old", "new"), { startImmediately: true }))
      expect((yield* journal.openLane("new")).retries).toEqual([waiting(1, "acct_1")])
      yield* journal.openLane("new", { renamedFrom: "old" })
      expect((yield* journal.read(3, 10)).map((entry) => entry.event.id)).toEqual(["b", "c"])
    }).pipe(Effect.provide(SqliteJournal.layer(options()))),
  )

  it.live("appends nothing more if the lane is dropped meanwhile, and fails with the reason", () =>
    Effect.gen(function* () {
      const journal = yield* whole
      yield* journal.openLane("new")
      yield* appendAll(
        journal,
        Array.from({ length: 600 }, (_, at) => `evt_${at}`),
        ["old"],
      )
      const move = yield* Effect.forkChild(journal.moveLane("old", "new"), { startImmediately: true })
      yield* journal.dropLane("old")
      const refused = yield* Effect.flip(Fiber.join(move))
      expect(refused.message).toBe("The lane old has changed meanwhile. Look again, and repeat it.")
      expect((yield* journal.openLane("new")).backlog).toBe(256)
    }).pipe(Effect.provide(SqliteJournal.layer(options()))),
  )
})
