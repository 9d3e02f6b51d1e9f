/** The event type that was probably meant by one that is in no catalogue. */
import { eventTypes, relayEventTypes } from "./EventType.ts"
import { nearest } from "./Nearest.ts"

export interface NearestType {
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
