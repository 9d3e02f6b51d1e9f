import { Schema } from "effect"

/** Ends the benchmark. The message names the failed part, the failure and the remedy. */
export class BenchError extends Schema.TaggedError<BenchError>()("BenchError", { message: Schema.String }) {}
