/**
 * The file sink: one line of JSON per event (NDJSON), synced to disk before it
 * counts as sent.
 *
 * **Guarantee.** A batch succeeds once it is written and synced. Torn lines that a
 * crash left at the end of the file are repaired before the first write, and logged;
 * their batch had not succeeded, so it is sent again. A file that was moved or
 * deleted (logrotate) is replaced by a new one at the next batch.
 *
 * **Gotcha.** Opening and checking don't touch the file: `relay validate` may run
 * while a relay is writing to it, perhaps as another user.
 */
import { constants, type Stats } from "node:fs"
import { access, type FileHandle, mkdir, open, readdir, rename, stat, unlink } from "node:fs/promises"
import { basename, dirname, extname, join, resolve } from "node:path"
import { Clock, Effect, Schema, type Scope, Semaphore } from "effect"
import { body, bodyProblem, count, flag, oneOf, text } from "../../config/schema/Keys.ts"
import { Units } from "../../config/schema/Units.ts"
import type { Entry } from "../../event/Event.ts"
import { displayBytes, rawLine } from "../../formats/Rendering.ts"
import { codeOf } from "../../runtime/Errors.ts"
import { isOfServiceUser, unchecked } from "../../runtime/Files.ts"
import * as MessageKeys from "../MessageKeys.ts"
import { renderEach } from "../Rendered.ts"
import { misconfigured, passed, type Sink, type SinkError, type SinkType, unavailable } from "../Sink.ts"
import {
  endsInLines,
  isMarked,
  lineFeed as lineFeedByte,
  maxRead,
  nothing,
  type Repaired,
  readMark,
  repair,
  syncDirectory,
  writeMark,
} from "./TornLines.ts"

// An append-only file of lines, rotated by size, by day, or when it was moved away. Its methods reject with the
// system's errors; the sink below classifies them. **Guarantee.** The file holds only whole lines, however the last
// process ended. A failed write leaves nothing behind, and no byte of another program is changed. The names of new and
// rotated files are durable before a line is written to them. A stalled file system (an unavailable NFS server, a
// frozen disk) delays nothing else, because nothing here waits for it on the event loop.

/** When the file is rotated. */
interface Rotation {
  /** Bytes. */
  readonly size?: number
  readonly daily: boolean
  /** The number of rotated files that are kept (default: all). */
  readonly keep?: number
}

interface Open {
  readonly handle: FileHandle
  readonly device: number
  readonly inode: number
  /** The day (UTC) on which the file was created. */
  readonly day: number
}

class NotRegular extends Error {
  readonly code = "ENOTREG"
}

class NotOurs extends Error {
  readonly code = "ENOTOURS"
}

const dayOf = (millis: number): number => Math.floor(millis / 86_400_000)

const statOf = async (path: string): Promise<Stats | undefined> => {
  try {
    return await stat(path)
  } catch (error) {
    if (codeOf(error) === "ENOENT") return undefined
    throw error
  }
}

/** Creates a directory and its parents, and syncs each parent. */
const makeDirectory = async (path: string): Promise<void> => {
  const first = await mkdir(path, { recursive: true })
  if (first === undefined) return
  for (let made = resolve(path); ; made = dirname(made)) {
    await syncDirectory(dirname(made))
    if (made === resolve(first)) return
  }
}

/** Lines hold business data: only the relay's user and its group may read them. */
const mode = 0o640

/** Repairs the relay's own bytes and marks the offset of the next ones. Refuses another program's file. */
const claim = async (handle: FileHandle, path: string, { ino: inode, size }: Stats): Promise<Repaired> => {
  const mark = await readMark(path)
  if (mark !== undefined && (await isMarked(handle, size, inode, mark))) {
    // A new file with the inode number of the last one: its name is not durable yet.
    if (size === 0) await syncDirectory(dirname(path))
    const repaired = await repair(handle, path, size, mark)
    if (repaired !== undefined) return repaired
  }
  if (!(await endsInLines(handle, size))) throw new NotOurs(path)
  await writeMark(path, { inode, from: size, to: size })
  return nothing
}

const begin = async (path: string, now: number): Promise<Open & { readonly repaired: Repaired }> => {
  await makeDirectory(dirname(path))
  const there = await statOf(path)
  // Opening a pipe or a device could wait for ever.
  if (there !== undefined && !there.isFile() && !there.isDirectory()) throw new NotRegular(path)
  const handle = await open(path, "a+", mode)
  try {
    const stats = await handle.stat()
    const { dev, ino, size, birthtimeMs, mtimeMs } = stats
    const repaired = await claim(handle, path, stats)
    const begun = birthtimeMs > 0 ? birthtimeMs : mtimeMs
    return { handle, device: dev, inode: ino, day: dayOf(size === repaired.cut ? now : begun), repaired }
  } catch (error) {
    await handle.close()
    throw error
  }
}

const stampOf = (now: number): string => new Date(now).toISOString().slice(0, 19).replaceAll(":", "-")

interface Rotated {
  readonly path: string
  readonly stamp: string
  /** Numbers the files rotated within one second: 0, 1, 2, … */
  readonly number: number
}

/** The rotated files of a path, oldest first. */
const rotatedFiles = async (path: string): Promise<ReadonlyArray<Rotated>> => {
  const extension = extname(path)
  const prefix = `${basename(path, extension)}-`
  const named = /^(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d)Z(?:-(\d+))?$/
  const names = await readdir(dirname(path))
  return names
    .flatMap((name): ReadonlyArray<Rotated> => {
      if (!name.startsWith(prefix) || !name.endsWith(extension)) return []
      const found = named.exec(name.slice(prefix.length, name.length - extension.length))
      if (found === null) return []
      return [{ path: join(dirname(path), name), stamp: found[1] ?? "", number: Number(found[2] ?? 0) }]
    })
    .toSorted((a, b) => (a.stamp === b.stamp ? a.number - b.number : a.stamp < b.stamp ? -1 : 1))
}

/**
 * Returns the rotated name of a file, `events-2026-11-21T08-00-00Z.ndjson` for
 * `events.ndjson`, with a number if that name exists.
 */
const rotatedName = async (path: string, now: number): Promise<string> => {
  const extension = extname(path)
  const stamp = stampOf(now)
  const last = (await rotatedFiles(path)).findLast((file) => file.stamp === stamp)
  const number = last === undefined ? "" : `-${last.number + 1}`
  return join(dirname(path), `${basename(path, extension)}-${stamp}Z${number}${extension}`)
}

export class LogFile {
  readonly #path: string
  readonly #rotation: Rotation
  #open: Open | undefined
  /** The file's size before the last append, and the size of that append. */
  #before = 0
  #appended = 0
  #repaired: Repaired | undefined

  constructor(path: string, rotation: Rotation) {
    this.#path = path
    this.#rotation = rotation
  }

  /** Appends whole lines and syncs them; `now` is in epoch milliseconds. One call at a time. */
  async append(lines: Uint8Array, now: number): Promise<void> {
    this.#appended = 0
    const { handle, inode } = await this.#current(now)
    if (lines.length >= maxRead) {
      await writeMark(this.#path, { inode, from: this.#before, to: this.#before + lines.length })
    }
    this.#appended = lines.length
    for (let written = 0; written < lines.length; ) {
      written += (await handle.write(lines, written, lines.length - written)).bytesWritten
    }
    await handle.datasync()
  }

  /** The repairs since the last call. */
  takeRepaired(): Repaired | undefined {
    const repaired = this.#repaired
    this.#repaired = undefined
    return repaired
  }

  /** Truncates an append that was cut short or could not be synced, if the disk allows it. */
  async undo(): Promise<void> {
    if (this.#open === undefined) return
    const { handle } = this.#open
    try {
      // If the file is longer than the relay made it, another program has written to it, and its lines must stay.
      const isOurs = (await handle.stat()).size <= this.#before + this.#appended
      if (isOurs) await handle.truncate(this.#before)
    } catch {
      // Torn lines are repaired when the file is opened again; whole ones are sent twice.
    }
    await this.close()
  }

  async close(): Promise<void> {
    const closing = this.#open
    this.#open = undefined
    // The relevant bytes were synced before, so an error means nothing.
    await closing?.handle.close().catch(() => {})
  }

  /** The open file; created, reopened after it was moved away, or rotated as needed. */
  async #current(now: number): Promise<Open> {
    const there = await statOf(this.#path)
    const same = there?.ino === this.#open?.inode && there?.dev === this.#open?.device
    if (!same) await this.close()
    this.#before = there?.size ?? 0
    if (this.#open === undefined) {
      const { repaired, ...open } = await begin(this.#path, now)
      this.#open = open
      if (repaired.cut + repaired.blanked > 0) this.#repaired = repaired
      this.#before = (await open.handle.stat()).size
    }
    if (this.#before === 0 || !this.#isDue(this.#open, now)) return this.#open
    await this.#rotate(now)
    this.#open = await begin(this.#path, now)
    this.#before = 0
    return this.#open
  }

  #isDue({ day }: Open, now: number): boolean {
    const { size, daily } = this.#rotation
    return (size !== undefined && this.#before >= size) || (daily && day < dayOf(now))
  }

  async #rotate(now: number): Promise<void> {
    await rename(this.#path, await rotatedName(this.#path, now))
    await this.close()
    const { keep } = this.#rotation
    if (keep === undefined) return
    for (const old of (await rotatedFiles(this.#path)).slice(0, -keep)) await unlink(old.path)
  }
}

/** Rejects with the error of a first write, if it can be predicted without a change of the file. */
const checkWritable = async (path: string): Promise<void> => {
  const there = await statOf(path)
  if (there !== undefined) {
    if (there.isDirectory()) throw Object.assign(new Error(path), { code: "EISDIR" })
    if (!there.isFile()) throw new NotRegular(path)
    await (await open(path, constants.O_WRONLY | constants.O_APPEND)).close()
    const handle = await open(path, "r")
    try {
      const { ino, size } = await handle.stat()
      const mark = await readMark(path)
      const isOurs = mark !== undefined && (await isMarked(handle, size, ino, mark))
      if (!isOurs && !(await endsInLines(handle, size))) throw new NotOurs(path)
    } finally {
      await handle.close()
    }
    return
  }
  let directory = dirname(resolve(path))
  while ((await statOf(directory)) === undefined) directory = dirname(directory)
  if ((await statOf(directory))?.isDirectory() !== true) throw Object.assign(new Error(path), { code: "ENOTDIR" })
  await access(directory, constants.W_OK | constants.X_OK)
}

export const FileConfig = Schema.Struct({
  path: text("The file. Its directory is created if it is missing", {
    examples: ["./data/events.ndjson"],
    target: "place",
    ownFile: true,
  }),
  format: oneOf("`raw`: the signed body. `template`: `body`, filled in", ["raw", "template"], "raw"),
  body,
  rotate: Schema.Struct({
    size: Schema.optionalKey(
      Units.bytes.required({ description: "A new file is started when this one is larger", examples: ["256 MiB"] }),
    ),
    daily: flag("A new file is started each day (UTC)", false),
    keep: Schema.optionalKey(count("Maximum old files to keep, the newest; all of them when absent", 1, 1_000_000)),
  })
    .annotate({ description: "When a new file is started; the old one is renamed with its time" })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed({}))),
}).check(Schema.makeFilter(bodyProblem), Schema.makeFilter(MessageKeys.objectProblem))
export type FileConfig = typeof FileConfig.Type

/** The largest batch. */
const batch = { maxEvents: 1_024, maxBytes: 768 * 1024, linger: 20, isAwaited: true }

const lineFeed = Buffer.of(lineFeedByte)

/** Joins lines, each with its line feed. */
const joined = (lines: ReadonlyArray<Uint8Array>): Uint8Array =>
  Buffer.concat(lines.flatMap((line) => [line, lineFeed]))

/** Returns a function that makes the line of an event. It throws if the config's `body` makes none. */
const lineMaker = ({ format, body }: FileConfig): ((entry: Entry) => Uint8Array) => {
  if (format === "raw") return ({ event }) => rawLine(event)
  const objectOf = MessageKeys.objectOf(body)
  return (entry) => Buffer.from(objectOf(entry))
}

/** One write at a time by path, also if a reload replaces a sink whose write stalls. */
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
  const file = new LogFile(config.path, config.rotate)
  // Not awaited: a stalled file system must not delay the caller that closes the sink.
  yield* Effect.addFinalizer(() => Effect.forkDetach(oneAtATime.withPermit(Effect.promise(() => file.close()))))

  const append = (lines: ReadonlyArray<Uint8Array>): Effect.Effect<void, SinkError> =>
    Effect.tryPromise({
      try: () => file.append(joined(lines), clock.currentTimeMillisUnsafe()),
      catch: (error) => classify(config.path, error),
    }).pipe(Effect.tapError(() => Effect.promise(() => file.undo())))

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
  const makeLine = lineMaker(config)
  /** Uninterruptible, because the next write must know the file's end. */
  const write = (lines: ReadonlyArray<Uint8Array>) =>
    oneAtATime.withPermit(Effect.uninterruptible(Effect.ensuring(append(lines), logRepaired)))
  const send: Sink["send"] = (entries) => {
    if (config.format === "raw") return Effect.andThen(write(entries.map(makeLine)), passed)
    const failures = new Map<number, SinkError>()
    const lines = renderEach(entries, makeLine, failures).map(({ message }) => message)
    return Effect.as(lines.length === 0 ? Effect.void : write(lines), failures)
  }
  const checked = Effect.tryPromise({ try: () => checkWritable(path), catch: (error) => error })
  /** Only the relay's user can check this. */
  const isUnknown = (error: unknown) => codeOf(error) === "EACCES" && isOfServiceUser(path)

  return {
    batch,
    send,
    check: Effect.catch(checked, (error) => (isUnknown(error) ? Effect.void : Effect.fail(classify(path, error)))),
    advise: () =>
      Effect.match(checked, {
        onSuccess: () => [],
        onFailure: (error) => (isUnknown(error) ? [`${path} ${unchecked}`] : []),
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
  preview: (config, batch) =>
    batch.map(lineMaker(config)).map((line) => ({ file: config.path, line: displayBytes(line) })),
}
