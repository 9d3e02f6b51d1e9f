/**
 * Lines on standard error.
 *
 * **Guarantee.** In a relay, a slow reader of standard error delays nothing else,
 * because lines wait in a bounded buffer. When it is full, lines are dropped and
 * counted, and a line after the buffered ones reports their number.
 *
 * Commands that end by themselves write immediately, in order with their output.
 */
import { constants, fstatSync, openSync, write } from "node:fs"
import { isatty } from "node:tty"
import { format } from "node:util"
import { Context } from "effect"
import { orUndefined } from "../event/Tolerance.ts"
import { codeOf } from "./Errors.ts"
import type { Libc } from "./platform/Platform.ts"
import { libc } from "./Runtime.ts"

// Writes to standard output and standard error without blocking the event loop.
// The descriptor keeps its flags, because other processes may share it. `poll` reports when a part can be written. A
// write blocks only if another process fills the pipe in between, or if the C library can't be called. On Bun it then
// blocks a thread of the runtime.

/** Writes some of the bytes and returns how many: 0 if the stream is full. Rejects with the system's error. Calls must not overlap. */
export type Write = (bytes: Uint8Array) => Promise<number>

/** PIPE_BUF on Linux: a writable pipe accepts this many bytes without mixing them with another process's. */
const part = 4096
/** Milliseconds before a full stream is tried again. */
const lookAgain = 20
const lineFeed = 10
const POLLOUT = 4

/** Reports whether the descriptor can be written, or would fail immediately. */
const isWritable = ({ poll }: Pick<Libc, "poll">, descriptor: number): boolean => {
  const entry = Buffer.alloc(8)
  entry.writeInt32LE(descriptor, 0)
  entry.writeInt16LE(POLLOUT, 4)
  return poll(entry, 1, 0) !== 0
}

const isFile = (descriptor: number): boolean => orUndefined(() => fstatSync(descriptor).isFile()) === true

/** A terminal may accept less than `poll` reports, so it is opened again with its own flags. */
const withOwnFlags = (descriptor: number): number => {
  if (!isatty(descriptor)) return descriptor
  const flags = constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY
  return orUndefined(() => openSync(`/proc/self/fd/${descriptor}`, flags)) ?? descriptor
}

/** Returns whole lines up to `part` bytes, or a part of a line that is longer. */
const firstPart = (bytes: Uint8Array): Uint8Array =>
  bytes.length <= part ? bytes : bytes.subarray(0, bytes.lastIndexOf(lineFeed, part - 1) + 1 || part)

const open = (shared: number): Write => {
  const whole = isFile(shared)
  const descriptor = withOwnFlags(shared)
  // Without a C library, the writing thread waits while the stream is full.
  const library = whole ? undefined : orUndefined(libc)
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

/** Reports whether standard error is connected to systemd's journal; `stream` is the variable JOURNAL_STREAM. */
export const isJournal = (stream: string | undefined): boolean => {
  if (stream === undefined) return false
  try {
    const { dev, ino } = fstatSync(2, { bigint: true })
    return stream === `${dev}:${ino}`
  } catch {
    return false
  }
}

const opened = new Map<number, Write>()

/** Returns the writer of standard output (1) or standard error (2). */
export const writerTo = (descriptor: 1 | 2): Write => {
  const known = opened.get(descriptor) ?? open(descriptor)
  opened.set(descriptor, known)
  return known
}

/** Writes all bytes, and waits while the stream is full. */
export const writeAll = async (write: Write, bytes: Uint8Array): Promise<void> => {
  for (let at = 0; at < bytes.length; ) {
    const written = await write(bytes.subarray(at))
    at += written
    if (written === 0) await new Promise((resolve) => setTimeout(resolve, lookAgain))
  }
}

/**
 * Maximum waiting bytes. They hold more than a thousand lines, which is the number
 * of kinds that `Repeats.ts` distinguishes.
 */
const capacity = 256 * 1024
/** How long the end of the process waits for a reader, in milliseconds. */
const flushTimeout = 500

interface Waiting {
  readonly bytes: Uint8Array
  /** How many dropped lines this line reports; 0 for an ordinary line. */
  readonly reports: number
}

/** Makes a buffer of lines for `write`. `notice` makes the line about dropped lines. */
export const buffer = (write: Write, notice: (dropped: number) => string) => {
  let waiting: Array<Waiting> = []
  let held = 0
  /** Lines dropped since the last report. */
  let unreported = 0
  let dropped = 0
  let draining: Promise<void> | undefined

  const add = (line: string, reports = 0): void => {
    const bytes = Buffer.from(`${line}\n`)
    held += bytes.length
    waiting.push({ bytes, reports })
  }

  const report = (): void => {
    if (unreported > 0) add(notice(unreported), unreported)
    unreported = 0
  }

  const drain = async (): Promise<void> => {
    while (waiting.length > 0) {
      const lines = waiting
      waiting = []
      const bytes = Buffer.concat(lines.map(({ bytes }) => bytes))
      const isWritten = await writeAll(write, bytes).then(
        () => true,
        () => false,
      )
      held -= bytes.length
      if (isWritten) {
        report()
      } else {
        dropped += lines.filter(({ reports }) => reports === 0).length
        unreported += lines.reduce((sum, { reports }) => sum + Math.max(reports, 1), 0)
      }
    }
    draining = undefined
  }

  return {
    line: (text: string): void => {
      if (draining !== undefined && (unreported > 0 || held >= capacity)) {
        unreported += 1
        dropped += 1
        return
      }
      // If the stream failed before, this is the first line after that.
      if (draining === undefined) report()
      add(text)
      draining ??= drain()
    },
    dropped: () => dropped,
    drained: (): Promise<void> => draining ?? Promise.resolve(),
  }
}

const levels = ["log", "info", "warn", "error", "debug", "trace"] as const

/** Standard error of this process. */
export const make = (console: Pick<Console, "warn"> = globalThis.console) => {
  // Not `error`, because on a terminal Bun makes its whole line red.
  const { warn } = console
  let lines: ReturnType<typeof buffer> | undefined
  const line = (...parts: ReadonlyArray<unknown>): void =>
    lines === undefined ? warn(...parts) : lines.line(format(...parts))
  return {
    line,
    /** From now on, lines are buffered instead of written immediately, including lines that libraries print. */
    neverBlock: (notice: (dropped: number) => string): void => {
      lines = buffer(writerTo(2), notice)
      for (const level of levels) globalThis.console[level] = line
    },
    /** The number of lines dropped because the buffer was full or writing failed. */
    dropped: (): number => lines?.dropped() ?? 0,
    /** Waits until all lines are written, but not longer than `flushTimeout`. */
    flush: async (): Promise<void> => {
      let timer: ReturnType<typeof setTimeout> | undefined
      const late = new Promise<void>((resolve) => {
        timer = setTimeout(resolve, flushTimeout)
      })
      await Promise.race([lines?.drained(), late])
      clearTimeout(timer)
    },
  }
}

export type Stderr = ReturnType<typeof make>

export const Stderr = Context.Reference<Stderr>("relay/runtime/Stderr", { defaultValue: () => make() })
