/**
 * What a lane does with an event that it reads from the log: into the queue, into
 * the digest of its group, or past it. Where the backlog is over its limit, the
 * oldest become dead letters.
 */
import { Cause, Duration } from "effect"
import { Unrenderable } from "../../formats/Rendering.ts"
import type { Entry } from "../../journal/Journal.ts"
import type { LaneParts } from "./LaneParts.ts"
import type { RetryPolicy } from "./RetryPolicy.ts"

type Parts = Pick<LaneParts, "config" | "key" | "queue" | "progress" | "suspects" | "events"> & {
  readonly policy: RetryPolicy
}

export class Intake {
  readonly #parts: Parts

  constructor(parts: Parts) {
    this.#parts = parts
  }

  take(entry: Entry, now: number): void {
    const { config, progress, queue } = this.#parts
    if (!progress.take(entry)) return
    const { digest, order } = config
    const key = digest !== undefined || (order === "key" && !entry.replayed) ? this.#keyOf(entry) : ""
    if (key === undefined) return
    if (digest === undefined) queue.add({ entry, key }, now)
    else progress.collect({ entry, key }, Duration.toMillis(digest.wait))
  }

  enforceBacklogLimit(): void {
    const { queue, progress, policy, suspects } = this.#parts
    if (progress.excess <= 0) return
    const message = "the lane's backlog is over its limit and backlog.whenFull is deadLetter"
    for (const item of queue.takeOldest(progress.excess)) {
      policy.refuse(item, "BacklogFull", message)
      suspects.ended(item.entry.sequence)
    }
  }

  /** `undefined` when no key can be made of the event: then it is a dead letter. */
  #keyOf(entry: Entry): string | undefined {
    const { key, events, policy } = this.#parts
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
