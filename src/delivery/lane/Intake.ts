/**
 * What a lane does with an event that it reads from the log: into the queue, into
 * the digest of its group, or past it. Where the backlog is over its limit, the
 * oldest become dead letters.
 */
import { Cause, Duration } from "effect"
import type { LaneConfig } from "../../config/Config.ts"
import { Unrenderable } from "../../formats/Rendering.ts"
import type { Entry } from "../../journal/Journal.ts"
import type { Progress } from "./Progress.ts"
import type { Queue } from "./Queue.ts"
import type { LaneEvents, RetryPolicy } from "./RetryPolicy.ts"
import type { Suspects } from "./Suspects.ts"

export interface IntakeOptions {
  readonly config: LaneConfig
  /** The order key of an event, or the group of its digest. It may throw `Unrenderable`. */
  readonly key: (entry: Entry) => string
  readonly queue: Queue
  readonly progress: Progress
  readonly policy: RetryPolicy
  readonly suspects: Suspects
  readonly events: Pick<LaneEvents, "defect">
}

export class Intake {
  readonly #options: IntakeOptions

  constructor(options: IntakeOptions) {
    this.#options = options
  }

  take(entry: Entry, now: number): void {
    const { config, progress, queue } = this.#options
    if (!progress.take(entry)) return
    const { digest, order } = config
    const key = digest !== undefined || (order === "key" && !entry.replayed) ? this.#keyOf(entry) : ""
    if (key === undefined) return
    if (digest === undefined) queue.add({ entry, key }, now)
    else progress.collect({ entry, key }, Duration.toMillis(digest.wait))
  }

  enforceBacklogLimit(): void {
    const { queue, progress, policy, suspects } = this.#options
    if (progress.excess <= 0) return
    const message = "the lane's backlog is over its limit and backlog.whenFull is deadLetter"
    for (const item of queue.takeOldest(progress.excess)) {
      policy.refuse(item, "BacklogFull", message)
      suspects.ended(item.entry.sequence)
    }
  }

  /** `undefined` when no key can be made of the event: then it is a dead letter. */
  #keyOf(entry: Entry): string | undefined {
    const { key, events, policy } = this.#options
    try {
      return key(entry)
    } catch (error) {
      const item = { entry, key: "" }
      if (error instanceof Unrenderable) policy.refuse(item, "DeliveryRejected", error.message)
      else {
        events.defect(Cause.die(error))
        policy.refuse(item, "Defect", "a bug in relay while its key was made; the log has its cause")
      }
      return undefined
    }
  }
}
