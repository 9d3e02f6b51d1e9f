/** The outcomes of each event at each sink, as `events`, `explain` and the page tell of them. */
import type { Event } from "../../../src/admin/Api.ts"
import { numberOf } from "../relay/Traffic.ts"
import type { Place } from "./Place.ts"
import type { Statements } from "./Statements.ts"

/** Whether it is told how a dead letter ended, and that a sink's events stay its own when it changes its name. */
const endsAreTold = false

type Found = Pick<Event, "id" | "sinks">

const outcomesAt = (place: Place, events: ReadonlyArray<Found>): ReadonlyArray<string> =>
  events.flatMap(({ sinks }) =>
    sinks
      .filter(({ sink }) => place.names.has(sink))
      .map(({ outcome }) => (outcome === "retrying" ? "pending" : outcome)),
  )

const times = (count: number, outcome: string): ReadonlyArray<string> => Array.from({ length: count }, () => outcome)

const wanted = (place: Place, number: number): ReadonlyArray<string> => [
  ...times(place.taken(number), "delivered"),
  ...times(place.dead(number), "dead"),
  ...times(place.dropped(number), "dropped"),
  ...times(place.replayed(number), "replayed"),
  ...times(place.waiting(number), "pending"),
]

const isCompared = (place: Place, number: number): boolean =>
  endsAreTold || (number >= place.renamedAt && place.dropped(number) + place.replayed(number) === 0)

/** All entries of these events are there. */
export const outcomes = (
  say: Statements,
  from: string,
  numbers: Iterable<number>,
  told: ReadonlyArray<Found>,
): void => {
  const byNumber = Map.groupBy(told, ({ id }) => numberOf(id))
  for (const number of numbers) {
    for (const place of say.world.places) {
      if (!isCompared(place, number)) continue
      const said = outcomesAt(place, byNumber.get(number) ?? [])
      say.is(`${from}, evt_${number} at ${place.name}`, said.toSorted(), wanted(place, number).toSorted())
    }
  }
}

/** At any moment: what is told as delivered was taken, what is told as a dead letter was refused. */
export const early = (say: Statements, told: ReadonlyArray<Found>): void => {
  for (const [number, events] of Map.groupBy(told, ({ id }) => numberOf(id))) {
    for (const place of say.world.places) {
      if (number < 0 || !isCompared(place, number)) continue
      const said = outcomesAt(place, events)
      const told = (outcome: string) => said.filter((one) => one === outcome).length
      say.within(`events, evt_${number} delivered to ${place.name}`, told("delivered"), 0, place.taken(number))
      say.within(`events, evt_${number} dead at ${place.name}`, told("dead"), 0, place.refused(number))
    }
  }
}

/** A search for an outcome finds the events that have it at a sink, and no other. */
export const search = (say: Statements, outcome: "delivered" | "dead", told: ReadonlyArray<Found>): void => {
  const { places, accepted } = say.world
  const found = new Set(told.map(({ id }) => numberOf(id)))
  for (const number of accepted) {
    if (!places.every((place) => isCompared(place, number))) continue
    const has = places.some((place) => wanted(place, number).includes(outcome))
    say.is(`events --outcome ${outcome}, evt_${number}`, found.has(number), has)
  }
}
