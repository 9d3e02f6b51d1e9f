/** Another config while it runs. */
import { type Line, mutantsOf } from "../Line.ts"
import { reload } from "./Reload.ts"

export const lines: ReadonlyArray<Line> = [reload]
export const mutants = mutantsOf({
  [reload.name]: {
    "what a lane has decided is on disk before the next one takes its place": [
      "src/delivery/RunningLanes.ts",
      "Effect.andThen(end, Effect.repeat(settle, { until: isStored, schedule: settleRetries }))",
      "end",
    ],
    "attempts in flight end before another lane sends the same events": [
      "src/delivery/RunningLanes.ts",
      "Effect.andThen(end, Effect.repeat(settle, { until: isStored, schedule: settleRetries }))",
      "Effect.repeat(settle, { until: isStored, schedule: settleRetries })",
    ],
    "what waits for a renamed sink is moved to its new name": [
      "src/delivery/SinkChanges.ts",
      "known.has(renamedFrom) && !names.has(renamedFrom) ? renamedFrom : undefined",
      "known.has(renamedFrom) && !names.has(renamedFrom) ? undefined : undefined",
    ],
    "a certificate that is of no use keeps the old config in force": [
      "src/reload/Reload.ts",
      "if (diagnostics.length > 0)",
      "if (diagnostics.length > 100)",
    ],
    "a listener that was replaced keeps its connections": [
      "src/runtime/PausableListener.ts",
      "old.generation.retire()",
      "void old.close(true)",
    ],
    "what only a restart changes is refused": [
      "src/reload/Reload.ts",
      "if (fixed.length > 0)",
      "if (fixed.length > 100)",
    ],
    "the newest config is the one in force": [
      "src/ActiveConfig.ts",
      "active.current = compile(next)",
      "void compile(next)",
    ],
  },
})
