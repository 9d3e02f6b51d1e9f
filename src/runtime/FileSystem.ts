/** File operations that Effect's file system does not have. */
import { closeSync, existsSync, openSync, type StatsFs, statfsSync } from "node:fs"
import { readFile, rename, rm, stat, statfs, writeFile } from "node:fs/promises"
import { resolve } from "node:path"
import process from "node:process"
import { Effect } from "effect"
import type { EpochMillis } from "../event/Quantities.ts"
import { orUndefined } from "../event/Tolerance.ts"
import type { Libc } from "./platform/Platform.ts"
import { libc } from "./Runtime.ts"

/** The last change of a file, as this process can see it. */
interface FileChange {
  /** The absolute path. */
  readonly path: string
  readonly changedAt: EpochMillis
  /**
   * The path leads to a deleted file. This happens if a container mounts the file itself, and outside, another file has
   * replaced it.
   */
  readonly isReplaced: boolean
}

/** Returns `undefined` if the file can't be examined. */
export const lastChange = (file: string): Effect.Effect<FileChange | undefined> =>
  Effect.orElseSucceed(
    Effect.tryPromise(async () => {
      const path = resolve(file)
      const { mtimeMs, nlink } = await stat(path)
      return { path, changedAt: Math.floor(mtimeMs), isReplaced: nlink === 0 }
    }),
    () => undefined,
  )

/** Some file systems, such as Btrfs, have no limit of files, and report 0 of 0. */
const hasNoFileLeft = (directory: string): boolean => {
  try {
    const { files, ffree } = statfsSync(directory)
    return files > 0 && ffree === 0
  } catch {
    return false
  }
}

const denied = (directory: string): string =>
  `the relay's user may not write in ${directory}. Give it the journal's directory and the files in it`

const causes: Readonly<Record<string, (directory: string) => string>> = {
  ENOSPC: (directory) =>
    hasNoFileLeft(directory)
      ? `the disk of ${directory} can hold no more files, though it has free space (\`df -i\`). Delete files there`
      : `the disk of ${directory} is full. Free some space`,
  EDQUOT: (directory) =>
    `the quota of the relay's user on the disk of ${directory} is used up. Raise it, or free some space`,
  EROFS: (directory) => `the file system of ${directory} is read-only. The kernel's log says why`,
  EACCES: denied,
  EPERM: denied,
  EIO: (directory) => `the disk of ${directory} fails to write. The kernel's log says more; replace the disk`,
  EMFILE: () => "the relay has too many files open. Raise its limit (`ulimit -n`, LimitNOFILE=)",
}

/** Returns why a write in a directory failed with the system's code, and what to do. `undefined` for other codes. */
export const whyNotWritten = (code: string, directory: string): string | undefined => causes[code]?.(directory)

/** The types of file systems that are kept in memory. */
const inMemory: Readonly<Record<number, string>> = { 16914836: "tmpfs", 2240043254: "ramfs" }
const overlay = 0x794c_7630

/** Reports whether a container's first process, or one that it started, is this process. */
const isContained = (parent: number): boolean =>
  parent <= 1 &&
  (existsSync("/.dockerenv") || existsSync("/run/.containerenv") || "KUBERNETES_SERVICE_HOST" in process.env)

/** Returns why synced files of the type of a directory's file system are lost at a restart; `undefined` if they are kept. */
export const volatility = (type: number, inContainer: boolean): string | undefined => {
  const memory = inMemory[type]
  if (memory !== undefined) return `a file system in memory (${memory}), so a restart of the machine loses it`
  return type === overlay && inContainer
    ? "the container's own file system, which is deleted with the container: mount a volume there"
    : undefined
}

interface Disk {
  /** Bytes that an unprivileged user may still write. */
  readonly freeBytes: number
  /** Files that may still be created. `undefined` if the file system has no limit of them. */
  readonly freeFiles: number | undefined
  /** Why its files are lost at a restart; `undefined` if they are kept. */
  readonly volatility: string | undefined
}

const diskFrom = ({ bavail, bsize, files, ffree, type }: StatsFs): Disk => ({
  freeBytes: bavail * bsize,
  freeFiles: files > 0 ? ffree : undefined,
  volatility: volatility(type, isContained(process.ppid)),
})

/** The disk of a path; `undefined` if it is unknown. */
export const diskOf = (path: string): Effect.Effect<Disk | undefined> =>
  Effect.promise(() => statfs(path).then(diskFrom, () => undefined))

/** The same without a wait, for a path whose file is open: it may block if the disk does not respond. */
export const diskOfOpen = (path: string): Disk | undefined => {
  try {
    return diskFrom(statfsSync(path))
  } catch {
    return undefined
  }
}

// A small optional file. It is replaced as a whole, so a crash leaves the previous one. It is not
// synced, so a failing disk loses only its content.

/** A disk that does not respond must not delay a stop. */
const stateTimeout = "2 seconds"

/** The file at a path. */
export const stateFile = (path: string) => ({
  /** Its text. `undefined` if the file is missing or can't be read. */
  read: Effect.tryPromise(() => readFile(path, "utf8")).pipe(
    Effect.timeout(stateTimeout),
    Effect.orElseSucceed(() => undefined),
  ),
  /** Replaces the text. Only this user can read the file. Never fails, and takes two seconds at most. */
  replace: (text: string): Effect.Effect<void> =>
    Effect.tryPromise(async () => {
      // Removed first, because a crash may have left the file, and so that the write never follows a link.
      await rm(`${path}.new`, { force: true })
      await writeFile(`${path}.new`, text, { mode: 0o600, flag: "wx" })
      await rename(`${path}.new`, path)
    }).pipe(Effect.timeout(stateTimeout), Effect.ignore),
})

// Locks a file, whatever path it is opened by, so the lock also applies to hard
// links and mounts of the file. It is an open file description lock (Linux,
// F_OFD_SETLK) on a byte that SQLite does not use.
//
// **Guarantee.** If the system or the file system has no such locks, nothing is
// locked and nothing fails. **Gotcha.** When a process closes any descriptor of a
// file, it loses SQLite's locks on it. So `close` must follow after SQLite has
// closed the file.

/** Linux, asm-generic/fcntl.h: the same on x86-64 and ARM64. */
const F_SETLK = 6
const F_OFD_GETLK = 36
const F_OFD_SETLK = 37
const F_WRLCK = 1
const F_UNLCK = 2

/** A `struct flock` for one byte far beyond the largest possible database. */
const request = (): Buffer => {
  const lock = Buffer.alloc(32)
  lock.writeInt16LE(F_WRLCK, 0)
  lock.writeBigInt64LE(2n ** 62n, 8)
  lock.writeBigInt64LE(1n, 16)
  return lock
}

/** A held lock. `close` releases it. */
export interface FileLock {
  /** The file, open to read and to write. */
  readonly fd: number
  readonly close: () => void
}

const library = (): Libc | undefined => (process.platform === "linux" ? orUndefined(libc) : undefined)

/**
 * Reports whether the file system supports locks, which some network file systems
 * don't. Use it on a file that no process has locked with `lockFile`.
 */
export const canLock = (path: string): boolean => {
  const fd = openSync(path, "r+")
  try {
    return library()?.fcntl(fd, F_SETLK, request()) !== -1
  } finally {
    closeSync(fd)
  }
}

/**
 * Locks the file until the handle is closed. Returns `undefined` if another process holds the lock. Throws if the file
 * can't be opened.
 */
export const lockFile = (path: string): FileLock | undefined => {
  const fd = openSync(path, "r+")
  const close = () => closeSync(fd)
  const calls = library()
  if (calls === undefined || calls.fcntl(fd, F_OFD_SETLK, request()) === 0) return { fd, close }
  const found = request()
  const isHeld = calls.fcntl(fd, F_OFD_GETLK, found) === 0 && found.readInt16LE(0) !== F_UNLCK
  if (!isHeld) return { fd, close }
  close()
  return undefined
}
