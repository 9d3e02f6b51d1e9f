import { eventTypes, relayEventTypes } from "./EventType.ts"

/** The nearest of the names that there are to one that there is not: what was probably meant. */
const distance = (a: string, b: string): number => {
  let previous = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const substitution = (previous[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1)
      row.push(Math.min((previous[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, substitution))
    }
    previous = row
  }
  return previous[b.length] ?? 0
}

/** The candidate nearest to `given`, when one is near enough to be what was meant. */
export const nearest = (given: string, candidates: ReadonlyArray<string>): string | undefined => {
  let best: string | undefined
  let bestDistance = Number.POSITIVE_INFINITY
  for (const candidate of candidates) {
    const d = distance(given.toLowerCase(), candidate.toLowerCase())
    if (d < bestDistance) {
      best = candidate
      bestDistance = d
    }
  }
  // Three letters with two others make another word.
  const most = given.length <= 3 ? 1 : Math.max(2, Math.floor(given.length / 3))
  return bestDistance <= most ? best : undefined
}

// The event type that was probably meant by one that is in no catalogue.

interface NearestType {
  readonly type: string
  /** Whether it is one below what was given: `client.created` below `client`. */
  readonly isBelow: boolean
}

/** `undefined` where no type is near. */
export const nearestType = (given: string): NearestType | undefined => {
  const below = eventTypes.find((known) => known.startsWith(`${given}.`))
  const type = below ?? nearest(given, [...eventTypes, ...relayEventTypes])
  return type === undefined ? undefined : { type, isBelow: below !== undefined }
}
