/** The part of the admin API that shows incoming events and refusals live. */
import { Schema } from "effect"
import { EpochMillis } from "../event/Quantities.ts"
import { TappedRefusal } from "./RefusedRequest.ts"

/** The filter of a tap. */
export const tapFilter = {
  /** A pattern of event types. */
  type: Schema.optionalKey(Schema.String),
  webhook: Schema.optionalKey(Schema.String),
  sink: Schema.optionalKey(Schema.String),
}
/** A part of the position at which the last answer of a tap ended. */
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

/** A line of a tap. An empty line only shows that the connection is alive. */
export const TapLine = Schema.Struct({
  events: Schema.Array(Tapped),
  refused: Schema.Array(TappedRefusal),
  /** Events and refusals that are not shown, because there are more than a hundred per second or the reader is slow. */
  skipped: Schema.Int,
})

/** The news of a tap since the last poll. */
export const Tap = Schema.Struct({
  ...TapLine.fields,
  /** The position for the next poll. */
  next: Schema.Struct({ sequence: Schema.Int, refusals: Schema.Int }),
})
export type Tap = typeof Tap.Type
