/** `relay restart`: makes the running relay start its program again and hand over to it without refusing a delivery. */
import { Duration, Effect, Schedule } from "effect"
import { Command } from "effect/cli"
import type { RestartStatus } from "../../reload/Difference.ts"
import { ask } from "../support/adminClient.ts"
import { failed } from "../support/CommandError.ts"
import { withExamples } from "../support/flags.ts"
import { plain, printDone, say, span } from "../support/output.ts"

/**
 * The command retries, because an ending process doesn't answer: for 20 seconds in a
 * handover, or for ten minutes until a service manager has started the relay.
 */
const patiently = (times: number) => ({ schedule: Schedule.spaced("200 millis"), times })
const handover = patiently(100)
const start = patiently(3_000)

export const restart = Command.make(
  "restart",
  {},
  Effect.fn(function* () {
    const { stops } = yield* ask((client) => client.restartStatus())
    if (stops !== undefined) {
      yield* say(
        `the relay took ${span(stops)} to start, longer than deliveries can wait: it stops, and the service manager starts it again; until it listens, deliveries are refused`,
      )
    }
    const { pid } = yield* ask((client) => client.restart())
    const look = Effect.delay(
      ask((client) => client.restartStatus()),
      "100 millis",
    )
    const isNew = (status: RestartStatus) =>
      stops === undefined ? status.pid === pid && status.took !== undefined : status.pid !== pid
    const ended = yield* Effect.repeat(Effect.retry(look, stops === undefined ? handover : start), {
      until: (status) => isNew(status) || status.failure !== undefined,
    })
    if (ended.failure !== undefined) {
      return yield* failed(`the relay continues as before, as process ${ended.pid}: ${plain(ended.failure)}`)
    }
    const { version, took } = ended
    const how =
      took === undefined
        ? "started"
        : `took over; requests waited for ${Duration.format(Duration.millis(took))} at most`
    const sentence = `process ${ended.pid}, relay ${plain(version)}, ${how}`
    yield* printDone({ pid: ended.pid, version, took }, sentence)
  }),
).pipe(
  withExamples({
    "relay restart": "After an upgrade, or a change that needs a restart: no delivery is refused",
    "relay validate && relay restart": "Check the config and its sinks first",
  }),
)
