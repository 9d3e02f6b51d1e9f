/**
 * What makes a running relay load its config anew: SIGHUP, and with
 * `run --watch` the file itself.
 *
 * The file is looked at by reading it, twice a second: a file that an editor
 * renames into place, or that a link leads to which is swapped below it, reads
 * like any other. It counts when it reads the same twice in a row, so that one
 * that is being written is not taken half. Files that it refers to (`file:PATH`)
 * are not watched.
 */
import { Effect, FileSystem, type Latch } from "effect"
import { readerOf } from "../config/load/ReadFile.ts"
import { Reload } from "./Reload.ts"

/** Asks for a reload each time that the latch is opened; one that is refused has been told by the log. */
export const onSignal = (asked: Latch.Latch): Effect.Effect<never, never, Reload> =>
  Effect.forever(
    Effect.gen(function* () {
      yield* asked.await
      yield* asked.close
      yield* Effect.ignore((yield* Reload).reload)
    }),
  )

/** Opens the latch when `file` reads otherwise than it did. */
export const watch = Effect.fnUntraced(function* (file: string, asked: Latch.Latch) {
  const readFile = readerOf(yield* FileSystem.FileSystem)
  /** Empty while there is none, as in the middle of a rename. */
  const read = Effect.orElseSucceed(
    Effect.map(readFile(file), (bytes) => new TextDecoder().decode(bytes)),
    () => "",
  )
  let loaded = yield* read
  let before = loaded
  const look = Effect.gen(function* () {
    const now = yield* read
    if (now !== "" && now !== loaded && now === before) {
      loaded = now
      yield* asked.open
    }
    before = now
  })
  return yield* Effect.forever(Effect.delay(look, "500 millis"))
})
