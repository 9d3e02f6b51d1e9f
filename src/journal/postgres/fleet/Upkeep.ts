/** Maintains a relay's own streams while it runs: deletes old rows, and counts dead letters. */
import { Clock, Duration, Effect } from "effect"
import { rounds } from "../../../event/Rounds.ts"
import type { Room } from "../../archive/Room.ts"
import { expiredBefore, type WallClock } from "../../WallClock.ts"
import type { Database } from "../connection/Database.ts"
import * as Housekeeping from "../lanes/Housekeeping.ts"
import { loadPlaces } from "../lanes/StreamLoading.ts"
import type { FleetReport } from "./FleetReport.ts"
import type { Member } from "./Member.ts"

/** How often old rows are deleted, and old duplicates forgotten. */
const pruneEvery = Duration.seconds(1)
const forgetEvery = Duration.seconds(60)

/** The limits of the journal. */
export interface UpkeepOptions {
  readonly retention: Duration.Duration
  /** In bytes, for all relays together. */
  readonly maxSize: number
  readonly duplicates: { readonly age: Duration.Duration; readonly count: number }
}

/** Runs until the scope closes. It deletes nothing by age while the wall clock can't be trusted. */
export const run = Effect.fnUntraced(function* (
  db: Database,
  { fleet }: Member,
  report: FleetReport,
  { retention, duplicates }: UpkeepOptions,
  room: Room,
  wallClock: WallClock,
) {
  const tidy = Effect.gen(function* () {
    const before = expiredBefore(wallClock, yield* Clock.currentTimeMillis, Duration.toMillis(retention))
    for (const stream of fleet.streams) {
      if (stream.isLost) continue
      // Another relay may be emptying one of its lanes.
      if (stream.names.isMoving) yield* fleet.owner.exclusively(stream, loadPlaces(stream, db))
      while (yield* Housekeeping.prune(stream, before, room.excess(report.usedBytes()))) yield* Effect.sleep(20)
    }
  })
  const forget = Effect.suspend(() =>
    fleet.shared === undefined
      ? Effect.void
      : Housekeeping.forget(db, { age: Duration.toMillis(duplicates.age), count: duplicates.count }),
  )
  yield* Effect.forkScoped(rounds("deleting old events", tidy, pruneEvery))
  yield* Effect.forkScoped(rounds("forgetting old deliveries", forget, forgetEvery))
})
