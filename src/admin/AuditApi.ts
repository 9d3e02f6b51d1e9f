/** The part of the admin API about who changed what. */
import { Schema } from "effect"
import { HttpApiEndpoint } from "effect/http-api"
import { EpochMillis } from "../event/Quantities.ts"
import { results } from "../journal/AuditLog.ts"
import { Unavailable } from "./ApiErrors.ts"

const optional = Schema.optionalKey

/** An operation that an operator asked for, and how it ended. */
export const AuditRecord = Schema.Struct({
  id: Schema.Int,
  at: EpochMillis,
  /** The name of the token; `admin` is `admin.token`, `local` a user of this machine without one, `user NAME` ran a command without the relay. */
  who: Schema.String,
  /** The program that asked: the page, the command line, the admin API, or a signal. */
  by: Schema.String,
  /** The words of the command that does the same. */
  what: Schema.String,
  /** Names and selectors; empty for the relay as a whole. */
  on: Schema.String,
  result: Schema.Literals(results),
  /** A count, or the reason why it was refused or failed. */
  note: Schema.String,
  /** The relay that was asked; empty where there can be but one. */
  relay: Schema.String,
})
export type AuditRecord = typeof AuditRecord.Type

/** Newest first; `next` is the `before` of the next page, and absent on the last. */
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
