/** When the oldest events of lanes without a sink were received. Each is read once: nothing delivers it. */
import { Effect } from "effect"
import type { LaneInfo } from "../journal/LaneInfo.ts"
import type { Log } from "../journal/StreamLog.ts"

const receivedAt = Effect.fnUntraced(function* (log: Log, { name, oldest }: LaneInfo) {
  if (oldest === 0) return 0
  const [entry] = yield* log.read(oldest - 1, 1)
  if (entry?.sequence === oldest) return entry.event.receivedAt
  // The log may have been pruned of an event that waits for a retry.
  const { entries } = yield* log.readRetries(name, [oldest])
  return entries[0]?.event.receivedAt ?? 0
})

interface Age {
  readonly oldest: number
  readonly at: number
}

export class OrphanAges {
  readonly #ages = new WeakMap<Log, Map<string, Age>>()

  /** Reads the oldest event of a lane, unless it is the one that was read before. */
  readonly note = Effect.fnUntraced(function* (this: OrphanAges, log: Log, info: LaneInfo) {
    const ages = this.#ages.get(log) ?? new Map<string, Age>()
    this.#ages.set(log, ages)
    if (ages.get(info.name)?.oldest === info.oldest) return
    const at = yield* Effect.orElseSucceed(receivedAt(log, info), () => 0)
    ages.set(info.name, { oldest: info.oldest, at })
  })

  /** Epoch milliseconds of the oldest in these streams; 0 when there is none. */
  oldestAt(logs: ReadonlyArray<Log>, name: string): number {
    const times = logs.flatMap((log) => this.#ages.get(log)?.get(name)?.at ?? [])
    const known = times.filter((at) => at > 0)
    return known.length === 0 ? 0 : Math.min(...known)
  }
}
