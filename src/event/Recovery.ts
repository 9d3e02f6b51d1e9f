/**
 * The event types that end a failure: the sender's (webhook interface, section 6)
 * and the relay's own. A recovery is the same action on the same object, but
 * successful.
 */
import type { Event } from "./Event.ts"
import type { EventType, RelayEventType } from "./EventType.ts"

type Type = EventType | RelayEventType

const failures: Partial<Record<Type, Type>> = {
  "appointment.meeting.canceled": "appointment.meeting.cancel_failed",
  "appointment.meeting.created": "appointment.meeting.create_failed",
  "appointment.meeting.replaced": "appointment.meeting.replace_failed",
  "appointment.meeting.updated": "appointment.meeting.update_failed",
  "connected_account.reconnected": "connected_account.refresh_failed",
  "relay.lane_resumed": "relay.lane_paused",
  "relay.sender_resumed": "relay.sender_silent",
}

/** Returns the failure type that an event of this type ends, or `undefined` for most types. */
export const failureEndedBy = (type: string): Type | undefined =>
  Object.hasOwn(failures, type) ? failures[type as Type] : undefined

/**
 * Gives a recovery the type of the failure that it ends, so that both have the same
 * key. Returns other events unchanged.
 */
export const asFailure = (event: Event): Event => {
  const type = failureEndedBy(event.type)
  return type === undefined ? event : { ...event, type }
}
