import { Effect } from "effect"
import type { BenchError } from "./BenchError.ts"
export const run = (_path: string, _count: number): Effect.Effect<void, BenchError> => Effect.void
