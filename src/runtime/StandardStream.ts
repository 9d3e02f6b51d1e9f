/**
 * Writes to standard output and standard error without blocking the event loop.
 *
 * The descriptor keeps its flags, because other processes may share it. `poll`
 * says when a part can be written. A write blocks only if another process fills
 * the pipe in between, or if the C library can't be called; on Bun it then blocks
 * a thread of the runtime.
 */
import { constants, fstatSync, openSync, write } from "node:fs"
import { isatty } from "node:tty"
import { codeOf } from "./ErrorCode.ts"
import type { Libc } from "./Platform.ts"
import { libc } from "./Runtime.ts"

/** Writes some of the bytes and returns how many: 0 if the stream is full. Rejects with the system's error. Calls must not overlap. */
export type Write = (bytes: Uint8Array) => Promise<number>

/** PIPE_BUF on Linux: a pipe that can be written takes this many bytes, and mixes them with no other process's. */
const part = 4096
/** Milliseconds until a full stream is tried again. */
const lookAgain = 20
const lineFeed = 10
const POLLOUT = 4

/** Whether the descriptor can be written, or would fail immediately. */
const isWritable = ({ poll }: Pick<Libc, "poll">, descriptor: number): boolean => {
  const asked = Buffer.alloc(8)
  asked.writeInt32LE(descriptor, 0)
  asked.writeInt16LE(POLLOUT, 4)
  return poll(asked, 1, 0) !== 0
}

const isFile = (descriptor: number): boolean => {
  try {
    return fstatSync(descriptor).isFile()
  } catch {
    return false
  }
}

/** A terminal may take less than `poll` promises. It is opened once more, with flags of its own. */
const withOwnFlags = (descriptor: number): number => {
  if (!isatty(descriptor)) return descriptor
  try {
    return openSync(`/proc/self/fd/${descriptor}`, constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY)
  } catch {
    return descriptor
  }
}

/** Whole lines, if they fit. */
const firstPart = (bytes: Uint8Array): Uint8Array =>
  bytes.length <= part ? bytes : bytes.subarray(0, bytes.lastIndexOf(lineFeed, part - 1) + 1 || part)

const open = (shared: number): Write => {
  const whole = isFile(shared)
  const descriptor = withOwnFlags(shared)
  let library: Pick<Libc, "poll"> | undefined
  try {
    library = whole ? undefined : libc()
  } catch {
    // Without a C library the thread that writes waits for a full stream.
  }
  return (bytes) =>
    new Promise((resolve, reject) => {
      if (library !== undefined && !isWritable(library, descriptor)) return resolve(0)
      write(descriptor, whole ? bytes : firstPart(bytes), (error, written) => {
        if (error === null) resolve(written)
        else if (codeOf(error) === "EAGAIN") resolve(0)
        else reject(error)
      })
    })
}

const opened = new Map<number, Write>()

/** Writes to standard output, 1, or standard error, 2. */
export const to = (descriptor: 1 | 2): Write => {
  const known = opened.get(descriptor) ?? open(descriptor)
  opened.set(descriptor, known)
  return known
}

/** Waits for as long as the stream is full. */
export const writeAll = async (write: Write, bytes: Uint8Array): Promise<void> => {
  for (let at = 0; at < bytes.length; ) {
    const written = await write(bytes.subarray(at))
    at += written
    if (written === 0) await new Promise((resolve) => setTimeout(resolve, lookAgain))
  }
}
