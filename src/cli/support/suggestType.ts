/** A hint for a mistyped event type: the nearest one of the catalogue. */
import { eventTypes, relayEventTypes } from "../../event/EventType.ts"
import { nearest } from "../../event/Nearest.ts"

/** `: did you mean appointment.created?`; empty where no type is near. */
export const suggestType = (type: string): string => {
  const below = eventTypes.find((known) => known.startsWith(`${type}.`))
  if (below !== undefined) return `: did you mean one of its own, such as ${below}?`
  const suggestion = nearest(type, [...eventTypes, ...relayEventTypes])
  return suggestion === undefined ? "" : `: did you mean ${suggestion}?`
}
