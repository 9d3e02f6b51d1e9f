/**
 * File descriptors, which connections can use up: whoever connects often enough
 * would keep out the admin API, the sinks and the log files with them.
 *
 * Some are held in reserve. When the rest is used up the listener for deliveries
 * closes and the reserve is given back, so that what else the relay does goes
 * on; it opens again when there are as many to be had and some more.
 */
import { closeSync, openSync } from "node:fs"

/** How many are held back: for the admin API, a sink or two, the log files. */
const kept = 8
/** How many more there must be before it is over. */
const margin = 4

const give = (descriptors: Array<number>): void => {
  for (const descriptor of descriptors.splice(0)) closeSync(descriptor)
}

/** So many, or none. */
const take = (count: number): Array<number> | undefined => {
  const taken: Array<number> = []
  try {
    while (taken.length < count) taken.push(openSync("/dev/null", "r"))
    return taken
  } catch {
    give(taken)
    return undefined
  }
}

/** The process's: it has one table of descriptors. */
const held: Array<number> = []
let usedUp = false

/** A listener could not accept, and with its end gave one back: the next look wants more than that. */
export const ranOut = (): void => {
  usedUp = true
}

/** Whether nothing is left but the reserve. */
export const areUsedUp = (): boolean => usedUp

/** Holds the reserve, where there is enough for one. */
export const reserve = (): void => {
  if (held.length === 0) held.push(...(take(kept) ?? []))
}

export const giveBack = (): void => give(held)

/**
 * Looks again, and takes the reserve anew when it is over: a few microseconds,
 * several times a second. Where nobody's end is waited for (`isLast`) one will do.
 */
export const look = (isLast: boolean): boolean => {
  const taken = take(usedUp && !isLast ? kept + margin : 1)
  if (taken !== undefined && usedUp) held.push(...taken.splice(margin))
  usedUp = taken === undefined
  give(taken ?? [])
  return usedUp
}
