/**
 * The file sink: one line of JSON per event (NDJSON), synced to disk before it
 * counts as sent.
 *
 * **Guarantee.** A batch succeeds once it is written and synced. Torn lines that
 * a crash left at the end of the file are repaired before the first write, and
 * logged; their batch had not succeeded, so it is sent again. A file that was
 * moved or deleted (logrotate) is replaced by a new one at the next batch.
 *
 * **Gotcha.** Opening and checking don't touch the file: `relay validate` may run
 * beside a relay that is writing to it, perhaps as another user.
 */
import { resolve } from "node:path"
import { Clock, Effect, Schema, type Scope, Semaphore } from "effect"
import { count, flag, text } from "../../config/schema/Keys.ts"
import { Units } from "../../config/schema/Units.ts"
import type { Entry } from "../../event/Entry.ts"
import * as DisplayBytes from "../../formats/DisplayBytes.ts"
import * as Raw from "../../formats/Raw.ts"
import { codeOf } from "../../runtime/ErrorCode.ts"
import * as FileOwner from "../../runtime/FileOwner.ts"
import { type Failures, misconfigured, passed, type Sink, type SinkError, type SinkType, unavailable } from "../Sink.ts"
import * as LogFile from "./LogFile.ts"
import * as TornLines from "./TornLines.ts"

export const FileConfig = Schema.Struct({
  path: text("The file; its directory is made if need be", { examples: ["./data/events.ndjson"], ownFile: true }),
  rotate: Schema.Struct({
    size: Schema.optionalKey(
      Units.bytes.required({ description: "A new file is begun when this one is larger", examples: ["256 MiB"] }),
    ),
    daily: flag("A new file is begun each day (UTC)", false),
    keep: Schema.optionalKey(count("Maximum old files to keep, the newest; all of them when absent", 1, 1_000_000)),
  })
    .annotate({ description: "When a new file is begun; the old one is renamed with its time" })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed({}))),
})
export type FileConfig = typeof FileConfig.Type

/** The largest batch. */
const batch = { maxEvents: 1_024, maxBytes: 768 * 1024, linger: 20, isAwaited: true }

const lineFeed = Buffer.of(TornLines.lineFeed)

const encode = (entries: ReadonlyArray<Entry>): Uint8Array =>
  Buffer.concat(entries.flatMap(({ event }) => [Raw.line(event), lineFeed]))

/** By path: a write at a time, also where a reload puts another sink in the place of one whose write stands still. */
const locks = new Map<string, Semaphore.Semaphore>()

const lockOf = (path: string): Semaphore.Semaphore => {
  const known = locks.get(path)
  if (known !== undefined) return known
  const lock = Semaphore.makeUnsafe(1)
  locks.set(path, lock)
  return lock
}

const make = Effect.fnUntraced(function* (config: FileConfig): Effect.fn.Return<Sink, never, Scope.Scope> {
  const clock = yield* Clock.Clock
  const oneAtATime = lockOf(resolve(config.path))
  const file = new LogFile.LogFile(config.path, config.rotate)
  // Not waited for: a file system that stands still must not hold up whoever closes the sink.
  yield* Effect.addFinalizer(() => Effect.forkDetach(oneAtATime.withPermit(Effect.promise(() => file.close()))))

  const append = (entries: ReadonlyArray<Entry>): Effect.Effect<Failures, SinkError> =>
    Effect.tryPromise({
      try: () => file.append(encode(entries), clock.currentTimeMillisUnsafe()),
      catch: (error) => classify(config.path, error),
    }).pipe(
      Effect.tapError(() => Effect.promise(() => file.undo())),
      Effect.andThen(passed),
    )

  const logRepaired = Effect.suspend(() => {
    const repaired = file.takeRepaired()
    if (repaired === undefined) return Effect.void
    const parts = [
      ...(repaired.cut > 0 ? [`${repaired.cut} bytes after the last whole line were cut off`] : []),
      ...(repaired.blanked > 0 ? [`${repaired.blanked} bytes between whole lines were overwritten with spaces`] : []),
    ]
    return Effect.logWarning(
      `${config.path} was repaired: ${parts.join(", ")}. A crash or a power cut leaves such garbage; its events had not been delivered, and are written again`,
    ).pipe(Effect.annotateLogs({ file: config.path }))
  })

  const { path } = config
  const checked = Effect.tryPromise({ try: () => LogFile.check(path), catch: (error) => error })
  /** Only the relay's user can tell. */
  const isUnknown = (error: unknown) => codeOf(error) === "EACCES" && FileOwner.isOfServiceUser(path)

  return {
    batch,
    // Uninterruptible, because the next write must know where the file ends.
    send: (entries) => oneAtATime.withPermit(Effect.uninterruptible(Effect.ensuring(append(entries), logRepaired))),
    check: Effect.catch(checked, (error) => (isUnknown(error) ? Effect.void : Effect.fail(classify(path, error)))),
    advise: () =>
      Effect.match(checked, {
        onSuccess: () => [],
        onFailure: (error) => (isUnknown(error) ? [`${path} ${FileOwner.unchecked}`] : []),
      }),
  }
})

const faults: Readonly<Record<string, string>> = {
  EACCES: "the relay's user may not write there; change the owner, or the path",
  EPERM: "the relay's user may not write there; change the owner, or the path",
  EISDIR: "it is a directory; name a file in it",
  ENOTDIR: "a part of the path is a file, not a directory",
  EEXIST: "a part of the path is a file, not a directory",
  ENOTREG: "it is a device, a pipe or a socket; name a regular file",
  ENOTOURS:
    "it is not empty, the relay did not begin it, and its last 64 KiB are not whole lines of JSON objects, so it is left as it is; name a file of its own, or move this one away",
  EROFS: "the file system is read-only; change the path",
  ELOOP: "its symbolic links lead in a circle",
  ENAMETOOLONG: "the name is too long",
}

const passing: Readonly<Record<string, string>> = {
  ENOSPC: "the disk is full; make room, and writing resumes by itself",
  EDQUOT: "the quota of the relay's user is used up; raise it, and writing resumes by itself",
  EFBIG: "the file is as large as it may be; rotate it by size",
  EIO: "the disk has failed to write; look at the kernel's log",
  EMFILE: "the relay has too many files open; raise its limit",
}

const classify = (path: string, error: unknown): SinkError => {
  const code = codeOf(error)
  const what = `${path} can't be written (${code})`
  const fault = faults[code]
  return fault === undefined
    ? unavailable(`${what}: ${passing[code] ?? "it is tried again"}`)
    : misconfigured(`${what}: ${fault}`)
}

export const File: SinkType<FileConfig> = {
  config: FileConfig,
  concurrency: 1,
  open: make,
  preview: ({ path }, batch) => batch.map(({ event }) => ({ file: path, line: DisplayBytes.show(Raw.line(event)) })),
}
