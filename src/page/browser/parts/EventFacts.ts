/** Facts about events that views show: the attempts at a sink, the causes of its failures, and the incident at PagerDuty. */
import type { DeadLetter } from "../../../admin/api/DeadLetterApi.ts"
import type { Event } from "../../../admin/api/EventApi.ts"
import { parsedJson } from "../../../event/Tolerance.ts"

/** An attempt at the sink. */
export interface Attempted {
  readonly at: number
  readonly id: string
  readonly sequence: number
  readonly number: number
  readonly code: number | undefined
  readonly took: number | undefined
  readonly isDelivered: boolean
  /** Why it failed; empty if it delivered the event. */
  readonly message: string
}

/** Events that failed with the same cause. */
export interface Cause {
  readonly message: string
  readonly count: number
  readonly types: ReadonlyArray<string>
  /** The newest of these events. */
  readonly at: number
  readonly id: string
  readonly sequence: number
}

type Failure = Omit<Cause, "count" | "types"> & { readonly type: string }
type Tried = Pick<Event, "id" | "sequence" | "type"> & Pick<Event["sinks"][number], "attempts">

const ofLetter = ({ id, eventId, type, attempts }: DeadLetter): Tried => ({
  id: eventId,
  sequence: Number(id.slice(id.lastIndexOf(":") + 1)),
  type,
  attempts,
})

/** Removes ids and numbers, which differ between events. */
const alike = (message: string): string => message.replaceAll(/[\w-]*\d{4,}[\w-]*/g, "…")

const failureOf = ({ attempts, ...event }: Tried): ReadonlyArray<Failure> => {
  const last = attempts.at(-1)
  return last === undefined ? [] : [{ ...event, message: last.message, at: last.at }]
}

/** The parts of an event's story that concern the sink. */
const at = (events: ReadonlyArray<Event>, sink: string) =>
  events.flatMap(({ id, sequence, type, sinks }) =>
    sinks.filter((one) => one.sink === sink).map((delivery) => ({ id, sequence, type, ...delivery })),
  )

/** The most frequent cause first, by the last attempt of each event. */
export const causesOf = (
  letters: ReadonlyArray<DeadLetter>,
  retrying: ReadonlyArray<Event>,
  sink: string,
): ReadonlyArray<Cause> => {
  const waiting = at(retrying, sink).map(({ id, sequence, type, attempts }) => ({ id, sequence, type, attempts }))
  const failures = [...letters.map(ofLetter), ...waiting].flatMap(failureOf).sort((one, other) => other.at - one.at)
  const causes = Map.groupBy(failures, ({ message }) => alike(message))
  return [...causes.values()]
    .flatMap((events) => {
      const [newest] = events
      const types = [...new Set(events.map(({ type }) => type))]
      return newest === undefined ? [] : [{ ...newest, types, count: events.length }]
    })
    .sort((one, other) => other.count - one.count)
}

/** The newest attempt first, each once. */
export const attemptedOf = (
  letters: ReadonlyArray<DeadLetter>,
  events: ReadonlyArray<Event>,
  sink: string,
): ReadonlyArray<Attempted> => {
  const here = at(events, sink)
  const failed = [...letters.map(ofLetter), ...here].flatMap(({ id, sequence, attempts }) =>
    attempts.map(({ at, number, took, code, message }, index) => ({
      ...{ at, id, sequence, number: number ?? index + 1, took, code, message },
      isDelivered: false,
    })),
  )
  const delivered = here.flatMap(({ id, sequence, outcome, at, tries = 1, took, code }) =>
    outcome !== "delivered" || at === undefined
      ? []
      : [{ at, id, sequence, number: tries, took, code, message: "", isDelivered: true }],
  )
  const each = new Map([...failed, ...delivered].map((one) => [`${one.sequence} ${one.number}`, one]))
  return [...each.values()].sort((one, other) => other.at - one.at)
}

/** The incident that an event belongs to at PagerDuty. */

const fieldsOf = (value: unknown): Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null ? { ...value } : {}

const parsed = (body: unknown): unknown => (typeof body === "string" ? parsedJson(body) : body)

/** Returns the `dedup_key` of the payload for a sink, or `undefined` if it has none. */
export const dedupKeyOf = (payload: unknown): string | undefined => {
  const { dedup_key: key } = fieldsOf(parsed(fieldsOf(payload).body))
  return typeof key === "string" ? key : undefined
}
