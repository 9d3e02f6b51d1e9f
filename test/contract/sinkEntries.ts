/** Entries for the contracts of sinks, with personal data that must not be seen. */
import type { Entry, Event } from "../../src/event/Event.ts"
import { event } from "../journal/samples.ts"

/** A text in every secret of a set-up and in every payload of the contract. No message may contain it. */
export const canary = "canary-3f9a1c"

/** An entry with a body of its own. The personal data in the body is a canary too. */
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
