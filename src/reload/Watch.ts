/**
 * Triggers of a reload: SIGHUP, and with `run --watch` a change of the config or of
 * a file that it names, such as a certificate.
 *
 * The files are read twice a second, so that a file that an editor renames into
 * place, or that a symbolic link leads to, is seen like any other. A change counts
 * when two reads in a row agree, so that a half-written file isn't used. A file that
 * can't be read or is empty counts after five seconds.
 */
import { Effect, FileSystem, Latch, Option } from "effect"
import { type FileTexts, readerOf } from "../config/load/References.ts"
import { rounds } from "../event/Rounds.ts"
import { onSignal } from "../runtime/Runtime.ts"
import { replaced } from "./Replaced.ts"

const lookEvery = "500 millis"

/** A latch that every trigger opens, from now on. If `files` are given, they are watched. */
export const triggers = Effect.fnUntraced(function* (files?: FileTexts) {
  const triggered = Latch.makeUnsafe(false)
  yield* onSignal("SIGHUP", () => triggered.openUnsafe())
  if (files !== undefined) yield* Effect.forkScoped(watch(files, triggered), { startImmediately: true })
  return triggered
})

/** Reads in a row after which a file that is absent or empty counts as changed. A rename takes less. */
const patience = 10

/**
 * Opens the latch when one of `files` has another text than when it was loaded. Each load updates the list of files.
 */
export const watch = Effect.fnUntraced(function* (files: FileTexts, triggered: Latch.Latch) {
  const fileSystem = yield* FileSystem.FileSystem
  const readFile = readerOf(fileSystem)
  const known = new Set<string>()
  /** Warns once of a file whose new content can't be read. */
  const warnOfReplaced = Effect.fnUntraced(function* (path: string) {
    const found = yield* Effect.option(fileSystem.stat(path))
    const links = Option.flatMap(found, ({ nlink }) => nlink)
    if (known.has(path) || !Option.contains(links, 0n)) return
    known.add(path)
    const { message, action } = replaced(path)
    yield* Effect.logWarning(`${message}: ${action}`)
  })
  /** Empty while the file doesn't exist, as in the middle of a rename. */
  const read = (path: string) =>
    Effect.orElseSucceed(
      Effect.map(readFile(path), (bytes) => new TextDecoder().decode(bytes)),
      () => "",
    )
  let before: ReadonlyMap<string, string> = new Map(files)
  const empty = new Map<string, number>()
  const look = Effect.gen(function* () {
    const now: FileTexts = new Map()
    for (const path of files.keys()) {
      const text = yield* read(path)
      now.set(path, text)
      empty.set(path, text === "" ? (empty.get(path) ?? 0) + 1 : 0)
      yield* warnOfReplaced(path)
    }
    // Not one by one: a certificate and its key change together.
    const changed = [...now].filter(
      ([path, text]) =>
        files.has(path) && text !== files.get(path) && (text !== "" || (empty.get(path) ?? 0) >= patience),
    )
    if (changed.length > 0 && changed.every(([path, text]) => text === before.get(path))) {
      for (const [path, text] of changed) files.set(path, text)
      yield* triggered.open
    }
    before = now
  })
  return yield* Effect.delay(rounds("watching the config's files", look, lookEvery), lookEvery)
})
