/** A hint for a mistyped event type: the nearest one of the catalogue. */
import { eventTypes, relayEventTypes } from "../../event/EventType.ts"
import { nearest } from "../../routing/Pattern.ts"

/** `: did you mean appointment.created?`; empty where no type is near, or where the type is right. */
export const suggestType = (type: string): string => {
  const suggestion = nearest(type, [...eventTypes, ...relayEventTypes])
  return suggestion === undefined ? "" : `: did you mean ${suggestion}?`
}
