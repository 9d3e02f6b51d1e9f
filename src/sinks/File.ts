/**
 * The file sink: an event a line (NDJSON), on disk before it counts as sent.
 *
 * **Promise.** A batch is written and fsynced, then it has passed. What a crash
 * left of a line at the end of the file is cut off when the file is opened: its
 * batch never passed and comes again. A file that was moved away (logrotate) is
 * noticed before the next batch, and a new one begun.
 */
import {
  closeSync,
  fdatasync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readSync,
  renameSync,
  statSync,
  writeSync,
} from "node:fs"
import { basename, dirname, extname, join } from "node:path"
import { promisify } from "node:util"
import { Clock, DateTime, Effect, Schema, type Scope, Semaphore } from "effect"
import { Words } from "../config/Words.ts"
import { line } from "../formats/Lines.ts"
import type { Entry } from "../journal/Journal.ts"
import { allSent, type Sink, SinkError, SinkMisconfigured, type SinkType, SinkUnavailable } from "./Sink.ts"

// --- config ------------------------------------------------------------------

export const FileConfig = Schema.Struct({
  path: Schema.NonEmptyString.annotate({
    description: "The file; its directory is made if need be",
    examples: ["./data/events.ndjson"],
  }),
  rotate: Schema.Struct({
    size: Schema.optionalKey(
      Words.bytes.required({ description: "A new file is begun when this one is larger", examples: ["256 MiB"] }),
    ),
    daily: Schema.Boolean.annotate({ description: "A new file is begun each day (UTC)", default: false }).pipe(
      Schema.withDecodingDefaultKey(Effect.succeed(false)),
    ),
  })
    .annotate({ description: "When a new file is begun; the old one is renamed with its time" })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed({}))),
})
export type FileConfig = typeof FileConfig.Type

/** Events and bytes of a batch at most. */
const batch = { maxEvents: 1_024, maxBytes: 4 * 1024 * 1024 }
const lineFeed = 0x0a

// --- encode ------------------------------------------------------------------

/** One buffer for all batches: a batch is written before the next is encoded. */
class Lines {
  #buffer = Buffer.allocUnsafe(256 * 1024)
  #length = 0

  encode(entries: ReadonlyArray<Entry>): Uint8Array {
    this.#length = 0
    for (const { event } of entries) {
      const bytes = line(event)
      this.#reserve(bytes.length + 1)
      this.#buffer.set(bytes, this.#length)
      this.#length += bytes.length
      this.#buffer[this.#length++] = lineFeed
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

interface Open {
  readonly fd: number
  readonly inode: number
  /** The day (UTC) the file's first line was written, as in 2026-11-21. */
  readonly day: string
  size: number
}

const sync = promisify(fdatasync)
const dayOf = (millis: number): string => DateTime.formatIso(DateTime.makeUnsafe(millis)).slice(0, 10)

/** Where the last whole line ends: what stands behind it is a write that a crash cut short. */
const endOfLines = (fd: number, size: number): number => {
  const chunk = Buffer.alloc(64 * 1024)
  for (let end = size; end > 0; ) {
    const start = Math.max(0, end - chunk.length)
    const read = readSync(fd, chunk, 0, end - start, start)
    const last = chunk.subarray(0, read).lastIndexOf(lineFeed)
    if (last !== -1) return start + last + 1
    end = start
  }
  return 0
}

/** A name in a directory is only durable when the directory is. */
const syncDirectory = (path: string): void => {
  const fd = openSync(dirname(path), "r")
  try {
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}

const begin = (path: string, now: number): Open => {
  mkdirSync(dirname(path), { recursive: true })
  const fd = openSync(path, "a+")
  try {
    const { size, ino, birthtimeMs, mtimeMs } = fstatSync(fd)
    const end = endOfLines(fd, size)
    if (end < size) ftruncateSync(fd, end)
    syncDirectory(path)
    const since = birthtimeMs > 0 ? birthtimeMs : mtimeMs
    return { fd, inode: ino, day: dayOf(size === 0 ? now : since), size: end }
  } catch (error) {
    closeSync(fd)
    throw error
  }
}

const write = (fd: number, bytes: Uint8Array): void => {
  for (let written = 0; written < bytes.length; ) written += writeSync(fd, bytes, written)
}

const isThere = (path: string): boolean => statSync(path, { throwIfNoEntry: false }) !== undefined

/** `events.ndjson` as `events-2026-11-21T08-00-00Z.ndjson`, and numbered if that is taken. */
const rotatedName = (path: string, now: number): string => {
  const extension = extname(path)
  const stamp = `${DateTime.formatIso(DateTime.makeUnsafe(now)).slice(0, 19).replaceAll(":", "-")}Z`
  const name = `${basename(path, extension)}-${stamp}`
  for (let n = 0; ; n++) {
    const candidate = join(dirname(path), `${name}${n === 0 ? "" : `-${n}`}${extension}`)
    if (!isThere(candidate)) return candidate
  }
}

const make = Effect.fnUntraced(function* ({
  path,
  rotate,
}: FileConfig): Effect.fn.Return<Sink, SinkError, Scope.Scope> {
  const clock = yield* Clock.Clock
  const writing = yield* Semaphore.make(1)
  const lines = new Lines()
  let open: Open | undefined

  const end = (): void => {
    if (open !== undefined) closeSync(open.fd)
    open = undefined
  }
  yield* Effect.addFinalizer(() => Effect.sync(end))

  /** The file to write to: begun, begun anew where it was moved away, or rotated. */
  const current = (now: number): Open => {
    if (open !== undefined && statSync(path, { throwIfNoEntry: false })?.ino !== open.inode) end()
    open ??= begin(path, now)
    const tooLarge = rotate.size !== undefined && open.size >= rotate.size
    const tooOld = rotate.daily && open.day !== dayOf(now)
    if (open.size > 0 && (tooLarge || tooOld)) {
      renameSync(path, rotatedName(path, now))
      end()
      open = begin(path, now)
    }
    return open
  }

  const send = (entries: ReadonlyArray<Entry>): Effect.Effect<typeof allSent, SinkError> =>
    writing.withPermits(1)(
      // A write that was begun is ended: an interrupted one would leave the size unknown.
      Effect.uninterruptible(
        Effect.tryPromise({
          try: async () => {
            const file = current(clock.currentTimeMillisUnsafe())
            const bytes = lines.encode(entries)
            try {
              write(file.fd, bytes)
              await sync(file.fd)
              file.size += bytes.length
            } catch (error) {
              // Part of a line may stand there: opening it again cuts that off.
              end()
              throw error
            }
            return allSent
          },
          catch: (error) => classify(path, error),
        }),
      ),
    )

  const check = Effect.try({
    try: () => {
      current(clock.currentTimeMillisUnsafe())
    },
    catch: (error) => classify(path, error),
  })
  yield* check
  return { batch, send, check }
})

// --- classify ----------------------------------------------------------------

const advice: Readonly<Record<string, string>> = {
  EACCES: "the relay's user may not write there: change the owner or the path",
  EPERM: "the relay's user may not write there: change the owner or the path",
  EISDIR: "it is a directory: name a file",
  ENOTDIR: "a part of the path is a file, not a directory",
  EROFS: "the file system is read-only",
  ELOOP: "its symbolic links lead in a circle",
  ENAMETOOLONG: "the name is too long",
}

const classify = (path: string, error: unknown): SinkError => {
  const code = error instanceof Error && "code" in error ? String(error.code) : "unknown error"
  const hint = advice[code]
  if (hint !== undefined) {
    return new SinkError({ reason: new SinkMisconfigured({ message: `${path} can't be written (${code}): ${hint}` }) })
  }
  const why = code === "ENOSPC" || code === "EDQUOT" ? "the disk is full" : code
  return new SinkError({ reason: new SinkUnavailable({ message: `${path} can't be written: ${why}` }) })
}

export const File: SinkType<FileConfig> = {
  type: "file",
  config: FileConfig,
  concurrency: 1,
  open: (_, config) => make(config),
}
