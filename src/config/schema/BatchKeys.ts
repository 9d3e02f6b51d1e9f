/** The keys of how a sink's batches fill. */
import { Effect, Schema } from "effect"
import { countOr } from "./Keys.ts"
import { Units } from "./Units.ts"

export const linger = Units.duration.or("20 millis", "How long a batch may wait to fill")

/** `events` says what `maxEvents` bounds; its default is `most`. */
export const fields = (events: string, most: number) => ({
  maxEvents: countOr(events, most, 1, 1_000),
  maxBytes: Units.bytes.or("512 KiB", "Maximum bytes of their bodies; a larger event is sent alone"),
  linger,
})

export const batch = (events: string, most: number) =>
  Schema.Struct(fields(events, most))
    .annotate({ description: "How batches fill" })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed({})))
