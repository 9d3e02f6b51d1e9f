/**
 * Writes to standard output and standard error without blocking the event loop.
 *
 * The descriptor keeps its flags, because other processes may share it. `poll`
 * says when a part can be written, and a thread of the runtime writes it. That
 * thread blocks only if another process fills the pipe in between, or if the
 * C library can't be called.
 */
import { fstatSync, write } from "node:fs"
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

/** Whole lines, if they fit. */
const firstPart = (bytes: Uint8Array): Uint8Array =>
  bytes.length <= part ? bytes : bytes.subarray(0, bytes.lastIndexOf(lineFeed, part - 1) + 1 || part)

/** Writes to an open descriptor. */
export const to = (descriptor: number): Write => {
  const whole = isFile(descriptor)
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

/** Waits for as long as the stream is full. */
export const writeAll = async (write: Write, bytes: Uint8Array): Promise<void> => {
  for (let at = 0; at < bytes.length; ) {
    const written = await write(bytes.subarray(at))
    at += written
    if (written === 0) await new Promise((resolve) => setTimeout(resolve, lookAgain))
  }
}
