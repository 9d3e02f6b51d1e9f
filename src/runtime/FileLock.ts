/**
 * Locks a file itself, whatever path it was opened by: a hard link or a mount
 * of the file is held too. It is a lock of the open file (Linux, F_OFD_SETLK)
 * on a byte that SQLite does not use.
 *
 * **Guarantee.** Where the system or the file system has no such locks, nothing
 * is held and nothing fails.
 * **Gotcha.** A process that closes any descriptor of a file loses SQLite's
 * locks on it: `close` comes after SQLite has closed the file.
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

/** A `struct flock` for one byte far behind all that a database may have. */
const request = (): Buffer => {
  const lock = Buffer.alloc(32)
  lock.writeInt16LE(F_WRLCK, 0)
  lock.writeBigInt64LE(2n ** 62n, 8)
  lock.writeBigInt64LE(1n, 16)
  return lock
}

/** A lock that is held. `close` gives it back. */
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

/** Whether the file system locks files at all; some of a network don't. Asked of a file that no process holds by `acquire`. */
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
