/**
 * What a service manager hears of a relay that serves: that it is ready, how it
 * is, and, as often as it wants to know, that it lives.
 *
 * **It lives** while a commit comes back: an empty one, which goes the way of
 * any other. An event loop, a disk or a journal that hangs sends no beat, and
 * the manager starts the relay anew. A full journal does: a restart would not
 * empty it.
 */
import { Duration, Effect, Schedule } from "effect"
import { Lanes } from "../../delivery/Lanes.ts"
import { quarantine } from "../../event/Event.ts"
import { Journal } from "../../journal/Journal.ts"
import { Notify } from "../../runtime/Notify.ts"
import { count, plain } from "./output.ts"

/** How often the status is renewed where nobody watches. */
const usually = Duration.seconds(10)

/** `journal ok; 3 sinks; waiting: lake, chat`. */
const status = Effect.gen(function* () {
  const { health } = yield* (yield* Journal).status
  const lanes = (yield* (yield* Lanes).status).filter(({ name }) => name !== quarantine)
  const troubled = Map.groupBy(
    lanes.filter(({ condition }) => condition !== "running"),
    ({ condition }) => condition,
  )
  const troubles = [...troubled].map(
    ([condition, some]) => `; ${condition}: ${some.map(({ name }) => name).join(", ")}`,
  )
  return plain(`STATUS=journal ${health}; ${count(lanes.length, "sink")}${troubles.join("")}`)
})

/** Says that the relay is ready, then how it is, for ever. */
export const tell = Effect.gen(function* () {
  const { say, isHeard, watchdog } = yield* Notify
  if (!isHeard) return yield* Effect.never
  const journal = yield* Journal
  // Twice as often as it must be: one that comes late is no reason to kill.
  const every = watchdog === undefined ? usually : Duration.divideUnsafe(watchdog, 2)
  const commits = Effect.timeoutOption(Effect.isSuccess(journal.settle([])), every)
  const beat = Effect.gen(function* () {
    const lives = yield* commits
    if (lives._tag === "None" || !lives.value) return yield* say("STATUS=the journal does not commit")
    yield* say("WATCHDOG=1", yield* status)
  })
  yield* say("READY=1", yield* status)
  return yield* Effect.andThen(Effect.repeat(Effect.ignore(beat), Schedule.spaced(every)), Effect.never)
})
