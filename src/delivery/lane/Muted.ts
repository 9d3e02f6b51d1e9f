/**
 * Events that a sink got while an operator had muted it. Once the mute has ended by itself, they are sent as one
 * message or dropped.
 *
 * Events that are sent together wait in the retry queue under a key of their own, so a restart doesn't separate them.
 */
import type { Entry } from "../../event/Entry.ts"
import type { Mute } from "../../journal/LaneInfo.ts"

const prefix = "#muted:"

/** Maximum number of events in one message. */
export const maxTogether = 1_000
/** Milliseconds after the first event of a message was collected until the message is sent. */
export const collectFor = 2_000

/** Reports whether the event was received during the mute. An operator's replay is never muted. */
export const covers = ({ from, until }: Mute, { event, replayed }: Entry): boolean =>
  !replayed && from <= event.receivedAt && event.receivedAt < until

/** Returns the key of the events that are sent together. `key` is their order key, or empty if the lane keeps no order. */
export const keyOf = ({ until }: Mute, key: string): string => `${prefix}${until}:${key}`

/** Reports whether events with this key are sent together. */
export const isTogether = (key: string): boolean => key.startsWith(prefix)
