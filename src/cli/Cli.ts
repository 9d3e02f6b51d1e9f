/** The command line: its commands, and how it speaks. A command is a file beside this one. */
import { Console, Effect, Logger } from "effect"
import { CliConfig, CliOutput, Command, GlobalFlag } from "effect/cli"
import { dlq } from "./commands/dlq.ts"
import { doctor } from "./commands/doctor.ts"
import { events } from "./commands/events.ts"
import { explain } from "./commands/explain.ts"
import { init } from "./commands/init.ts"
import { journalCommand } from "./commands/journal.ts"
import { lanes } from "./commands/lanes.ts"
import { reload } from "./commands/reload.ts"
import { replay } from "./commands/replay.ts"
import { run as serve } from "./commands/run.ts"
import { schema } from "./commands/schema.ts"
import { status } from "./commands/status.ts"
import { tap } from "./commands/tap.ts"
import { test } from "./commands/test.ts"
import { trigger } from "./commands/trigger.ts"
import { validate } from "./commands/validate.ts"
import { Config, Json } from "./support/globalFlags.ts"
import { version } from "./support/Program.ts"

const relay = Command.make("relay").pipe(
  Command.withDescription(
    "Receives a scheduling service's webhooks, keeps each on disk before it answers, and relays them by event type to their sinks.",
  ),
  Command.withSubcommands([
    serve,
    validate,
    test,
    explain,
    trigger,
    status,
    tap,
    events,
    lanes,
    dlq,
    replay,
    reload,
    journalCommand,
    doctor,
    schema,
    init,
  ]),
  Command.withGlobalFlags([Config, Json]),
)

/** Help that was asked for is data; help that a mistake brings up is words, and short. */
const presenter: CliOutput.Presenter = {
  present: Effect.fnUntraced(function* (event) {
    if (event._tag !== "InvalidInvocation") {
      if (event._tag === "Help" && event.reason === "Implicit") {
        const formatter = CliOutput.defaultFormatter()
        return yield* Console.error(formatter.formatHelpDoc(event.helpDoc))
      }
      return yield* CliOutput.defaultPresenter.present(event)
    }
    const path = event.commandPath.join(" ")
    // What a flag's own schema says is framed by words about schemas.
    const words = event.errors.map(
      ({ message }) => `relay: ${message.replace("Schema validation failed: Expected ", "")}`,
    )
    yield* Console.error(`${words.join("\n")}\n\nUsage: ${event.helpDoc.usage}\n\`${path} --help\` says more.`)
  }),
}

/** `--wizard` is left out: the config is the place for choices. */
const builtIns = [GlobalFlag.Help, GlobalFlag.Version, GlobalFlag.Completions, GlobalFlag.LogLevel]

export const run = (args: ReadonlyArray<string>) =>
  Command.runWith(relay, { version })(args).pipe(
    Effect.provideService(CliConfig.CliConfig, { builtIns }),
    Effect.provideService(CliOutput.Presenter, presenter),
    Effect.provideService(Logger.LogToStderr, true),
  )
