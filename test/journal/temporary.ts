/** Journals on disk for tests: in a directory that is removed after them. */
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { Effect, Exit, Layer, Scope } from "effect"
import { TestClock } from "effect/testing"
import { eventLoop } from "../../src/event/EventLoop.ts"
import type { SqliteConfig } from "../../src/journal/sqlite/SqliteConfig.ts"
import * as SqliteJournal from "../../src/journal/sqlite/SqliteJournal.ts"
import type { CreateOnDisk } from "../contract/journal/upkeepContract.ts"
import { temporaryRoot } from "../lib/temporaryRoot.ts"
import { optionsAt } from "./samples.ts"
import { whole } from "./whole.ts"

let count = 0

/** A new, empty journal on disk, as the contracts want it. */
export const createSqlite = (maxSize?: number) => {
  const at = options(maxSize === undefined ? {} : { maxSize })
  return () => SqliteJournal.layer(at)
}

/** A new, empty journal on disk, as the contract of upkeep wants it. */
export const createOnDisk: CreateOnDisk = (bounds) =>
  Effect.gen(function* () {
    const at = options(bounds)
    const all = yield* Effect.scope
    return {
      open: Effect.gen(function* () {
        const scope = yield* Scope.fork(all)
        const services = yield* Layer.buildWithScope(SqliteJournal.layer(at), scope)
        return { journal: yield* Effect.provide(whole, services), stop: Scope.close(scope, Exit.void) }
      }),
      seconds: (count) =>
        Effect.forEach(
          Array.from({ length: count * 4 }),
          () => Effect.andThen(TestClock.adjust("250 millis"), eventLoop.turn),
          {
            discard: true,
          },
        ),
      damage: Effect.sync(() => {
        const db = new DatabaseSync(at.path)
        db.exec("UPDATE log SET bytes = zeroblob(length(bytes)) WHERE first % 2 = 0")
        db.close()
      }),
    }
  })

export const options = (more: Partial<SqliteConfig> = {}): SqliteConfig => ({
  ...optionsAt(join(temporaryRoot, String(++count), "journal.db")),
  ...more,
})
