/**
 * The file sink: an event a line (NDJSON), on disk before it counts as sent.
 *
 * **Promise.** A batch is written and synced, and then it has passed. What a
 * crash or a power cut left of lines at the end of the file is mended before
 * the first write, and told: its batch never passed and comes again. A file that was moved away or
 * deleted (logrotate) is noticed at the next batch, and a new one begun.
 *
 * **Trap.** Opening and checking touch nothing: `relay validate` runs beside a
 * relay that is writing to this very file, perhaps as another user.
 */
import { fdatasync } from "node:fs"
import { Clock, Effect, Schema, type Scope, Semaphore } from "effect"
import { Units } from "../../config/schema/Units.ts"
import type { Entry } from "../../event/Entry.ts"
import * as Shown from "../../formats/DisplayBytes.ts"
import * as Raw from "../../formats/Raw.ts"
import {
  allSent,
  type Failures,
  type Sink,
  SinkError,
  SinkMisconfigured,
  type SinkType,
  SinkUnavailable,
} from "../Sink.ts"
import * as LogFile from "./LogFile.ts"

// --- config ------------------------------------------------------------------

export const FileConfig = Schema.Struct({
  path: Schema.NonEmptyString.annotate({
    description: "The file; its directory is made if need be",
    examples: ["./data/events.ndjson"],
  }),
  rotate: Schema.Struct({
    size: Schema.optionalKey(
      Units.bytes.required({ description: "A new file is begun when this one is larger", examples: ["256 MiB"] }),
    ),
    daily: Schema.Boolean.annotate({ description: "A new file is begun each day (UTC)", default: false }).pipe(
      Schema.withDecodingDefaultKey(Effect.succeed(false)),
    ),
    keep: Schema.optionalKey(
      Schema.Int.check(
        Schema.isBetween({ minimum: 1, maximum: 1_000_000 }, { expected: "a whole number from 1 to 1000000" }),
      ).annotate({ description: "Only so many old files stay, the newest; all of them when absent" }),
    ),
  })
    .annotate({ description: "When a new file is begun; the old one is renamed with its time" })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed({}))),
})
export type FileConfig = typeof FileConfig.Type

/** Events and bytes of a batch at most. */
const batch = { maxEvents: 1_024, maxBytes: 4 * 1024 * 1024, linger: 20 }

// --- encode ------------------------------------------------------------------

/** One buffer for all batches: a batch is written before the next is encoded. */
class Lines {
  #buffer = Buffer.allocUnsafe(256 * 1024)
  #length = 0

  /** The batch's lines; valid until the next call. */
  encode(entries: ReadonlyArray<Entry>): Uint8Array {
    this.#length = 0
    for (const { event } of entries) {
      const line = Raw.line(event)
      this.#reserve(line.length + 1)
      this.#buffer.set(line, this.#length)
      this.#length += line.length
      this.#buffer[this.#length++] = LogFile.lineFeed
    }
    return this.#buffer.subarray(0, this.#length)
  }

  #reserve(more: number): void {
    const needed = this.#length + more
    if (needed <= this.#buffer.length) return
    const larger = Buffer.allocUnsafe(Math.max(needed, this.#buffer.length * 2))
    larger.set(this.#buffer.subarray(0, this.#length))
    this.#buffer = larger
  }
}

// --- send --------------------------------------------------------------------

const make = Effect.fnUntraced(function* (config: FileConfig): Effect.fn.Return<Sink, never, Scope.Scope> {
  const clock = yield* Clock.Clock
  const oneAtATime = yield* Semaphore.make(1)
  const lines = new Lines()
  const file = new LogFile.LogFile(config.path, config.rotate)
  yield* Effect.addFinalizer(() => Effect.sync(() => file.close()))

  const failed = (error: unknown) => Effect.fail(classify(config.path, error))

  const append = (entries: ReadonlyArray<Entry>): Effect.Effect<Failures, SinkError> =>
    Effect.callback((resume) => {
      const undo = (error: unknown) => {
        file.undo()
        resume(failed(error))
      }
      try {
        const fd = file.append(lines.encode(entries), clock.currentTimeMillisUnsafe())
        fdatasync(fd, (error) => (error === null ? resume(passed) : undo(error)))
      } catch (error) {
        undo(error)
      }
    })

  const tellOfMended = Effect.suspend(() => {
    const mended = file.takeMended()
    if (mended === undefined) return Effect.void
    const parts = [
      ...(mended.cut > 0 ? [`${mended.cut} bytes behind the last whole line were cut off`] : []),
      ...(mended.blanked > 0 ? [`${mended.blanked} bytes between whole lines were made spaces`] : []),
    ]
    return Effect.logWarning(
      `${config.path} was mended: ${parts.join(", ")}. A crash or a power cut leaves such garbage; it was of events that had not passed, and they are written again`,
    )
  })

  return {
    batch,
    // A write that was begun is ended: the next one must know where the file ends.
    send: (entries) => oneAtATime.withPermit(Effect.uninterruptible(Effect.ensuring(append(entries), tellOfMended))),
    check: Effect.try({ try: () => LogFile.check(config.path), catch: (error) => classify(config.path, error) }),
  }
})

const passed = Effect.succeed(allSent)

// --- classify ----------------------------------------------------------------

const misconfigured: Readonly<Record<string, string>> = {
  EACCES: "the relay's user may not write there; change the owner, or the path",
  EPERM: "the relay's user may not write there; change the owner, or the path",
  EISDIR: "it is a directory; name a file in it",
  ENOTDIR: "a part of the path is a file, not a directory",
  EEXIST: "a part of the path is a file, not a directory",
  ENOTREG: "it is a device, a pipe or a socket; name a regular file",
  ENOTOURS: "it holds something else than lines of events; name a file of its own",
  EROFS: "the file system is read-only; change the path",
  ELOOP: "its symbolic links lead in a circle",
  ENAMETOOLONG: "the name is too long",
}

const unavailable: Readonly<Record<string, string>> = {
  ENOSPC: "the disk is full; make room, and it goes on by itself",
  EDQUOT: "the quota of the relay's user is used up; raise it, and it goes on by itself",
  EFBIG: "the file is as large as it may be; rotate it by size",
  EIO: "the disk has failed to write; look at the kernel's log",
  EMFILE: "the relay has too many files open; raise its limit",
}

const classify = (path: string, error: unknown): SinkError => {
  const code = LogFile.codeOf(error)
  const say = (why: string) => `${path} can't be written (${code}): ${why}`
  const fault = misconfigured[code]
  return new SinkError({
    reason:
      fault === undefined
        ? new SinkUnavailable({ message: say(unavailable[code] ?? "it is tried again") })
        : new SinkMisconfigured({ message: say(fault) }),
  })
}

export const File: SinkType<FileConfig> = {
  type: "file",
  config: FileConfig,
  concurrency: 1,
  open: (_, config) => make(config),
  preview: ({ path }, batch) => batch.map(({ event }) => ({ file: path, line: Shown.show(Raw.line(event)) })),
}
