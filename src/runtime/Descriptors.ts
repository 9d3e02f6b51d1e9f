/**
 * A reserve of file descriptors. Connections can use up all of them, and the
 * admin API, the sinks and the log files would then have none.
 *
 * When all but the reserve are in use, the listener for deliveries closes and
 * the reserve is released to everything else. The listener opens again when the
 * reserve, and some more, can be taken again.
 */
import { closeSync, openSync, readFileSync } from "node:fs"

/** For the admin API, a sink or two, and the log files. */
const reserveSize = 8
/** How many more must be available before the listener opens again. */
const margin = 4
/** With fewer left, a sink or a log file may already fail: it opens more than one. */
const fewest = 3

/** Connections that come in a millisecond, at most. */
const fastest = 20
/** Milliseconds between two checks. */
const between = { least: 50, most: 1_000 }

const numberIn = (file: string, pattern: RegExp): number => Number(pattern.exec(readFileSync(file, "latin1"))?.[1])
let limit: number | undefined

/** Milliseconds until the next check. Even the fastest senders can't use up the descriptors that are left before it. */
export const untilCheck = (): number => {
  try {
    limit ??= numberIn("/proc/self/limits", /^Max open files +(\d+)/m)
    // The size of the process's table: no descriptor is above it.
    const left = limit - numberIn("/proc/self/status", /^FDSize:\s+(\d+)/m)
    return Math.min(Math.max(left / fastest, between.least), between.most) || between.least
  } catch {
    return between.least
  }
}

const closeAll = (descriptors: Array<number>): void => {
  for (const descriptor of descriptors.splice(0)) closeSync(descriptor)
}

/** Opens `count` descriptors, or none. */
const take = (count: number): Array<number> | undefined => {
  const taken: Array<number> = []
  try {
    while (taken.length < count) taken.push(openSync("/dev/null", "r"))
    return taken
  } catch {
    closeAll(taken)
    return undefined
  }
}

/** One for the process, like its table of descriptors. */
const held: Array<number> = []
let exhausted = false

/** A listener could not accept. Its end has freed one descriptor, so the next check must ask for more than one. */
export const exhaust = (): void => {
  exhausted = true
}

/** Whether only the reserve is left. */
export const areExhausted = (): boolean => exhausted

/** Takes the reserve, where enough are available. */
export const reserve = (): void => {
  if (held.length === 0) held.push(...(take(reserveSize) ?? []))
}

/** Gives the reserve back to everything else. */
export const release = (): void => closeAll(held)

/**
 * Whether they are exhausted. Takes the reserve again when they are no longer.
 * Takes a few microseconds, several times a second. Where no connection is left
 * whose end could be waited for (`isLast`), one descriptor is enough.
 */
export const check = (isLast: boolean): boolean => {
  const taken = take(!exhausted ? fewest : isLast ? 1 : reserveSize + margin)
  if (taken !== undefined && exhausted) held.push(...taken.splice(margin))
  exhausted = taken === undefined
  closeAll(taken ?? [])
  return exhausted
}
