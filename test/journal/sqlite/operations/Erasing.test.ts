import { describe, expect } from "bun:test"
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs"
import { basename, dirname, join } from "node:path"
import { Effect } from "effect"
import { Engine } from "../../../../src/journal/sqlite/commit/Engine.ts"
import { open } from "../../../../src/journal/sqlite/file/Store.ts"
import * as Maintenance from "../../../../src/journal/sqlite/maintenance/Maintenance.ts"
import * as Erasing from "../../../../src/journal/sqlite/operations/Erasing.ts"
import { prune } from "../../../../src/journal/sqlite/operations/Retention.ts"
import { scan } from "../../../../src/journal/sqlite/operations/StartupScan.ts"
import type { SqliteConfig } from "../../../../src/journal/sqlite/SqliteConfig.ts"
import { erasedAtOnce } from "../../../../src/journal/stream/Erasure.ts"
import { it } from "../../../lib/effect.ts"
import { sample } from "../../../lib/tries.ts"
import { allEvents, markerOf, play } from "../../histories.ts"
import { event, letter, settlement } from "../../samples.ts"
import { options } from "../../temporary.ts"
import { ids, type Service, session } from "../session.ts"

/** The files of a journal in which one of the texts stands. */
const filesWith = (path: string, texts: ReadonlyArray<string>): ReadonlyArray<string> =>
  readdirSync(dirname(path)).filter((name) => {
    const bytes = readFileSync(join(dirname(path), name))
    return name.startsWith(basename(path)) && texts.some((text) => bytes.includes(text))
  })

const opened = (at: SqliteConfig): Engine => {
  const engine = new Engine(open(at.path), at)
  for (const _ of scan(engine, at, Date.now()));
  return engine
}

const close = (engine: Engine): void => {
  engine.stop()
  engine.store.close()
}

/** Deletes all of the log that may be, and keeps what lanes wait for beside it. */
const pruneAll = (at: SqliteConfig): void => {
  const engine = opened(at)
  while (prune(engine, Number.MAX_SAFE_INTEGER));
  close(engine)
}

const sequencesOf = (journal: Service) =>
  Effect.map(allEvents(journal), (events) => events.map(({ sequence }) => sequence))

describe("erasing events of a file", () => {
  for (const seed of sample([11, 12, 13])) {
    it.live(`leaves no byte of them in any file of the journal, once it was rewritten (history ${seed})`, () =>
      Effect.gen(function* () {
        const at = options()
        const before = yield* session(at, (journal) => Effect.andThen(play(journal, seed, 80), allEvents(journal)))
        const markers = before.map(({ event }) => markerOf(event.id))
        pruneAll(at)
        yield* session(at, (journal) =>
          Effect.gen(function* () {
            const kept = yield* sequencesOf(journal)
            expect(kept.length).toBeGreaterThan(1)
            expect(kept.length).toBeLessThan(before.length)
            expect((yield* journal.erase(kept, true)).erased).toEqual(kept)
          }),
        )
        // What was pruned and retried lies in the file's free space until then.
        expect(filesWith(at.path, markers)).toEqual([basename(at.path)])
        yield* Maintenance.vacuum(at.path)
        expect(filesWith(at.path, markers)).toEqual([])
        expect((yield* Maintenance.check(at.path)).sound).toBe(true)
        // It goes on, with the same events.
        expect((yield* session(at, allEvents)).every(({ event }) => event.erased !== undefined)).toBe(true)
      }),
    )
  }

  it.live("overwrites while the relay runs, and empties the write-ahead log", () =>
    Effect.gen(function* () {
      const at = options()
      yield* session(at, (journal) =>
        Effect.gen(function* () {
          yield* journal.openLane("lake")
          const body = (id: string) => new TextEncoder().encode(`${markerOf(id)}${"x".repeat(70_000)}${markerOf(id)}`)
          for (const id of ["a", "b"]) yield* journal.append(event(id, { body: body(id) }), ["lake"])
          yield* journal.settle([settlement("lake", 2, { deadLetter: [letter(1)] })])
          yield* journal.scrub
          expect(filesWith(at.path, [markerOf("a")])).toEqual([basename(at.path)])
          yield* journal.erase([1], false)
          yield* journal.scrub
          expect(filesWith(at.path, [markerOf("a")])).toEqual([])
          expect(filesWith(at.path, [markerOf("b")])).toEqual([basename(at.path)])
        }),
      )
    }),
  )

  it.live("leaves each event whole or erased, wherever a crash ends it", () =>
    Effect.gen(function* () {
      const at = options()
      const count = erasedAtOnce * 2 + 7
      yield* session(at, (journal) =>
        Effect.gen(function* () {
          yield* journal.openLane("lake")
          yield* Effect.forEach(ids(count), (id) => journal.append(event(id), ["lake"]), { concurrency: "unbounded" })
        }),
      )
      const engine = opened(at)
      const sequences = ids(count).map((_, index) => index + 1)
      const steps = Erasing.erase(engine, sequences, true, { at: 7, by: "a test" })
      let step = 0
      for (let isDone = false; !isDone; step++) {
        isDone = steps.next().done === true
        // As a crash leaves the files: the write-ahead log is not checkpointed, and nothing is closed.
        const path = join(dirname(at.path), `crash-${step}`, "journal.db")
        mkdirSync(dirname(path))
        for (const suffix of ["", "-wal", "-mark"]) {
          if (existsSync(at.path + suffix)) copyFileSync(at.path + suffix, path + suffix)
        }
        const found = yield* session({ ...at, path }, (journal) => Effect.all([allEvents(journal), journal.lanes]))
        const [events, [lake]] = found
        const erased = Math.min(count, erasedAtOnce * (step + 1))
        expect(events.map(({ event }) => event.erased !== undefined)).toEqual(sequences.map((at) => at <= erased))
        expect(events.every(({ event, body }) => (event.erased === undefined) === (body?.length ?? 0) > 0)).toBe(true)
        // What is erased is given up, and what is whole still waits.
        expect(lake?.backlog).toBe(count - erased)
        expect(yield* Maintenance.check(path)).toMatchObject({ sound: true, events: count })
      }
      expect(step).toBe(4)
      close(engine)
    }),
  )
})
