/** Refused requests in the admin API: the counts of the last hour, and single requests for a tap. */
import { Schema } from "effect"
import { EpochMillis } from "../event/Quantities.ts"
import { reasons } from "../ingest/Answers.ts"

const RefusalReason = Schema.Literals(reasons)

/** The refusals of a webhook in the last hour, for one reason. */
export const Refusals = Schema.Struct({
  /** The webhook's name; empty for requests to no webhook. */
  webhook: Schema.String,
  reason: RefusalReason,
  status: Schema.Int,
  count: Schema.Int,
  lastAt: EpochMillis,
  /** The request id in the last answer and its log line. */
  lastRequestId: Schema.String,
  /** The address of the last sender; empty if it isn't known. */
  lastFrom: Schema.String,
  /** The reason in words. */
  what: Schema.String,
  /** The action that helps. */
  advice: Schema.String,
  /**
   * Details such as an unknown path without its query. The ten most frequent, shortened to 200 characters. Strangers
   * may have chosen these texts.
   */
  details: Schema.Array(Schema.Struct({ detail: Schema.String, count: Schema.Int, lastAt: EpochMillis })),
})
export type Refusals = typeof Refusals.Type

/** A refused request. */
export const TappedRefusal = Schema.Struct({
  at: EpochMillis,
  /** The webhook's name; empty for a request to no webhook. */
  webhook: Schema.String,
  refused: RefusalReason,
  status: Schema.Int,
  /** The reason in words. */
  what: Schema.String,
  /** Has the same text as in the status; empty if absent. */
  detail: Schema.String,
  /** The request id in its answer and in the log. */
  requestId: Schema.String,
  /** The sender's address; empty if it isn't known. */
  from: Schema.String,
})
export type TappedRefusal = typeof TappedRefusal.Type
