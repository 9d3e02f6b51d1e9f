/** Guards of the relay's promise, each removed: within a thousand seeds the oracle must notice. */
import { mutantsOf } from "../Line.ts"

export const mutants = mutantsOf({
  simulation: {
    "the cursor stays below an event that is not settled": [
      "src/delivery/lane/Changes.ts",
      "return { sequence: lowest - 1, settled",
      "return { sequence: lowest, settled",
    ],
    "what settled above the cursor is stored with it": [
      "src/delivery/lane/Changes.ts",
      "settled: settled.concat(this.#unread())",
      "settled: []",
      60,
    ],
    "a retrying event holds its key": ["src/delivery/lane/RetryQueue.ts", "return first !== sequence", "return false"],
    "two batches of one key are never in flight together": [
      "src/delivery/lane/Queue.ts",
      "          waiting.push(item)\n          continue",
      "          waiting.push()",
    ],
    "dead letters go with the settlement": [
      "src/delivery/lane/Changes.ts",
      "deadLetter: [...this.#deadLetters.values()]",
      "deadLetter: []",
    ],
    "what could not be stored goes with the next settlement": [
      "src/delivery/lane/Changes.ts",
      "else if (!this.#hasEnded(sequence)) this.#retries.set(sequence, retry)",
      "else this.#hasEnded(sequence)",
    ],
    "an attempt has a deadline": [
      "src/delivery/lane/InFlight.ts",
      "return now - batch.startedAt >= Duration.toMillis(this.#timeout)",
      "return false",
    ],
    "nothing is given up by age while the wall clock can't be trusted": [
      "src/delivery/lane/Outcome.ts",
      " && wallClock.trusted()",
      "",
      144,
    ],
    "what a crash may repeat is bounded": [
      "src/delivery/lane/Lane.ts",
      `      if (this.progress.unsubmitted >= maxUnstored / 2) this.#parts.events.settle()
      if (this.progress.unstored >= maxUnstored) break
`,
      "",
      78,
    ],
    "what a lane waits for is kept when the log is pruned": [
      "src/journal/sqlite/operations/Retention.ts",
      "        engine.pending.add(stored)\n",
      "",
    ],
    "what is owed to a lane stays until that lane has settled it": [
      "src/journal/sqlite/rows/PendingEvents.ts",
      "if (!sinks.some((sink) => lanes.get(sink)?.isPending(sequence)))",
      "if (!sinks.every((sink) => lanes.get(sink)?.isPending(sequence)))",
    ],
    "a renamed sink has the lane that it had before": [
      "src/journal/sqlite/commit/LaneStore.ts",
      "{ name, id, isFormer: false },\n    ]",
      "{ name, id: name, isFormer: false },\n    ]",
    ],
    "the duplicates of before a restart are known after it": [
      "src/journal/sqlite/operations/StartupScan.ts",
      "if (remembered && delivered) engine",
      "if (remembered && !delivered) engine",
    ],
    "a commit wakes the lanes of its events": [
      "src/journal/stream/RecentEntries.ts",
      "for (const lane of lanes) this.#wakeLane(lane)",
      "void lanes",
      61,
    ],
    "only the cursor of a lane that waits for nothing follows the log": [
      "src/journal/stream/Backlog.ts",
      "!isWaiting && readFrom",
      "readFrom",
    ],
    "a lane that an event is routed to is not idle": [
      "src/journal/stream/Backlog.ts",
      "    this.#above++\n    this.onHolding()",
      "    this.#above++",
    ],
    "an id that comes with other bytes has a key of its own": [
      "src/journal/sqlite/commit/Engine.ts",
      "isAltered ? { ...event, altered: true } : event",
      "event",
    ],
    "a failed commit frees its keys": [
      "src/journal/sqlite/commit/Engine.ts",
      "this.duplicates.rollback()",
      "this.duplicates.commit()",
    ],
    "an answer comes after the commit": [
      "src/journal/sqlite/SqliteJournal.ts",
      "if (exit !== undefined) resume(exit)",
      'resume(exit ?? Effect.succeed("appended"))',
    ],
    "attempts in flight end before a reload has another lane send the same events": [
      "src/delivery/RunningLanes.ts",
      "Effect.andThen(end, ",
      "Effect.andThen(Effect.void, ",
      56,
    ],
    "a lane that a reload ends is on disk before the next one begins": [
      "src/delivery/RunningLanes.ts",
      "Effect.repeat(settle, { until: isStored, schedule: settleRetries })",
      "Effect.void",
    ],
    "an attempt keeps its deadline while a reload waits for it": [
      "src/delivery/RunningLanes.ts",
      "Effect.raceFirst(ending.drain(grace()), keepTime)",
      "ending.drain(grace())",
      56,
    ],
    "all events of a digest get their attempt refunded": [
      "src/delivery/lane/Outcome.ts",
      "for (const sequence of refunded) progress.refundAttempt(sequence)",
      "for (const sequence of refunded.slice(0, 1)) progress.refundAttempt(sequence)",
    ],
    "a digest holds so many events and no more": [
      "src/delivery/lane/RetryQueue.ts",
      "?.slice(0, this.#sizeOf(first.key))",
      "",
    ],
    "a lane's pause outlives a restart": [
      "src/delivery/lane/Lane.ts",
      "config.name, opened, breaker",
      "config.name, { paused: false }, breaker",
    ],
    "an event that fails while others pass is charged": [
      "src/delivery/lane/Suspects.ts",
      "(this.#failedAt.get(sequence) ?? this.#passes) < this.#passes",
      "(this.#failedAt.get(sequence) ?? this.#passes) < 0",
    ],
    "of a batch that failed as a whole each event goes by itself": [
      "src/delivery/lane/Verdict.ts",
      'isolated: suspicion === "atFault"',
      "isolated: false",
    ],
    "an event that is a bug's each time is given up": [
      "src/delivery/lane/Outcome.ts",
      'failure._tag === "Defect" && progress.defects(item) + 1 >= maxDefects',
      "progress.defects(item) < 0",
      61,
    ],
    "an event whose key can't be rendered ends by itself": [
      "src/delivery/lane/Intake.ts",
      'if (error instanceof Unrenderable) this.#policy.refuse(item, "DeliveryRejected", error.message)',
      "if (error instanceof Unrenderable) throw error",
    ],
    "a backlog over its limit gives up what waits for a retry, not what comes after it": [
      "src/delivery/lane/Intake.ts",
      "progress.retries.oldest(Math.min(progress.excess, readAtOnce))",
      "progress.retries.oldest(0)",
      300_159,
    ],
  },
  "test/delivery/lane/Progress.test.ts": {
    "a wait is stored as whole milliseconds": [
      "src/delivery/lane/Progress.ts",
      "const delay = Math.ceil(asked)",
      "const delay = asked",
    ],
  },
})
