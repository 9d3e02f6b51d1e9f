/**
 * Units of numbers, named by their types: `EpochMillis` needs no comment.
 *
 * The types are aliases, so the compiler does not tell them apart. A duration of
 * the config is a `Duration`; these are for what is stored, sent and compared.
 */
import { Schema } from "effect"

/** A point in time: milliseconds since 1970 in UTC. */
export const EpochMillis = Schema.Finite.annotate({ description: "Epoch milliseconds" })
export type EpochMillis = typeof EpochMillis.Type

/** A span of time. */
export const Millis = Schema.Finite.annotate({ description: "Milliseconds" })
export type Millis = typeof Millis.Type

/** A size. */
export const Bytes = Schema.Finite.annotate({ description: "Bytes" })
export type Bytes = typeof Bytes.Type
