/** The part of the status about the relays on one journal. */
import { Schema } from "effect"
import { Millis } from "../event/Quantities.ts"

export const Fleet = Schema.Struct({
  relays: Schema.Array(
    Schema.Struct({
      name: Schema.String,
      /** The one that was asked. */
      isSelf: Schema.Boolean,
      version: Schema.String,
      /** Tells configs apart. */
      configHash: Schema.String,
      /** The address of its admin API. */
      address: Schema.String,
      /** Time since its last heartbeat. */
      age: Millis,
      streams: Schema.Array(Schema.Int),
      /** It delivers for the sinks that need one relay. */
      shared: Schema.Boolean,
      /** Events that wait in its streams, over all sinks. */
      waiting: Schema.Int,
    }),
  ),
  /** Streams that no relay delivers at the moment. */
  unowned: Schema.Array(Schema.Int),
})
export type Fleet = typeof Fleet.Type
