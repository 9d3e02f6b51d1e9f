/** The outcomes of each event at each sink, as `events`, `explain` and the page report them. */
import type { Event } from "../../../src/admin/api/EventApi.ts"
import { numberOf } from "../relay/Traffic.ts"
import type { Place } from "./Place.ts"
import type { Statements } from "./Statements.ts"

type Found = Pick<Event, "id" | "sinks" | "sequence" | "origin" | "copyOf" | "erased">
type State = Event["sinks"][number]

/** The states at the sink, under each name that it has had. */
const statesAt = (place: Place, { sinks }: Found): ReadonlyArray<State> =>
  sinks.filter(({ sink }) => place.names.has(sink))

/** An event that was moved ends at one sink, and has its outcome at the other. */
const outcomesAt = (place: Place, events: ReadonlyArray<Found>): ReadonlyArray<string> =>
  events.flatMap((event) =>
    statesAt(place, event)
      .filter(({ outcome }) => outcome !== "moved")
      .map(({ outcome }) => (outcome === "retrying" ? "pending" : outcome)),
  )

const times = (count: number, outcome: string): ReadonlyArray<string> => Array.from({ length: count }, () => outcome)

const wanted = (place: Place, number: number): ReadonlyArray<string> => [
  ...times(place.taken(number), "delivered"),
  ...times(place.dead(number), "dead"),
  ...times(place.dropped(number), "dropped"),
  ...times(place.waiting(number), "pending"),
]

const isRefusal = ({ attempts }: State): boolean => attempts.at(-1)?.code === 413

/** Returns the wrong part of an event's state, or an empty string. */
const wrong = (
  say: Statements,
  { erased }: Found,
  { outcome, at, deadAt = at, tries = 0, code, by = "", ...state }: State,
): string => {
  const { startedAt } = say.world
  const isTime = (time: number | undefined) => time !== undefined && time >= startedAt && time <= Date.now()
  if (outcome === "pending" || outcome === "retrying") return ""
  if (!isTime(at)) return "its time"
  if (outcome === "delivered") return code === 204 && tries > 0 ? "" : "the attempt that delivered it"
  if (outcome === "moved") return by === "" ? "by whom it was moved" : ""
  if (outcome !== "dead" && by === "") return "by whom it ended"
  if (outcome === "dropped" && at === erased) return ""
  return isTime(deadAt) && isRefusal(state as State) ? "" : "why it was a dead letter"
}

/** An event that was appended again names its copy, and the copy names the event. */
const isLinked = (event: Found, { outcome, to, copy }: State, all: ReadonlyArray<Found>): boolean => {
  const target = copy === undefined ? event : all.find(({ sequence }) => sequence === copy)
  if (outcome === "moved" && !target?.sinks.some(({ sink }) => sink === to)) return false
  if (copy === undefined) return outcome !== "replayed"
  return target?.origin === outcome && target?.copyOf?.sequence === event.sequence
}

const told = (say: Statements, about: string, place: Place, number: number, events: ReadonlyArray<Found>): void => {
  const said = outcomesAt(place, events)
  say.is(about, said.toSorted(), wanted(place, number).toSorted())
  const states = events.flatMap((event) => statesAt(place, event).map((state) => ({ event, state })))
  const moved = states.filter(({ state }) => state.outcome === "moved")
  const { least, most } = place.moved(number)
  say.within(`${about}, moved`, moved.length, least, most)
  for (const { event, state } of states) {
    say.is(`${about}, ${state.outcome} as seq_${event.sequence}, wrong`, wrong(say, event, state), "")
    say.is(`${about}, ${state.outcome} as seq_${event.sequence}, links`, isLinked(event, state, events), true)
  }
}

/** All entries of these events are there. */
export const outcomes = (
  say: Statements,
  from: string,
  numbers: Iterable<number>,
  found: ReadonlyArray<Found>,
): void => {
  const byNumber = Map.groupBy(found, ({ id }) => numberOf(id))
  for (const number of numbers) {
    for (const place of say.world.places) {
      told(say, `${from}, evt_${number} at ${place.name}`, place, number, byNumber.get(number) ?? [])
    }
    const erased = (byNumber.get(number) ?? []).map((event) => event.erased !== undefined)
    say.is(`${from}, evt_${number} is erased`, new Set(erased), new Set([say.world.erased.has(number)]))
  }
}

/** Holds at any moment: a receiver took each event reported as delivered, and refused each reported dead letter. */
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
