import { Schema } from "effect"

/** The benchmark can't go on: what happened, to which part, what to do. */
export class BenchError extends Schema.TaggedError<BenchError>()("BenchError", { message: Schema.String }) {}
