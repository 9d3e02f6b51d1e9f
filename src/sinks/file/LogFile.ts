/**
 * An append-only file of lines, rotated by size, by day, or when it was moved
 * away. Its methods throw the system's errors; `File.ts` classifies them.
 *
 * **Guarantee.** The file holds whole lines only, however the last process
 * ended, and a failed write leaves nothing behind. The names of new and rotated
 * files are durable before a line is written to them.
 */
import {
  accessSync,
  closeSync,
  constants,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  statSync,
  unlinkSync,
  writeSync,
} from "node:fs"
import { basename, dirname, extname, join, resolve } from "node:path"
import { type Repaired, repair } from "./TornLines.ts"

export const lineFeed = 0x0a

/** When the file is rotated. */
export interface Rotation {
  /** Bytes. */
  readonly size?: number
  readonly daily: boolean
  /** How many rotated files are kept; all when absent. */
  readonly keep?: number
}

interface Open {
  readonly fd: number
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

const statOf = (path: string) => statSync(path, { throwIfNoEntry: false })

/** Syncs a directory: only then is a new name in it durable. */
const syncDirectory = (path: string): void => {
  const fd = openSync(path, "r")
  try {
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}

/** Creates a directory and its parents, and syncs each parent. */
const makeDirectory = (path: string): void => {
  const first = mkdirSync(path, { recursive: true })
  if (first === undefined) return
  for (let made = resolve(path); ; made = dirname(made)) {
    syncDirectory(dirname(made))
    if (made === resolve(first)) return
  }
}

/** Lines hold business data: only the relay's user and its group may read them. */
const mode = 0o640

const begin = (path: string, now: number, isStart: boolean): Open & { readonly repaired: Repaired } => {
  makeDirectory(dirname(path))
  const there = statOf(path)
  // Opening a pipe or a device could wait for ever.
  if (there !== undefined && !there.isFile() && !there.isDirectory()) throw new NotRegular(path)
  const fd = openSync(path, "a+", mode)
  try {
    const { dev, ino, size, birthtimeMs, mtimeMs } = fstatSync(fd)
    const repaired = repair(fd, path, size, isStart)
    if (repaired === undefined) throw new NotOurs(path)
    if (there === undefined) syncDirectory(dirname(path))
    const begun = birthtimeMs > 0 ? birthtimeMs : mtimeMs
    return { fd, device: dev, inode: ino, day: dayOf(size === repaired.cut ? now : begun), repaired }
  } catch (error) {
    closeSync(fd)
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
const rotatedFiles = (path: string): ReadonlyArray<Rotated> => {
  const extension = extname(path)
  const prefix = `${basename(path, extension)}-`
  const named = /^(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d)Z(?:-(\d+))?$/
  return readdirSync(dirname(path))
    .flatMap((name): ReadonlyArray<Rotated> => {
      if (!name.startsWith(prefix) || !name.endsWith(extension)) return []
      const found = named.exec(name.slice(prefix.length, name.length - extension.length))
      if (found === null) return []
      return [{ path: join(dirname(path), name), stamp: found[1] ?? "", number: Number(found[2] ?? 0) }]
    })
    .toSorted((a, b) => (a.stamp === b.stamp ? a.number - b.number : a.stamp < b.stamp ? -1 : 1))
}

/** `events.ndjson` as `events-2026-11-21T08-00-00Z.ndjson`, with a number when that name is taken. */
const rotatedName = (path: string, now: number): string => {
  const extension = extname(path)
  const stamp = stampOf(now)
  const last = rotatedFiles(path).findLast((file) => file.stamp === stamp)
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
  #isStart = true

  constructor(path: string, rotation: Rotation) {
    this.#path = path
    this.#rotation = rotation
  }

  /** Appends whole lines and gives the descriptor to sync; `now` is in epoch milliseconds. */
  append(lines: Uint8Array, now: number): number {
    this.#appended = 0
    const { fd } = this.#current(now)
    this.#appended = lines.length
    for (let written = 0; written < lines.length; ) written += writeSync(fd, lines, written)
    return fd
  }

  /** The repairs since the last call. */
  takeRepaired(): Repaired | undefined {
    const repaired = this.#repaired
    this.#repaired = undefined
    return repaired
  }

  /** Truncates an append that was cut short or could not be synced, if the disk allows it. */
  undo(): void {
    if (this.#open === undefined) return
    try {
      // A file longer than we made it has another writer, whose lines must stay.
      const isOurs = fstatSync(this.#open.fd).size <= this.#before + this.#appended
      if (isOurs) ftruncateSync(this.#open.fd, this.#before)
    } catch {
      // Torn lines are repaired when the file is opened again; whole ones are sent twice.
    }
    this.close()
  }

  close(): void {
    if (this.#open === undefined) return
    const { fd } = this.#open
    this.#open = undefined
    closeSync(fd)
  }

  /** The open file; created, reopened after it was moved away, or rotated as needed. */
  #current(now: number): Open {
    const there = statOf(this.#path)
    const same = there?.ino === this.#open?.inode && there?.dev === this.#open?.device
    if (!same) this.close()
    this.#before = there?.size ?? 0
    if (this.#open === undefined) {
      const { repaired, ...open } = begin(this.#path, now, this.#isStart)
      this.#isStart = false
      this.#open = open
      if (repaired.cut + repaired.blanked > 0) this.#repaired = repaired
      this.#before = fstatSync(this.#open.fd).size
    }
    if (this.#before === 0 || !this.#isDue(this.#open, now)) return this.#open
    this.#rotate(now)
    this.#open = begin(this.#path, now, false)
    this.#before = 0
    return this.#open
  }

  #isDue({ day }: Open, now: number): boolean {
    const { size, daily } = this.#rotation
    return (size !== undefined && this.#before >= size) || (daily && day < dayOf(now))
  }

  #rotate(now: number): void {
    renameSync(this.#path, rotatedName(this.#path, now))
    this.close()
    const { keep } = this.#rotation
    if (keep === undefined) return
    for (const old of rotatedFiles(this.#path).slice(0, -keep)) unlinkSync(old.path)
  }
}

/** Throws the error that a first write would, as far as it can be foreseen without touching the file. */
export const check = (path: string): void => {
  const there = statOf(path)
  if (there !== undefined) {
    if (there.isDirectory()) throw Object.assign(new Error(path), { code: "EISDIR" })
    if (!there.isFile()) throw new NotRegular(path)
    closeSync(openSync(path, constants.O_WRONLY | constants.O_APPEND))
    return
  }
  let directory = dirname(resolve(path))
  while (statOf(directory) === undefined) directory = dirname(directory)
  if (!statOf(directory)?.isDirectory()) throw Object.assign(new Error(path), { code: "ENOTDIR" })
  accessSync(directory, constants.W_OK | constants.X_OK)
}
