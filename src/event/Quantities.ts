/**
 * Types that name the unit of a number, so that an `EpochMillis` field needs no
 * comment.
 *
 * The types are aliases, so the compiler does not distinguish them. Durations in the
 * config use `Duration`; these types are for numbers that are stored, sent or
 * compared.
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
