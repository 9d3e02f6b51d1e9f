/**
 * Notifies systemd: that the relay is ready, its status, and the watchdog.
 *
 * The watchdog is notified after an empty commit, so that a hanging event loop,
 * disk or journal has systemd restart the relay. A full journal does not: a
 * restart would not empty it.
 */
import { Duration, Effect, Schedule } from "effect"
import { Lanes } from "../../delivery/Lanes.ts"
import { quarantine } from "../../event/Event.ts"
import { Archive } from "../../journal/Archive.ts"
import { Journal } from "../../journal/Journal.ts"
import { Notify } from "../../runtime/Notify.ts"
import { count, plain } from "./output.ts"

/** How often the status is sent without a watchdog. */
const defaultInterval = Duration.seconds(10)

/** `journal ok; 3 sinks; waiting: lake, chat`. */
const status = Effect.gen(function* () {
  const { health } = yield* (yield* Archive).status
  const lanes = (yield* (yield* Lanes).status).filter(({ name }) => name !== quarantine)
  const impaired = Map.groupBy(
    lanes.filter(({ condition }) => condition !== "running"),
    ({ condition }) => condition,
  )
  const conditions = [...impaired].map(
    ([condition, some]) => `; ${condition}: ${some.map(({ name }) => name).join(", ")}`,
  )
  return plain(`STATUS=journal ${health}; ${count(lanes.length, "sink")}${conditions.join("")}`)
})

/** Runs until it is interrupted. */
export const notifySystemd = Effect.gen(function* () {
  const { say, isHeard, watchdog } = yield* Notify
  if (!isHeard) return yield* Effect.never
  const journal = yield* Journal
  // Twice as often as required: a late notification must not end the process.
  const every = watchdog === undefined ? defaultInterval : Duration.divideUnsafe(watchdog, 2)
  const commits = Effect.timeoutOption(Effect.isSuccess(journal.settle([])), every)
  const beat = Effect.gen(function* () {
    const committed = yield* commits
    if (committed._tag === "None" || !committed.value) return yield* say("STATUS=the journal does not commit")
    yield* say("WATCHDOG=1", yield* status)
  })
  yield* say("READY=1", yield* status)
  return yield* Effect.andThen(Effect.repeat(Effect.ignore(beat), Schedule.spaced(every)), Effect.never)
})
