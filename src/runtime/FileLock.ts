/**
 * Locks a file, whatever path it is opened by, so the lock also applies to hard
 * links and mounts of the file. It is an open file description lock (Linux,
 * F_OFD_SETLK) on a byte that SQLite does not use.
 *
 * **Guarantee.** If the system or the file system has no such locks, nothing is
 * locked and nothing fails. **Gotcha.** When a process closes any descriptor of a
 * file, it loses SQLite's locks on it. So `close` must follow after SQLite has
 * closed the file.
 */
import { closeSync, openSync } from "node:fs"
import process from "node:process"
import type { Libc } from "./Platform.ts"
import { libc } from "./Runtime.ts"

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

const library = (): Libc | undefined => {
  try {
    return process.platform === "linux" ? libc() : undefined
  } catch {
    return undefined
  }
}

/**
 * Reports whether the file system supports locks, which some network file systems
 * don't. Use it on a file that no process has locked with `acquire`.
 */
export const isPossible = (path: string): boolean => {
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
export const acquire = (path: string): FileLock | undefined => {
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
