import type { Event } from "./Event.ts"

/**
 * The event types of the sender's catalogue (webhook interface, section 6).
 *
 * Patterns are checked against this list, and `relay trigger` makes events of its
 * types. A type that is not in the list is kept and routed like any other, unless
 * `unknownTypes` says otherwise.
 */

/** The 42 event types, in the order of the interface. */
export const eventTypes = [
  "account_user.created",
  "account_user.deleted",
  "account_user.updated",
  "appointment.created",
  "appointment.rescheduled",
  "appointment.canceled",
  "appointment.confirmed",
  "appointment.deleted",
  "appointment.meeting.canceled",
  "appointment.meeting.cancel_failed",
  "appointment.meeting.created",
  "appointment.meeting.create_failed",
  "appointment.meeting.replaced",
  "appointment.meeting.replace_failed",
  "appointment.meeting.updated",
  "appointment.meeting.update_failed",
  "booking_intent.abandoned",
  "booking_intent.completed",
  "booking_intent.created",
  "booking_intent.updated",
  "block.created",
  "block.updated",
  "block.deleted",
  "client.created",
  "client.deleted",
  "client.updated",
  "connected_account.created",
  "connected_account.deleted",
  "connected_account.refresh_failed",
  "connected_account.reconnected",
  "provider.created",
  "provider.deactivated",
  "provider.reactivated",
  "provider.updated",
  "provider_schedule.created",
  "provider_schedule.deleted",
  "provider_schedule.updated",
  "service.created",
  "service.deleted",
  "service.updated",
  "service_provider.created",
  "service_provider.deleted",
] as const

type EventType = (typeof eventTypes)[number]

const known: ReadonlySet<string> = new Set(eventTypes)

export const isKnown = (type: string): type is EventType => known.has(type)

/** Returns the first segment of a type, such as `appointment` for `appointment.meeting.created`. */
export const resource = (type: string): string => {
  const dot = type.indexOf(".")
  return dot === -1 ? type : type.slice(0, dot)
}

/**
 * The relay's own events. Only a pattern that begins with `relay.` matches them,
 * never a pattern that starts with a wildcard. So `**` means "everything the sender
 * sends".
 */
export const relayEventTypes = [
  "relay.dead_letter",
  "relay.lane_paused",
  "relay.lane_resumed",
  "relay.sender_silent",
  "relay.sender_resumed",
  "relay.journal_filling",
  "relay.journal_red",
  "relay.secret_expiring",
  "relay.certificate_expiring",
  "relay.certificate_expired",
] as const

export type RelayEventType = (typeof relayEventTypes)[number]

export const isRelayEvent = (type: string): boolean => type.startsWith("relay.")

type Type = EventType | RelayEventType

/**
 * The event types that end a failure: the sender's (webhook interface, section 6) and the relay's own. A recovery
 * is the same action on the same object, but successful.
 */
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

/** Returns the type of the event that ends a failure of this type, or `undefined` if the type isn't such a failure. */
export const recoveryOf = (type: string): string | undefined =>
  Object.entries(failures).find(([, failure]) => failure === type)?.[0]

/**
 * Gives a recovery the type of the failure that it ends, so that both have the same
 * key. Returns other events unchanged.
 */
export const asFailure = (event: Event): Event => {
  const type = failureEndedBy(event.type)
  return type === undefined ? event : { ...event, type }
}
