/**
 * Lines on standard error.
 *
 * **Guarantee.** In a relay no reader of standard error delays anything else:
 * lines wait in a bounded buffer. When it is full, lines are dropped and
 * counted, and a line after those in the buffer says how many.
 *
 * Commands that end by themselves write immediately, in order with their output.
 */
import { format } from "node:util"
import { Context } from "effect"
import * as StandardStream from "./StandardStream.ts"

/** Bytes that wait at most: more than a thousand lines, as many kinds as `Repeats.ts` tells apart. */
const capacity = 256 * 1024
/** How long the end of the process waits for a reader, in milliseconds. */
const flushTimeout = 500

interface Waiting {
  readonly bytes: Uint8Array
  /** How many dropped lines this line reports; 0 for an ordinary line. */
  readonly reports: number
}

/** The lines that wait for `write`. `notice` makes the line about dropped lines. */
export const buffer = (write: StandardStream.Write, notice: (dropped: number) => string) => {
  let waiting: Array<Waiting> = []
  let held = 0
  /** Dropped since the last report. */
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
      const isWritten = await StandardStream.writeAll(write, bytes).then(
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
      // The stream failed before: this is the first line after that.
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
  // On a terminal Bun's `error` makes all of a line red, whatever it says.
  const { warn } = console
  let lines: ReturnType<typeof buffer> | undefined
  const line = (...parts: ReadonlyArray<unknown>): void =>
    lines === undefined ? warn(...parts) : lines.line(format(...parts))
  return {
    line,
    /** From now on no line is written at once. This includes lines that libraries print. */
    neverBlock: (notice: (dropped: number) => string): void => {
      lines = buffer(StandardStream.to(2), notice)
      for (const level of levels) globalThis.console[level] = line
    },
    /** Lines dropped because the buffer was full, or writing failed. */
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
