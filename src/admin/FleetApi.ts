/** The part of the status about the relays on one journal. */
import { Schema } from "effect"
import { Millis } from "../event/Quantities.ts"

export const Fleet = Schema.Struct({
  relays: Schema.Array(
    Schema.Struct({
      name: Schema.String,
      /** The relay that answers. */
      isSelf: Schema.Boolean,
      version: Schema.String,
      /** Identifies the config. */
      configHash: Schema.String,
      /** The address of its admin API. */
      address: Schema.String,
      /** Time since its last heartbeat. */
      age: Millis,
      streams: Schema.Array(Schema.Int),
      /** Whether it delivers for the sinks that require one relay. */
      shared: Schema.Boolean,
      /** Pending events in its streams, for all sinks. */
      waiting: Schema.Int,
    }),
  ),
  /** Streams that no relay owns now. */
  unowned: Schema.Array(Schema.Int),
})
export type Fleet = typeof Fleet.Type
