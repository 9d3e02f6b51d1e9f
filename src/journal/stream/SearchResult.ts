/** The result of a search for an event: how it entered the log, and its state at each of its lanes. */
import type { Attempt, DeliveryStatus } from "../DeliveryStatus.ts"
import type { EventQuery, FoundEvent } from "../EventQuery.ts"
import { type JournalError, refused } from "../JournalError.ts"
import { attemptsOf, type Cursor, type Delivery } from "../Settlement.ts"
import { isPassed } from "./Cursors.ts"
import { type Ended, endedStatus, linksOf, replaysOf } from "./OutcomeRecord.ts"
import type { Stored } from "./Record.ts"

/** The failure of a search that starts at an invalid place. */
export const noPlace = (place: string): JournalError =>
  refused(`The journal has no place ${place}: a place is where an earlier page or replay ended.`)

/** Milliseconds that a page of a search may take. */
export const pageTimeout = 150

/** Indexed by {@link Origin}. */
const origins = ["delivered", "replayed", "moved"] as const

/** An event's state at its lanes, and its copies. */
export type LaneStates = Pick<FoundEvent, "deliveries" | "copyOf" | "copies">

/**
 * Returns the state at a lane that holds the event as a retry (`due`) or a dead letter (`at`), in epoch
 * milliseconds.
 */
export const heldStatus = (
  sink: string,
  when: { readonly due: number } | { readonly at: number },
  attempts: ReadonlyArray<Attempt>,
): DeliveryStatus => ({
  sink,
  outcome: "due" in when ? "retrying" : "dead",
  ...when,
  tries: attemptsOf(attempts),
  attempts,
})

/** A journal's knowledge of an event's lanes. */
export interface LaneFacts {
  /** The states at lanes that hold the event as a retry or a dead letter. */
  readonly held: ReadonlyMap<string, DeliveryStatus>
  /** Records of how events ended, oldest first. Those of other events are ignored. */
  readonly ended: ReadonlyArray<Ended>
  /** Returns `undefined` if the lane doesn't exist. */
  readonly cursorOf: (lane: string) => Cursor | undefined
  /** Returns the newest recorded delivery by a first attempt, under any of a lane's names. */
  readonly deliveryOf: (isName: (name: string) => boolean) => Delivery | undefined
  /** Returns the lane of an event that is routed to a name; empty if that lane was removed. */
  readonly laneOf?: (name: string) => string
  /** Returns the name of that lane, also if the lane was removed. */
  readonly nameOf?: (name: string) => string
}

/** Returns the event's states at the lanes that it was routed or moved to. */
export const laneStates = (
  sequence: number,
  sinks: ReadonlyArray<string>,
  { held, ended, cursorOf, deliveryOf, laneOf = (name) => name, nameOf = laneOf }: LaneFacts,
): LaneStates => {
  const own = ended.filter(
    (one) => one.copy === sequence || (one.sequence <= sequence && sequence <= (one.last ?? one.sequence)),
  )
  const lanes = [...new Set(sinks.map(nameOf))]
  const routed = lanes.map((lane) => {
    const cursor = sinks.some((sink) => laneOf(sink) === lane) ? cursorOf(lane) : undefined
    const place = { exists: cursor !== undefined, isPassed: cursor !== undefined && isPassed(cursor, sequence) }
    // The records of a renamed lane have its name at that time.
    const isName = (name: string) => name === lane || nameOf(name) === lane
    const records = own.filter((one) => isName(one.lane) && one.copy !== sequence)
    return { ...(held.get(lane) ?? endedStatus(lane, place, records, deliveryOf(isName))), ...replaysOf(records) }
  })
  const moved = [...held.values()]
    .filter(({ sink }) => !lanes.includes(sink))
    .map((status) => ({ ...status, ...replaysOf(own.filter(({ lane }) => lane === status.sink)) }))
  const listed = new Set([...lanes, ...held.keys()])
  const left = own.filter(
    (one) => one.sequence === sequence && one.last === undefined && one.lane !== "" && !listed.has(nameOf(one.lane)),
  )
  // A retry or a dead letter moves without a copy, and the first attempt of the other lane may have delivered it.
  const movedTo = own.flatMap(({ outcome, copy, note: { to } }) =>
    outcome === "moved" && copy === undefined && to !== undefined && !listed.has(nameOf(to)) ? [nameOf(to)] : [],
  )
  const elsewhere = [...new Set([...movedTo, ...left.map(({ lane }) => nameOf(lane))])].flatMap((lane) => {
    const records = left.filter((one) => nameOf(one.lane) === lane)
    const delivery = deliveryOf((name) => nameOf(name) === lane)
    if (records.length === 0 && delivery === undefined) return []
    return [{ ...endedStatus(lane, { exists: false, isPassed: true }, records, delivery), ...replaysOf(records) }]
  })
  return { deliveries: [...routed, ...moved, ...elsewhere], ...linksOf(sequence, own) }
}

/** Returns the event for a search result. It has its body if the query names one event or asks for bodies. */
export const foundEvent = (
  { entry, origin }: Stored,
  place: string,
  { id, sequence, bodies }: EventQuery,
  states: LaneStates,
): FoundEvent => {
  const { body, ...event } = entry.event
  const hasBody = id !== undefined || sequence !== undefined || bodies === true
  return { sequence: entry.sequence, place, origin: origins[origin], event, ...(hasBody && { body }), ...states }
}
