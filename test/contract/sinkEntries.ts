/** Entries for the contracts of sinks, with personal data that must not be seen. */
import type { Entry, Event } from "../../src/event/Event.ts"
import { event } from "../journal/samples.ts"

/** Stands in every secret of a set-up and in every payload of the contract: no message may hold it. */
export const canary = "canary-3f9a1c"

/** An entry with a body that tells itself apart; personal data in it is a canary too. */
export const entry = (sequence: number, more: Partial<Event> = {}): Entry => ({
  sequence,
  event: event(`evt_${sequence}`, {
    body: new TextEncoder().encode(
      `{"id":"evt_${sequence}","data":{"type":"appointment.created","object":{"name":"${canary}"}}}`,
    ),
    ...more,
  }),
  sinks: ["sink"],
  replayed: false,
})
