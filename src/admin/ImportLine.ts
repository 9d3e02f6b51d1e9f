/** The lines that `journal import` sends of another journal, and the answer. */
import { Schema } from "effect"
import { EpochMillis, Millis } from "../event/Quantities.ts"
import { spanOf, stateOf } from "../event/TraceContext.ts"

/** A time that a date can have: others can't be shown. */
const DateMillis = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 8.64e15 }))

const Trace = Schema.Struct({
  traceparent: Schema.String.check(Schema.makeFilter((text: string) => spanOf(text) !== undefined)),
  tracestate: Schema.optionalKey(Schema.String.check(Schema.makeFilter((text: string) => stateOf(text) !== undefined))),
})

/** A failed attempt. */
export const Attempt = Schema.Struct({
  at: EpochMillis,
  reason: Schema.String,
  message: Schema.String,
  /** The beginning of what the receiver answered. It may repeat what it was sent: only what shows payloads has it. */
  answer: Schema.optionalKey(Schema.String),
  /** How many attempts of the event this makes. */
  number: Schema.optionalKey(Schema.Int),
  /** How long it took, and the answer's code. */
  took: Schema.optionalKey(Millis),
  code: Schema.optionalKey(Schema.Int),
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
  /** Its body was erased. */
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
  /** Imported before, or received again since. */
  known: Schema.Int,
  /** Not imported, because their sink is not in the config. */
  strange: Schema.Array(Schema.Struct({ lane: Schema.String, count: Schema.Int })),
})
export type Imported = typeof Imported.Type
