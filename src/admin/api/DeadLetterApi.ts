/** The admin API of dead letters: listing, replaying and dropping them. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { EpochMillis } from "../../event/Quantities.ts"
import { Attempt } from "../../journal/DeliveryStatus.ts"
import { DeadLettersPreview, Rate, Stayed } from "../replay/ReplayReport.ts"
import { Count, NotFound, Refused, Unavailable } from "./ApiParts.ts"
import { LetterSelection, letterQuery } from "./EventSelection.ts"

const optional = Schema.optionalKey
const limit = optional(Schema.FiniteFromString.check(Schema.isBetween({ minimum: 1, maximum: 1000 })))

/** An event that could not be delivered to a sink, without its payload. */
export const DeadLetter = Schema.Struct({
  /** The lane and the sequence, such as `lake:42`. */
  id: Schema.String,
  lane: Schema.String,
  eventId: Schema.String,
  type: Schema.String,
  accountId: Schema.String,
  webhook: Schema.String,
  receivedAt: EpochMillis,
  /** When its body, signature and answers were erased. An erased dead letter can't be replayed. */
  erased: optional(EpochMillis),
  /** When it became a dead letter. */
  at: EpochMillis,
  attempts: Schema.Array(Attempt),
})
export type DeadLetter = typeof DeadLetter.Type

/** A dead letter with its signed bytes in base64, because they may not be UTF-8. */
export const DeadLetterInFull = Schema.Struct({ ...DeadLetter.fields, signature: Schema.String, body: Schema.String })

const LetterIds = Schema.Struct({ ids: Schema.NonEmptyArray(Schema.String) })

/** Dead letters by their ids, or by a selection. */
export const Selection = Schema.Union([LetterIds, LetterSelection])
export type Selection = typeof Selection.Type

const atRate = { rate: optional(Rate) }
/** Dead letters to replay. */
const LetterReplay = Schema.Union([
  Schema.Struct({ ...LetterIds.fields, ...atRate }),
  Schema.Struct({ ...LetterSelection.fields, ...atRate }),
])

/** The result of a replay of dead letters. */
export const Replayed = Schema.Struct({
  count: Schema.Int,
  stayed: Stayed,
  /** Dead letters that were left out because their bodies were erased. */
  erased: Schema.Int,
})
export type Replayed = typeof Replayed.Type

/** Dead letters, newest first. `before` is the last id of the previous page. */
export class DeadLetterGroup extends HttpApiGroup.make("deadLetters").add(
  HttpApiEndpoint.get("list", "/dead-letters", {
    query: {
      ...letterQuery,
      before: optional(Schema.String),
      limit,
    },
    success: Schema.Array(DeadLetter),
    error: [NotFound, Refused, Unavailable],
  }),
  HttpApiEndpoint.get("show", "/dead-letters/:id", {
    params: { id: Schema.String },
    success: DeadLetterInFull,
    error: [NotFound, Unavailable],
  }),
  HttpApiEndpoint.post("replay", "/dead-letters/replay", {
    payload: LetterReplay,
    success: Replayed,
    error: [NotFound, Refused, Unavailable],
  }),
  /** Counts the effects of a replay. */
  HttpApiEndpoint.post("preview", "/dead-letters/preview", {
    payload: Selection,
    success: DeadLettersPreview,
    error: [NotFound, Refused, Unavailable],
  }),
  HttpApiEndpoint.post("drop", "/dead-letters/drop", {
    payload: Selection,
    success: Count,
    error: [NotFound, Refused, Unavailable],
  }),
) {}
