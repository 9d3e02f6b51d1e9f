/** The outcomes of each event at each sink, as `events`, `explain` and the page tell of them. */
import type { Event } from "../../../src/admin/Api.ts"
import { numberOf } from "../relay/Traffic.ts"
import type { Place } from "./Place.ts"
import type { Statements } from "./Statements.ts"

type Found = Pick<Event, "id" | "sinks">

/** Under each name that the sink has had. What was moved from one to another is told there. */
const outcomesAt = (place: Place, events: ReadonlyArray<Found>): ReadonlyArray<string> =>
  events.flatMap(({ sinks }) =>
    sinks
      .filter(({ sink, outcome }) => place.names.has(sink) && outcome !== "moved")
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
      const said = outcomesAt(place, byNumber.get(number) ?? [])
      say.is(`${from}, evt_${number} at ${place.name}`, said.toSorted(), wanted(place, number).toSorted())
    }
  }
}

/** At any moment: what is told as delivered was taken, what is told as a dead letter was refused. */
export const early = (say: Statements, told: ReadonlyArray<Found>): void => {
  for (const [number, events] of Map.groupBy(told, ({ id }) => numberOf(id))) {
    for (const place of say.world.places) {
      if (number < 0) continue
      const said = outcomesAt(place, events)
      const told = (outcome: string) => said.filter((one) => one === outcome).length
      say.within(`events, evt_${number} delivered to ${place.name}`, told("delivered"), 0, place.taken(number))
      say.within(`events, evt_${number} dead at ${place.name}`, told("dead"), 0, place.refused(number))
    }
  }
}

/** Outcomes that last until an operator does something. */
export const searched = ["delivered", "dead", "dropped", "replayed"] as const
type Searched = (typeof searched)[number]

/** A search for an outcome finds the events that have it at a sink, and no other. */
export const search = (say: Statements, outcome: Searched, told: ReadonlyArray<Found>): void => {
  const { places, accepted } = say.world
  const found = new Set(told.map(({ id }) => numberOf(id)))
  for (const number of accepted) {
    const has = places.some((place) => wanted(place, number).includes(outcome))
    say.is(`events --outcome ${outcome}, evt_${number}`, found.has(number), has)
  }
}
