/** A copy into a file that was interrupted, and goes on. */
import { describe, expect } from "bun:test"
import { Effect } from "effect"
import { copyInto } from "../../../../src/journal/archive/Copying.ts"
import * as SqliteCopySource from "../../../../src/journal/sqlite/copy/SqliteCopySource.ts"
import * as SqliteCopyTarget from "../../../../src/journal/sqlite/copy/SqliteCopyTarget.ts"
import type { SqliteConfig } from "../../../../src/journal/sqlite/SqliteConfig.ts"
import { it } from "../../../lib/effect.ts"
import { event, settlement } from "../../samples.ts"
import { options } from "../../temporary.ts"
import { session } from "../session.ts"

const copy = (from: SqliteConfig, to: SqliteConfig, onProgress: Effect.Effect<void>) =>
  Effect.scoped(
    Effect.gen(function* () {
      const source = yield* SqliteCopySource.source(from)
      return yield* copyInto(yield* SqliteCopyTarget.target(to, source), source, () => onProgress)
    }),
  )

describe("a copy that was interrupted", () => {
  it.live("starts again if events were erased meanwhile, and restores none of them", function* () {
    const [from, to] = [options(), options()]
    yield* session(from, function* (journal) {
      yield* journal.openLane("lake")
      for (const id of ["a", "b"]) yield* journal.append(event(id), ["lake"])
      yield* journal.settle([settlement("lake", 2)])
    })
    yield* Effect.exit(copy(from, to, Effect.interrupt))
    yield* session(from, (journal) => journal.erase([1], false))
    expect(yield* copy(from, to, Effect.void)).toMatchObject({ events: 2, known: 0 })
    const { events } = yield* session(to, (journal) => journal.events({ id: "a", limit: 1 }))
    expect(events.map(({ event, body }) => [event.erased !== undefined, body?.length])).toEqual([[true, 0]])
  })

  it.live("continues where it was if nothing was erased", function* () {
    const [from, to] = [options(), options()]
    yield* session(from, function* (journal) {
      yield* journal.openLane("lake")
      yield* journal.append(event("a"), ["lake"])
      yield* journal.settle([settlement("lake", 1)])
    })
    yield* Effect.exit(copy(from, to, Effect.interrupt))
    expect(yield* copy(from, to, Effect.void)).toMatchObject({ events: 0, known: 1 })
  })
})
