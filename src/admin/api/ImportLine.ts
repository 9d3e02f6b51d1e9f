/** The lines of another journal that `journal import` sends, and the answer. */
import { Schema } from "effect"
import { spanOf, stateOf } from "../../event/TraceContext.ts"
import { Attempt } from "../../journal/DeliveryStatus.ts"

/** A time within the range of `Date`, because others can't be shown. */
const DateMillis = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 8.64e15 }))

const Trace = Schema.Struct({
  traceparent: Schema.String.check(Schema.makeFilter((text: string) => spanOf(text) !== undefined)),
  tracestate: Schema.optionalKey(Schema.String.check(Schema.makeFilter((text: string) => stateOf(text) !== undefined))),
})

/** An event of another journal, as `journal salvage` writes it. */
export const Kept = Schema.Struct({
  /** The other journal's id. */
  journal: Schema.String,
  in: Schema.String,
  /** The lanes that have not delivered it. */
  pending: Schema.Array(Schema.String),
  sequence: Schema.Int.check(Schema.isGreaterThan(0)),
  receivedAt: DateMillis,
  id: Schema.String,
  type: Schema.String,
  accountId: Schema.String,
  webhook: Schema.String,
  webhookId: Schema.String,
  signature: Schema.String,
  secret: Schema.String,
  problem: Schema.optionalKey(Schema.String),
  trace: Schema.optionalKey(Trace),
  foreign: Schema.optionalKey(
    Schema.Struct({ createdAt: Schema.String, headers: Schema.Record(Schema.String, Schema.String) }),
  ),
  /** Set if its body was erased. */
  erased: Schema.optionalKey(
    Schema.Struct({ at: DateMillis, key: Schema.Tuple([Schema.Int, Schema.Int, Schema.Int]) }),
  ),
  replayed: Schema.Boolean,
  bodyBase64: Schema.String.check(Schema.isBase64()),
  /** Only a dead letter has this. */
  at: Schema.optionalKey(DateMillis),
  attempts: Schema.optionalKey(Schema.Array(Schema.Struct({ ...Attempt.fields, at: DateMillis }))),
})
export type Kept = typeof Kept.Type

/** Each event is counted once per lane. */
export const Imported = Schema.Struct({
  pending: Schema.Int,
  deadLetters: Schema.Int,
  /** Events that were already imported, or received again since. */
  known: Schema.Int,
  /** Events that were not imported because their sink is not in the config. */
  strange: Schema.Array(Schema.Struct({ lane: Schema.String, count: Schema.Int })),
})
export type Imported = typeof Imported.Type
