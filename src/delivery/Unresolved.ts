/**
 * The failures that own events reported and whose recovery has not been emitted.
 * Failures from before the start are read from the journal.
 */
import { Effect, Schedule } from "effect"
import { type RelayEventType, relayEventTypes } from "../event/EventType.ts"
import type { Millis } from "../event/Quantities.ts"
import { failureEndedBy } from "../event/Recovery.ts"
import { Archive } from "../journal/Archive.ts"
import { collect } from "../journal/EventPages.ts"
import { type Facts, factsOf, ownWebhook } from "./OwnEvent.ts"

/** The time limit of the journal search, and the maximum number of events. */
const searchTime: Millis = 3_000
const newest = 100

const recoveries = relayEventTypes.filter((type) => failureEndedBy(type) !== undefined)
const types: ReadonlyArray<string> = recoveries.flatMap((type) => [type, failureEndedBy(type) ?? type])

/**
 * `isRouted` reports whether events of a type go to any sink. If no recovery event
 * does, the journal is not searched.
 */
export const make = Effect.fnUntraced(function* (isRouted: (type: RelayEventType) => boolean) {
  const archive = yield* Archive
  /** By failure type and subject: whether the failure is unresolved. */
  const known = new Map<string, Map<string, boolean>>()
  const ofFailure = (failure: string) => known.get(failure) ?? new Map<string, boolean>()

  const note = (type: string, { sink, webhook }: Facts, isNewest = true): void => {
    if (!types.includes(type)) return
    const failure = failureEndedBy(type) ?? type
    const subjects = ofFailure(failure)
    known.set(failure, subjects)
    const subject = String(sink ?? webhook)
    if (isNewest || !subjects.has(subject)) subjects.set(subject, failure === type)
  }

  const recall = Effect.gen(function* () {
    if (!recoveries.some(isRouted)) return
    const { events } = yield* collect({ webhook: ownWebhook, types, limit: newest }, archive.events, searchTime)
    for (const { sequence, event } of events) {
      // Only a search for a single event returns its body.
      const [found] = (yield* archive.events({ sequence, limit: 1 })).events
      if (found?.body !== undefined) note(event.type, factsOf(found.body), false)
    }
  })
  yield* Effect.forkScoped(Effect.retry(recall, Schedule.spaced("5 seconds")))

  return {
    note: (type: RelayEventType, facts: Facts): void => note(type, facts),
    of: (failure: RelayEventType): ReadonlySet<string> =>
      new Set([...ofFailure(failure)].flatMap(([subject, isUnresolved]) => (isUnresolved ? [subject] : []))),
  }
})
