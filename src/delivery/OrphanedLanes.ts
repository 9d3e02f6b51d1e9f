/**
 * The lanes whose sink is not in the config: the age of their oldest events, and the
 * operator's commands to move or drop them.
 */
import { Effect, Schema } from "effect"
import type { Archive } from "../journal/Archive.ts"
import type { Log } from "../journal/Journal.ts"
import { inUse, type LaneInfo } from "../journal/LaneInfo.ts"
import { earliest } from "./LaneStatus.ts"
import type { StreamLanes } from "./StreamLanes.ts"

/** A lane whose sink is in the config can't be moved or dropped: its sink would miss the events. */
export class LaneInUse extends Schema.TaggedError<LaneInUse>()("LaneInUse", { message: Schema.String }) {}

/** Describes the backlog of an orphaned lane and what an operator can do about it. */
export const unclaimed = ({ name, backlog }: LaneInfo): string =>
  `${backlog === 1 ? "1 event waits" : `${backlog} events wait`} for the sink ${name}, which is not in the config: \`relay lanes move ${name} TO\` moves the backlog to another sink, \`relay lanes drop ${name}\` gives it up, or a sink takes it over with "renamedFrom"`

const receivedAt = Effect.fnUntraced(function* (log: Log, { name, oldest }: LaneInfo) {
  if (oldest === 0) return 0
  const [entry] = yield* log.read(oldest - 1, 1)
  if (entry?.sequence === oldest) return entry.event.receivedAt
  // An event that waits for a retry may no longer be in the log.
  const { entries } = yield* log.readRetries(name, [oldest])
  return entries[0]?.event.receivedAt ?? 0
})

interface Age {
  readonly oldest: number
  readonly at: number
}

export const make = (archive: Archive["Service"], streams: StreamLanes) => {
  /** When the oldest event of each lane was received. Each is read only once, because no lane delivers it. */
  const ages = new WeakMap<Log, Map<string, Age>>()
  const isOrphaned = (name: string) => streams.of(name).length === 0
  const refuseInUse = Effect.fnUntraced(function* (name: string) {
    if (isOrphaned(name)) return
    return yield* new LaneInUse({ message: `the ${inUse(name)}` })
  })

  return {
    /** Logs the orphaned lanes that have a backlog, at the start. */
    warn: Effect.gen(function* () {
      for (const info of yield* archive.lanes) {
        if (!isOrphaned(info.name) || info.backlog === 0) continue
        yield* Effect.annotateLogs(Effect.logWarning(unclaimed(info)), { sink: info.name })
      }
    }),
    /** Reads the oldest event of each orphaned lane of a stream, unless it was read before. */
    note: Effect.fnUntraced(function* (log: Log, infos: ReadonlyArray<LaneInfo>) {
      const known = ages.get(log) ?? new Map<string, Age>()
      ages.set(log, known)
      for (const info of infos) {
        const { name, oldest } = info
        if (!isOrphaned(name) || known.get(name)?.oldest === oldest) continue
        known.set(name, { oldest, at: yield* Effect.orElseSucceed(receivedAt(log, info), () => 0) })
      }
    }),
    /** Epoch milliseconds when the lane's oldest event in any stream was received, or 0 if there is none. */
    oldestAt: (name: string): number => earliest(streams.logs().map((log) => ages.get(log)?.get(name)?.at ?? 0)),
    /** Implements `Lanes.move`. */
    move: Effect.fnUntraced(function* (from: string, to: string) {
      yield* refuseInUse(from)
      // The target's settlements must be on disk first. Otherwise it would adopt events again that it has settled.
      for (const lanes of streams.all()) yield* lanes.settle
      const adopt = Effect.forEach(streams.all(), (lanes) => lanes.reopen(to))
      // Runs even if the move fails half way, because otherwise the retries already moved would never be sent.
      return yield* Effect.ensuring(archive.moveLane(from, to), Effect.ignore(adopt))
    }),
    /** Implements `Lanes.drop`. */
    drop: (name: string) => Effect.andThen(refuseInUse(name), archive.dropLane(name)),
  }
}
