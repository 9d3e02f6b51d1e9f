/** The audit part of the admin API: the changes and who made them. */
import { Schema } from "effect"
import { HttpApiEndpoint } from "effect/http-api"
import { EpochMillis } from "../event/Quantities.ts"
import { results } from "../journal/AuditLog.ts"
import { Unavailable } from "./ApiErrors.ts"

const optional = Schema.optionalKey

/** An operation by an operator, and its result. */
export const AuditRecord = Schema.Struct({
  id: Schema.Int,
  at: EpochMillis,
  /**
   * The name of the token. `admin` is `admin.token`, `local` is a user of this machine without a token, and `user NAME`
   * ran a command without the relay.
   */
  who: Schema.String,
  /** The origin: the page, the command line, the admin API, or a signal. */
  by: Schema.String,
  /** The equivalent command. */
  what: Schema.String,
  /** The names and selectors that it applies to; empty for the relay as a whole. */
  on: Schema.String,
  result: Schema.Literals(results),
  /** A count, or the reason why it was refused or failed. */
  note: Schema.String,
  /** The relay that received the request; empty if the journal allows only one. */
  relay: Schema.String,
})
export type AuditRecord = typeof AuditRecord.Type

/** A page of records, newest first. `next` is the `before` of the next page; absent on the last. */
export const AuditPage = Schema.Struct({ records: Schema.Array(AuditRecord), next: optional(Schema.Int) })
export type AuditPage = typeof AuditPage.Type

export const audit = HttpApiEndpoint.get("audit", "/audit", {
  query: {
    /** At or after this time. */
    since: optional(Schema.FiniteFromString.annotate({ description: "Epoch milliseconds" })),
    before: optional(Schema.FiniteFromString.check(Schema.isInt())),
    limit: optional(Schema.FiniteFromString.check(Schema.isBetween({ minimum: 1, maximum: 1000 }))),
  },
  success: AuditPage,
  error: Unavailable,
})
