/** What `journal import` sends of another journal, and what became of it. */
import { Schema } from "effect"

export const Attempt = Schema.Struct({ at: Schema.Finite, reason: Schema.String, message: Schema.String })

/** An event that another journal kept, as `journal salvage` writes it. */
export const Kept = Schema.Struct({
  /** The other journal's id. */
  journal: Schema.String,
  in: Schema.String,
  /** The lanes that it is still owed to. */
  pending: Schema.Array(Schema.String),
  sequence: Schema.Int,
  receivedAt: Schema.Finite,
  id: Schema.String,
  type: Schema.String,
  accountId: Schema.String,
  webhook: Schema.String,
  webhookId: Schema.String,
  signature: Schema.String,
  secret: Schema.String,
  problem: Schema.optionalKey(Schema.String),
  trace: Schema.optionalKey(
    Schema.Struct({ traceparent: Schema.String, tracestate: Schema.optionalKey(Schema.String) }),
  ),
  replayed: Schema.Boolean,
  bodyBase64: Schema.String,
  /** Of a dead letter. */
  at: Schema.optionalKey(Schema.Finite),
  attempts: Schema.optionalKey(Schema.Array(Attempt)),
})
export type Kept = typeof Kept.Type

/** Counted once a lane. */
export const Imported = Schema.Struct({
  pending: Schema.Int,
  deadLetters: Schema.Int,
  /** Imported before, or received anew since. */
  known: Schema.Int,
  /** Owed to a sink that is not in the config, and not imported. */
  strange: Schema.Array(Schema.Struct({ lane: Schema.String, count: Schema.Int })),
})
export type Imported = typeof Imported.Type
