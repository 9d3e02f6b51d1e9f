/**
 * Keeps a reserve of file descriptors. Otherwise connections could use up all of
 * them, and the admin API, the sinks and the log files would have none.
 *
 * When only the reserve is left, the listener for deliveries closes and the reserve
 * is released for everything else. The listener reopens when the reserve and a
 * margin are available again.
 */
import { closeSync, openSync, readFileSync } from "node:fs"

/** For the admin API, a sink or two, and the log files. */
const reserveSize = 8
/** The number of additional descriptors that must be available before the listener reopens. */
const margin = 4
/** With fewer left, a sink or a log file may already fail, because it may open more than one. */
const fewest = 3

/** Maximum connections that arrive within a millisecond. */
const fastest = 20
/** Milliseconds between two checks. */
const between = { least: 50, most: 1_000 }

const numberIn = (file: string, pattern: RegExp): number => Number(pattern.exec(readFileSync(file, "latin1"))?.[1])
let limit: number | undefined

/**
 * Returns the milliseconds until the next check. Even the fastest senders can't use
 * up the remaining descriptors before it.
 */
export const untilCheck = (): number => {
  try {
    limit ??= numberIn("/proc/self/limits", /^Max open files +(\d+)/m)
    // FDSize is the size of the process's descriptor table, so no descriptor is above it.
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

/** One reserve for the process, like its table of descriptors. */
const held: Array<number> = []
let exhausted = false

/**
 * Called when a listener could not accept. Its end has freed one descriptor, so the
 * next check must require more than one.
 */
export const exhaust = (): void => {
  exhausted = true
}

/** Reports whether only the reserve is left. */
export const areExhausted = (): boolean => exhausted

/** Takes the reserve if enough descriptors are available. */
export const reserve = (): void => {
  if (held.length === 0) held.push(...(take(reserveSize) ?? []))
}

/** Releases the reserve for everything else. */
export const release = (): void => closeAll(held)

/**
 * Reports whether descriptors are exhausted, and takes the reserve again if they are
 * not. It runs several times a second for a few microseconds. If no connection is
 * left that could end (`isLast`), one free descriptor is enough.
 */
export const check = (isLast: boolean): boolean => {
  const taken = take(!exhausted ? fewest : isLast ? 1 : reserveSize + margin)
  if (taken !== undefined && exhausted) held.push(...taken.splice(margin))
  exhausted = taken === undefined
  closeAll(taken ?? [])
  return exhausted
}
