/** Another config while it runs. */
import type { Line, Mutant } from "../Line.ts"
import { reload } from "./Reload.ts"

export const lines: ReadonlyArray<Line> = [reload]
export const mutants: ReadonlyArray<Mutant> = [
  {
    gone: "what a lane has decided is on disk before the next one takes its place",
    file: "src/delivery/RunningLanes.ts",
    find: "Effect.andThen(end, Effect.repeat(settle, { until: isStored, schedule: settleRetries }))",
    replace: "end",
    line: reload.name,
  },
  {
    gone: "attempts in flight end before another lane sends the same events",
    file: "src/delivery/RunningLanes.ts",
    find: "Effect.andThen(end, Effect.repeat(settle, { until: isStored, schedule: settleRetries }))",
    replace: "Effect.repeat(settle, { until: isStored, schedule: settleRetries })",
    line: reload.name,
  },
  {
    gone: "what waits for a renamed sink is moved to its new name",
    file: "src/delivery/SinkChanges.ts",
    find: "known.has(renamedFrom) && !names.has(renamedFrom) ? renamedFrom : undefined",
    replace: "known.has(renamedFrom) && !names.has(renamedFrom) ? undefined : undefined",
    line: reload.name,
  },
  {
    gone: "a certificate that is of no use keeps the old config in force",
    file: "src/reload/Reload.ts",
    find: "if (diagnostics.length > 0)",
    replace: "if (diagnostics.length > 100)",
    line: reload.name,
  },
  {
    gone: "a listener that was replaced keeps its connections",
    file: "src/runtime/PausableListener.ts",
    find: "old.generation.retire()",
    replace: "void old.close(true)",
    line: reload.name,
  },
  {
    gone: "what only a restart changes is refused",
    file: "src/reload/Reload.ts",
    find: "if (fixed.length > 0)",
    replace: "if (fixed.length > 100)",
    line: reload.name,
  },
  {
    gone: "the newest config is the one in force",
    file: "src/ActiveConfig.ts",
    find: "active.current = compile(next)",
    replace: "void compile(next)",
    line: reload.name,
  },
]
