/**
 * What triggers a reload: SIGHUP, and with `run --watch` a change of the file.
 *
 * The file is read twice a second, so that one that an editor renames into
 * place, or that a symbolic link leads to, is seen like any other. A change
 * counts when two reads in a row agree, so that a file that is being written is
 * not taken half. Files that it refers to (`file:PATH`) are not watched.
 */
import { Effect, FileSystem, Latch } from "effect"
import { readerOf } from "../config/load/ReadFile.ts"
import { onHangup } from "../runtime/Runtime.ts"

/** A latch that every trigger opens, from now on; `file` is watched where it is given. */
export const triggers = Effect.fnUntraced(function* (file?: string) {
  const triggered = Latch.makeUnsafe(false)
  yield* onHangup(() => triggered.openUnsafe())
  if (file !== undefined) yield* Effect.forkScoped(watch(file, triggered), { startImmediately: true })
  return triggered
})

/** Opens the latch when `file` has changed. */
export const watch = Effect.fnUntraced(function* (file: string, triggered: Latch.Latch) {
  const readFile = readerOf(yield* FileSystem.FileSystem)
  /** Empty while there is no file, as in the middle of a rename. */
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
      yield* triggered.open
    }
    before = now
  })
  return yield* Effect.forever(Effect.delay(look, "500 millis"))
})
