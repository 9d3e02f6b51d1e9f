/** The part of the admin API that shows what comes in, as it comes. */
import { Schema } from "effect"
import { EpochMillis } from "../event/Quantities.ts"
import { TappedRefusal } from "./RefusedRequest.ts"

/** Chooses what a tap shows. */
export const tapFilter = {
  /** A pattern of event types. */
  type: Schema.optionalKey(Schema.String),
  webhook: Schema.optionalKey(Schema.String),
  sink: Schema.optionalKey(Schema.String),
}
/** A part of where the last answer of a tap ended. */
export const tapPosition = Schema.optionalKey(
  Schema.FiniteFromString.check(Schema.isBetween({ minimum: 0, maximum: 2 ** 53 })),
)

/** An accepted event without its payload. */
export const Tapped = Schema.Struct({
  /** When it was received. */
  at: EpochMillis,
  id: Schema.String,
  type: Schema.String,
  account: Schema.String,
  webhook: Schema.String,
  sinks: Schema.Array(Schema.String),
  replayed: Schema.Boolean,
})
export type Tapped = typeof Tapped.Type

/** A line of a tap. An empty one says only that the connection is alive. */
export const TapLine = Schema.Struct({
  events: Schema.Array(Tapped),
  refused: Schema.Array(TappedRefusal),
  /** Events and refusals that are not shown: more than a hundred a second, or missed by a slow reader. */
  skipped: Schema.Int,
})

/** The news of a tap since the last question. */
export const Tap = Schema.Struct({
  ...TapLine.fields,
  /** The position to ask with next. */
  next: Schema.Struct({ sequence: Schema.Int, refusals: Schema.Int }),
})
export type Tap = typeof Tap.Type
