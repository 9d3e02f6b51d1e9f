import { describe, expect, spyOn, test } from "bun:test"
import { Duration, Effect } from "effect"
import { TestClock } from "effect/testing"
import { WorkerEntrypoint } from "../../../src/journal/JournalContext.ts"
import type { JournalError } from "../../../src/journal/JournalError.ts"
import { maxLogBytes } from "../../../src/journal/sqlite/file/Checkpoints.ts"
import * as JournalWorker from "../../../src/journal/sqlite/JournalWorker.ts"
import { isFinal } from "../../../src/journal/sqlite/rows/SqliteConnection.ts"
import { it } from "../../lib/effect.ts"
import { event, searchIds } from "../samples.ts"
import { options } from "../temporary.ts"
import { openEngine } from "./engine.ts"
import { ids, type Service, session } from "./session.ts"

const journalAt = (path: string) => ({ path, searchIds: searchIds.pointers })
const worker = (file: string) => new URL(file, import.meta.url)

describe("JournalWorker", () => {
  test("moves commits into the file, and reports the length of the log", async () => {
    const { engine } = openEngine()
    let journalWorker: JournalWorker.JournalWorker | undefined
    try {
      for (let index = 0; index < 20; index++) {
        await engine.appendUnsafe(event(`evt_${index}`, { body: new Uint8Array(50_000) }), ["lake"])
      }
      const frames = await new Promise<number>((resolve, reject) => {
        journalWorker = JournalWorker.start(worker("../worker.ts"), journalAt(engine.store.path), {
          checkpoint: resolve,
          failure: (message) => reject(new Error(message)),
        })
      })
      expect(frames).toBeGreaterThan(20)
      // Everything was moved, so the next commit starts the log from its beginning, and a pass has almost nothing to
      // do.
      await engine.appendUnsafe(event("more"), ["lake"])
      expect(Number(engine.store.db.prepare("PRAGMA wal_checkpoint(PASSIVE)").get()?.log)).toBeLessThan(10)
    } finally {
      await journalWorker?.stop()
      engine.stop()
      engine.store.close()
    }
  })

  test("rests once nothing is written, and checkpoints again after the next write", async () => {
    const { engine } = openEngine()
    const passes: Array<number> = []
    let passed = Promise.withResolvers<void>()
    const rests = Promise.withResolvers<void>()
    const journalWorker = JournalWorker.start(worker("../worker.ts"), journalAt(engine.store.path), {
      checkpoint: (frames) => {
        passes.push(frames)
        passed.resolve()
      },
      rests: () => rests.resolve(),
      failure: (message) => passed.reject(new Error(message)),
    })
    try {
      await engine.appendUnsafe(event("first"), ["lake"])
      await Promise.all([passed.promise, rests.promise])
      const before = passes.length
      passed = Promise.withResolvers()
      await engine.appendUnsafe(event("second"), ["lake"])
      journalWorker.written()
      await passed.promise
      expect(passes.length).toBe(before + 1)
      expect(engine.store.db.prepare("PRAGMA wal_checkpoint(NOOP)").get()).toMatchObject({ log: 1, checkpointed: 1 })
    } finally {
      await journalWorker.stop()
      engine.stop()
      engine.store.close()
    }
  })

  test("reports a file that it can't open, and a worker that does not start", async () => {
    const failure = (entry: string, path: string) =>
      new Promise<string>((resolve) => {
        const journalWorker = JournalWorker.start(worker(entry), journalAt(path), {
          checkpoint: () => resolve("a pass"),
          failure: (message) => {
            void journalWorker.stop().then(() => resolve(message))
          },
        })
      })
    expect(await failure("../worker.ts", "/nonexistent/journal.db")).toContain("unable to open")
    expect(await failure("../missing.ts", "/nonexistent/journal.db")).not.toBe("a pass")
  })

  test("continues after a temporary failure, such as a full disk or no free descriptor, but not after a final one", () => {
    const codes = (all: ReadonlyArray<number>) => all.map((errcode) => isFinal({ errcode }))
    expect(codes([5, 13, 14, 778])).toEqual([false, false, false, false])
    expect(codes([10, 1034, 266, 11, 26])).toEqual([true, true, true, true, true])
    expect(isFinal(new Error("no error of SQLite's"))).toBe(true)
  })

  test("leaves the end of a log that has grown too long to the writer", async () => {
    const { engine } = openEngine()
    try {
      for (let index = 0; index < 20; index++) {
        await engine.appendUnsafe(event(`evt_${index}`, { body: new Uint8Array(50_000) }), ["lake"])
      }
      const frames = () => Number(engine.store.db.prepare("PRAGMA wal_checkpoint(NOOP)").get()?.log)
      const grown = frames()
      engine.checkpoints.reported(10)
      engine.checkpoints.reported(Math.ceil(maxLogBytes / 32_768))
      await engine.appendUnsafe(event("more"), ["lake"])
      expect(frames()).toBeLessThan(grown)
    } finally {
      engine.stop()
      engine.store.close()
    }
  })

  test("answers a search and stops, although messages sent before it listens are lost", async () => {
    const { engine } = openEngine()
    const journalWorker = JournalWorker.start(worker("../lateWorker.ts"), journalAt(engine.store.path), {
      checkpoint: () => {},
      failure: () => {},
    })
    try {
      expect(await journalWorker.search({ limit: 1 })).toMatchObject({ events: [] })
    } finally {
      await journalWorker.stop()
      engine.stop()
      engine.store.close()
    }
  })

  const startsWith = Effect.fnUntraced(function* (
    use: (journal: Service) => Effect.Effect<unknown, JournalError>,
    at = options(),
  ) {
    const start = spyOn(JournalWorker, "start")
    yield* Effect.addFinalizer(() => Effect.sync(() => start.mockRestore()))
    yield* session(at, function* (journal) {
      yield* journal.openLane("lake")
      yield* TestClock.adjust(Duration.minutes(1))
      expect(start).not.toHaveBeenCalled()
      yield* use(journal)
      yield* TestClock.adjust(Duration.minutes(1))
      expect(start).toHaveBeenCalledTimes(1)
    }).pipe(Effect.provideService(WorkerEntrypoint, worker("../worker.ts")))
  })

  it.effect("starts with the first commit: an idle relay is smaller without it", () =>
    startsWith((journal) => journal.append(event("first"), ["lake"])),
  )

  it.effect("or with the first search", () => startsWith((journal) => journal.events({ limit: 1 })))

  it.effect("or if pruning alone has filled the log, because pending events are copied", function* () {
    const at = options({ retention: Duration.minutes(5) })
    yield* session(at, (journal) =>
      Effect.forEach(ids(300), (id) => journal.append(event(id, { body: new Uint8Array(100_000) }), ["lake"])),
    )
    yield* startsWith(() => TestClock.adjust(Duration.minutes(6)), at)
  })
})
