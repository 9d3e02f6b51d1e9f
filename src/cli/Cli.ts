/** The command line: its commands, their help, and the messages about mistakes. */
import { Console, Effect, Logger } from "effect"
import { CliConfig, CliOutput, Command, GlobalFlag, type HelpDoc, TerminalCapabilities } from "effect/cli"
import { nearest } from "../event/Nearest.ts"
import { relayVersion } from "../runtime/Version.ts"
import { commands } from "./Commands.ts"
import { As, Config, Json } from "./support/flags.ts"
import { Columns, folded, type Paint, paintMessages } from "./support/output.ts"
import { lazily } from "./support/Program.ts"

const isForCompletions = (args: ReadonlyArray<string>): boolean => args.some((arg) => arg.startsWith("--completions"))

/** Loads the commands that the arguments name. For completions, loads all commands. */
const listed = (args: ReadonlyArray<string>) =>
  Promise.all(
    Object.entries(commands).map(([name, { description, load }]) =>
      args.includes(name) || isForCompletions(args)
        ? load()
        : Command.make(name).pipe(Command.withDescription(description)),
    ),
  )

const relay = Effect.fnUntraced(function* (args: ReadonlyArray<string>) {
  return Command.make("relay").pipe(
    Command.withDescription(
      "Receives a scheduling service's webhooks, stores each on disk before it answers, and relays them to sinks by event type.",
    ),
    Command.withSubcommands(yield* lazily(() => listed(args))),
    Command.withGlobalFlags([Config, As, Json]),
  )
})

/** Suggests a flag for a shortened or mistyped one, if the library suggests none. */
const flagMeant = (option: string, suggestions: ReadonlyArray<string>): string => {
  const all = ["--config", "--as", "--json", "--help", "--version", "--log-level", "--completions"]
  const near = all.find((flag) => option.length > 3 && flag.startsWith(option)) ?? nearest(option, all)
  return suggestions.length > 0 || near === undefined ? "" : `: did you mean ${near}?`
}

/** Formats the library's help for the terminal's width. */
const formatter = Effect.fnUntraced(function* (stream: "stdout" | "stderr") {
  const { canColor } = yield* TerminalCapabilities.TerminalCapabilities
  const { [stream]: width } = yield* Columns
  const whole = CliOutput.defaultFormatter({ colors: canColor && stream === "stdout" })
  return { ...whole, formatHelpDoc: (doc: HelpDoc.HelpDoc) => folded(whole.formatHelpDoc(doc), width) }
})

/** Requested help goes to stdout. A mistake prints a short message and the usage to stderr. */
const presenter = (style: Paint): CliOutput.Presenter => ({
  present: Effect.fnUntraced(function* (event) {
    if (event._tag !== "InvalidInvocation") {
      if (event._tag === "Help" && event.reason === "Implicit") {
        return yield* Console.error((yield* formatter("stderr")).formatHelpDoc(event.helpDoc))
      }
      return yield* CliOutput.defaultPresenter.present(event)
    }
    const path = event.commandPath.join(" ")
    const lines = event.errors.map((error) => {
      const meant = error._tag === "UnrecognizedOption" ? flagMeant(error.option, error.suggestions) : ""
      // The library adds a prefix to the message of a flag's schema.
      const words = error.message
        .replace("Schema validation failed: Expected ", "")
        .replace("Expected a string representing a finite number", "Expected: a number")
      const file = /^Unexpected positional argument: "(.*\.json)"$/.exec(words)?.[1]
      return `relay: ${words}${meant}${file === undefined ? "" : `; a config is named by -c ${file}`}`
    })
    yield* Console.error(
      `${style("red", lines.join("\n"))}\n\nUsage: ${event.helpDoc.usage}\nRun \`${path} --help\` for more.`,
    )
  }),
})

/** Returns the library's flags without `--wizard`, because choices are made in the config. */
const builtIns = Effect.fnUntraced(function* (args: ReadonlyArray<string>) {
  const { Help, Version, Completions, LogLevel } = GlobalFlag
  if (!isForCompletions(args)) return [Help, Version, Completions, LogLevel]
  const { withConfigValues } = yield* lazily(() => import("./support/completions.ts"))
  return [Help, Version, withConfigValues(Completions), LogLevel]
})

export const run = Effect.fnUntraced(function* (args: ReadonlyArray<string>) {
  if (args[0] === "__complete") {
    return yield* (yield* lazily(() => import("./support/completions.ts"))).complete(args.slice(1))
  }
  const style = yield* paintMessages
  const command = yield* relay(args)
  return yield* Command.runWith(command, { version: relayVersion })(args).pipe(
    Effect.provideService(CliConfig.CliConfig, { builtIns: yield* builtIns(args) }),
    Effect.provideService(CliOutput.Formatter, yield* formatter("stdout")),
    Effect.provideService(CliOutput.Presenter, presenter(style)),
    Effect.provideService(Logger.LogToStderr, true),
  )
})
