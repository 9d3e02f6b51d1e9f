/** A hint for a mistyped event type: the nearest one of the catalogue. */
import { nearestType } from "../../event/NearestType.ts"

/** `: did you mean appointment.created?`; empty where no type is near. */
export const suggestType = (type: string): string => {
  const near = nearestType(type)
  if (near === undefined) return ""
  return near.isBelow ? `: did you mean one of its own, such as ${near.type}?` : `: did you mean ${near.type}?`
}
