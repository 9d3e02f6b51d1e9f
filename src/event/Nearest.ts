import { eventTypes, relayEventTypes } from "./EventType.ts"

/** Suggests the existing name that was probably meant by an unknown one, by edit distance. */
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

/** Returns the candidate nearest to `given`, or `undefined` if none is similar enough. */
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
  // With two of three letters changed, it is another word.
  const most = given.length <= 3 ? 1 : Math.max(2, Math.floor(given.length / 3))
  return bestDistance <= most ? best : undefined
}

// Suggests the event type that was probably meant by an unknown type.

interface NearestType {
  readonly type: string
  /** Whether it is below the given type, as `client.created` is below `client`. */
  readonly isBelow: boolean
}

/** Returns `undefined` if no type is similar. */
export const nearestType = (given: string): NearestType | undefined => {
  const below = eventTypes.find((known) => known.startsWith(`${given}.`))
  const type = below ?? nearest(given, [...eventTypes, ...relayEventTypes])
  return type === undefined ? undefined : { type, isBelow: below !== undefined }
}
