/** The journal's report on itself. */
import { conditionOf } from "../../archive/AlarmLines.ts"
import type { JournalStatus } from "../../JournalStatus.ts"
import type { WallClock } from "../../WallClock.ts"
import type { Engine } from "../commit/Engine.ts"
import type { SqliteConfig } from "../SqliteConfig.ts"

/** The worst that is so. */
const healthOf = ({ brokenBy, isStarting, space, locked }: Engine): JournalStatus["health"] => {
  if (brokenBy !== undefined) return "broken"
  if (isStarting) return "starting"
  if (space.refusal !== undefined) return "full"
  if (locked.message !== "") return "unavailable"
  return "ok"
}

/** The status now, from memory but for the log's oldest row. */
export const statusOf = (engine: Engine, { path, maxSize }: SqliteConfig, wallClock: WallClock): JournalStatus => {
  const { usedBytes, walBytes, freeDiskBytes, filling, message } = engine.space
  const { brokenBy, alarm, head } = engine
  const problems = [engine.space.ballast.problem, engine.store.mark.problem]
  return {
    ...conditionOf(
      healthOf(engine),
      [brokenBy?.message ?? "", message, engine.locked.message, ...problems],
      alarm.raised,
      wallClock,
    ),
    head,
    first: brokenBy === undefined ? (engine.log.oldestRow()?.first ?? head + 1) : 0,
    usedBytes,
    maxBytes: maxSize,
    filling,
    counters: { ...engine.counters },
    engine: { path, walBytes, freeDiskBytes },
  }
}
