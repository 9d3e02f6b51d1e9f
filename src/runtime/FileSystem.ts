/** File operations that Effect's file system does not have. */

import { closeSync, openSync } from "node:fs"
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

/** Bytes that an unprivileged user may still write to the disk of `path`. `undefined` if unknown. */
export const freeBytes = (path: string): Effect.Effect<number | undefined> =>
  Effect.promise(() =>
    statfs(path).then(
      ({ bavail, bsize }) => bavail * bsize,
      () => undefined,
    ),
  )

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
