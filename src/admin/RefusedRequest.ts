/** Refused requests in the admin API: those of the last hour, counted, and each as a tap shows it. */
import { Schema } from "effect"
import { EpochMillis } from "../event/Quantities.ts"
import { reasons } from "../ingest/Answers.ts"

const RefusalReason = Schema.Literals(reasons)

/** The refusals of a webhook in the last hour, for one reason. */
export const Refusals = Schema.Struct({
  /** Its name; empty for requests to no webhook. */
  webhook: Schema.String,
  reason: RefusalReason,
  status: Schema.Int,
  count: Schema.Int,
  lastAt: EpochMillis,
  /** In the answer to the last of them, and in its line of the log. */
  lastRequestId: Schema.String,
  /** The address that the last of them came from; empty if it isn't known. */
  lastFrom: Schema.String,
  /** The reason in words. */
  what: Schema.String,
  /** The action that helps. */
  advice: Schema.String,
  /** An unknown path without its query, or what another refusal has of the kind. The ten most frequent, cut to 200 characters; a stranger may have chosen them. */
  details: Schema.Array(Schema.Struct({ detail: Schema.String, count: Schema.Int, lastAt: EpochMillis })),
})
export type Refusals = typeof Refusals.Type

/** A refused request. */
export const TappedRefusal = Schema.Struct({
  at: EpochMillis,
  /** Its name; empty for a request to no webhook. */
  webhook: Schema.String,
  refused: RefusalReason,
  status: Schema.Int,
  /** The reason in words. */
  what: Schema.String,
  /** The text is that of the status; empty where there is none. */
  detail: Schema.String,
  /** In its answer and in the log. */
  requestId: Schema.String,
  /** The sender's address; empty if it isn't known. */
  from: Schema.String,
})
export type TappedRefusal = typeof TappedRefusal.Type
