/** The admin API of the relay as a whole: status, history, import, live tail, audit log, reload and restart. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema } from "effect/http-api"
import { EpochMillis } from "../../event/Quantities.ts"
import { results } from "../../journal/AuditLog.ts"
import { Reloaded, RestartStatus } from "../../reload/Difference.ts"
import { RelayHistory, Status } from "../status/Status.ts"
import { Invalid, NotFound, Refused, TooMany, Unavailable } from "./ApiParts.ts"
import { Imported, Kept } from "./ImportLine.ts"
import { Tap, TapLine, tapFilter, tapPosition } from "./LiveTail.ts"

export { Reloaded }

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

const audit = HttpApiEndpoint.get("audit", "/audit", {
  query: {
    /** At or after this time. */
    since: optional(Schema.FiniteFromString.annotate({ description: "Epoch milliseconds" })),
    before: optional(Schema.FiniteFromString.check(Schema.isInt())),
    limit: optional(Schema.FiniteFromString.check(Schema.isBetween({ minimum: 1, maximum: 1000 }))),
  },
  success: AuditPage,
  error: Unavailable,
})

/** The relay as a whole. 503 means that the journal can't answer now. */
export class RelayGroup extends HttpApiGroup.make("relay", { topLevel: true }).add(
  HttpApiEndpoint.get("status", "/status", { success: Status, error: Unavailable }),
  HttpApiEndpoint.get("history", "/history", { success: RelayHistory }),
  HttpApiEndpoint.get("tap", "/tap", {
    query: tapFilter,
    success: HttpApiSchema.StreamNdjson({ schema: TapLine }),
    error: [NotFound, Refused, TooMany],
  }),
  /**
   * Returns the events since `next` of the previous answer, for a reader that polls. The first answer has no events.
   */
  HttpApiEndpoint.get("tapSince", "/tap/since", {
    query: { ...tapFilter, sequence: tapPosition, refusals: tapPosition },
    success: Tap,
    error: [NotFound, Refused],
  }),
  audit,
  HttpApiEndpoint.post("reload", "/reload", {
    success: Reloaded,
    error: [Invalid, Refused, Unavailable],
  }),
  /** Answers once the second process listens. `restartStatus` then reports the result. */
  HttpApiEndpoint.post("restart", "/restart", { success: Schema.Struct({ pid: Schema.Int }), error: Refused }),
  HttpApiEndpoint.get("restartStatus", "/restart", {
    success: Schema.Struct({ ...RestartStatus.fields, version: Schema.String }),
  }),
  HttpApiEndpoint.post("import", "/journal/import", {
    payload: Schema.Struct({ events: Schema.Array(Kept) }),
    success: Imported,
    error: [Refused, Unavailable],
  }),
  HttpApiEndpoint.post("acknowledge", "/journal/acknowledge", { error: Unavailable }),
) {}
