/** The routes' verdicts on an event or a type. `relay explain`, `relay test` and the page show them. */
import { Schema } from "effect"

const names = Schema.Array(Schema.String)

export const Explanation = Schema.Struct({
  /** The route's name, and its sinks. */
  route: Schema.String,
  sinks: names,
  verdict: Schema.Literals([
    "matches",
    "matches when",
    "resolves",
    "no pattern matches",
    "excepted",
    "other webhook",
    "outside hours",
    "where differs",
  ]),
  /** The pattern, condition, webhook or hours that decided. For a recovery, the failure that it ends. */
  because: Schema.String,
})
export type Explanation = typeof Explanation.Type

/** Reports whether the route sends the event to its sinks, regardless of the event's fields. */
export const takes = ({ verdict }: Explanation): boolean => verdict === "matches" || verdict === "resolves"

/** Reports whether the event's fields decide. */
export const mayTake = ({ verdict }: Explanation): boolean => verdict === "matches when"

const sinksWhere = (explanations: ReadonlyArray<Explanation>, holds: typeof takes): ReadonlyArray<string> => [
  ...new Set(explanations.filter(holds).flatMap(({ sinks }) => sinks)),
]

/** Returns the sinks that the event goes to, and the sinks of routes whose `where` decides. */
export const reached = (explanations: ReadonlyArray<Explanation>) => {
  const sinks = sinksWhere(explanations, takes)
  return { sinks, conditional: sinksWhere(explanations, mayTake).filter((sink) => !sinks.includes(sink)) }
}
