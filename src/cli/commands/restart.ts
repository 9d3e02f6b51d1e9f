/** `relay restart`: the running relay starts its program again, and hands over to it without refusing a delivery. */
import { Duration, Effect, Schedule } from "effect"
import { Command } from "effect/cli"
import { ask } from "../support/adminClient.ts"
import { failed } from "../support/CommandError.ts"
import { plain, printDone } from "../support/output.ts"

/** A process that ends during the handover gives no answer, so the command asks again. */
const patiently = { schedule: Schedule.spaced("200 millis"), times: 100 }

export const restart = Command.make(
  "restart",
  {},
  Effect.fn(function* () {
    const { pid } = yield* ask((client) => client.restart())
    const look = Effect.delay(
      ask((client) => client.restartStatus()),
      "100 millis",
    )
    const ended = yield* Effect.repeat(Effect.retry(look, patiently), {
      until: (status) => (status.pid === pid && status.took !== undefined) || status.failure !== undefined,
    })
    if (ended.failure !== undefined) {
      return yield* failed(`the relay goes on as before, as process ${ended.pid}: ${plain(ended.failure)}`)
    }
    const { version, took = 0 } = ended
    const sentence = `process ${pid}, relay ${plain(version)}, took over; requests waited for ${Duration.format(Duration.millis(took))} at most`
    yield* printDone({ pid, version, took }, sentence)
  }),
).pipe(
  Command.withExamples([
    {
      command: "relay restart",
      description: "After an upgrade, or a change that needs a restart: no delivery is refused",
    },
    { command: "relay validate && relay restart", description: "Check the config and its sinks first" },
  ]),
)
