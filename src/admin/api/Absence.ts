/** Explains absences: of an event that never arrived or may have been deleted, and of a signature. */
import { isRelayEvent } from "../../event/EventType.ts"
import type { EpochMillis } from "../../event/Quantities.ts"
import type { Kept } from "./EventApi.ts"

/** Says whether the event never arrived or may have been deleted. `timeOf` formats a time. */
export const absence = (id: string, { since, pruned }: Kept, timeOf: (at: EpochMillis) => string): string => {
  if (!pruned) {
    const all = since === undefined ? "has no events yet" : `still has every event since ${timeOf(since)}`
    return `${id} never came: the journal ${all}`
  }
  const kept = since === undefined ? "The journal keeps no events any more" : `It keeps events since ${timeOf(since)}`
  return `${id} is not in the journal. ${kept}; an older event may have come and been deleted (\`journal.retention\`, \`journal.maxSize\`)`
}

/** Advice on what to check if the journal does not have an event. */
export const atTheSender = (id: string): string =>
  `In the sender's log, look for ${id}. If there is no delivery of it, check that the sender's webhook is active and has this relay's URL. After a 4xx or 5xx, \`relay status\` says why the relay refused it. After a 2xx, another receiver accepted it: compare the URL.`

/** Says why an event has no signature. */
export const unsigned = ({ type, secret }: { readonly type: string; readonly secret: string }): string => {
  if (isRelayEvent(type)) return "none, it is the relay's own event"
  return secret === "" ? "none, its webhook verifies nothing" : `none, it came with the secret ${secret}`
}
