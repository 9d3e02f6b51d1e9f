/**
 * Shell completions. The library's script completes commands, flags and files. For
 * values from a config or the running relay, it calls `relay __complete KIND [-c
 * FILE]`, which prints a value per line.
 */
import { Console, Effect, FileSystem, Option } from "effect"
import { Completions, type GlobalFlag } from "effect/cli"
import { namesIn } from "../../config/load/ConfigText.ts"
import { readerOf } from "../../config/load/References.ts"
import { quarantine } from "../../event/Event.ts"
import { eventTypes, relayEventTypes } from "../../event/EventType.ts"
import { As, Config } from "./flags.ts"
import { ofHost } from "./loadConfig.ts"
import { print } from "./output.ts"
import { lazily, Program } from "./Program.ts"

type Kind = "types" | "sinks" | "lanes" | "orphans" | "webhooks"

/** The values of flags, by the flag's name. */
const ofFlags: Readonly<Record<string, Kind>> = {
  type: "types",
  sink: "lanes",
  to: "sinks",
  payload: "sinks",
  webhook: "webhooks",
}

/** The values of arguments, by the command's name. */
const ofArguments: Readonly<Record<string, Kind>> = {
  "explain type|event": "types",
  "trigger type": "types",
  "lanes pause name": "sinks",
  "lanes resume name": "sinks",
  "lanes move from": "orphans",
  "lanes move to": "sinks",
  "lanes drop name": "orphans",
}

/** The flags whose value is a file. Every positional argument of `journal` is a file too. */
const filesOfFlags: ReadonlySet<string> = new Set(["config", "ca", "file"])
const file = { _tag: "Path", pathType: "file" } as const

/** The flags that every command takes. The library's descriptor doesn't have them. */
const everywhere: ReadonlyArray<Completions.FlagDescriptor> = [
  { name: "config", aliases: ["c"], description: "The config", type: file },
  { name: "as", aliases: [], description: "The token to ask the relay with", type: { _tag: "String" } },
  { name: "json", aliases: [], description: "Print JSON", type: { _tag: "Boolean" }, negation: false },
  { name: "help", aliases: ["h"], description: "Show help", type: { _tag: "Boolean" }, negation: false },
]

/** Returns the placeholder for the values in the library's script, which a call of a shell function replaces. */
const placeholder = (kind: Kind): string => `__relay_${kind}__`
const choice = (kind: Kind) => ({ _tag: "Choice", values: [placeholder(kind)] }) as const

const withValues = (
  { flags, arguments: given, subcommands, ...rest }: Completions.CommandDescriptor,
  command: string,
): Completions.CommandDescriptor => ({
  ...rest,
  flags: [...flags, ...everywhere].map((flag) => {
    const kind = ofFlags[flag.name]
    if (kind !== undefined) return { ...flag, type: choice(kind) }
    return filesOfFlags.has(flag.name) ? { ...flag, type: file } : flag
  }),
  arguments: given.map((argument) => {
    const kind = ofArguments[`${command} ${argument.name}`]
    if (kind !== undefined) return { ...argument, type: choice(kind) }
    return command.startsWith("journal ") ? { ...argument, type: file } : argument
  }),
  subcommands: subcommands.map((one) => withValues(one, `${command} ${one.name}`.trim())),
})

/** For each shell: the function that gets the values, the placeholder with its quotes, and the call that replaces it. */
const asking = {
  bash: {
    define: `_relay_values()
{
  local i config=()
  for ((i = 1; i < \${#words[@]} - 1; i++)); do
    case "\${words[i]}" in
      -c|--config) config=(-c "\${words[i+1]}") ;;
      --config=*) config=(-c "\${words[i]#*=}") ;;
    esac
  done
  "\${words[0]}" __complete "$1" "\${config[@]}" 2>/dev/null
}
`,
    quoted: (kind: Kind) => `'${placeholder(kind)}'`,
    call: (kind: Kind) => `$(_relay_values ${kind})`,
  },
  zsh: {
    define: `_relay_values() {
  local -a all=(\${(Q)\${(z)LBUFFER}}) config=()
  local i
  for ((i = 2; i < \${#all}; i++)); do
    case "\${all[i]}" in
      -c|--config) config=(-c "\${all[i+1]}") ;;
      --config=*) config=(-c "\${all[i]#*=}") ;;
    esac
  done
  compadd -- \${(f)"$("\${all[1]}" __complete "$1" $config 2>/dev/null)"}
}
`,
    quoted: (kind: Kind) => `(${placeholder(kind)})`,
    // With a blank in front, zsh calls the words without adding arguments.
    call: (kind: Kind) => ` _relay_values ${kind}`,
  },
  fish: {
    define: `function __relay_values
  set -l words (commandline -opc)
  set -l config
  for i in (seq 2 (count $words))
    switch $words[$i]
      case -c --config
        set config -c $words[(math $i + 1)]
      case '--config=*'
        set config -c (string replace -- --config= '' $words[$i])
    end
  end
  $words[1] __complete $argv[1] $config 2>/dev/null
end
`,
    quoted: (kind: Kind) => `'${placeholder(kind)}'`,
    call: (kind: Kind) => `'(__relay_values ${kind})'`,
  },
} as const

const kinds: ReadonlyArray<Kind> = ["types", "sinks", "lanes", "orphans", "webhooks"]

/** Returns the script for a shell. */
const script = (shell: Completions.Shell, descriptor: Completions.CommandDescriptor): string => {
  if (shell === "powershell") return Completions.generate(descriptor.name, shell, descriptor)
  const { define, quoted, call } = asking[shell]
  const lines = kinds.reduce(
    (text, kind) => text.replaceAll(quoted(kind), () => call(kind)),
    Completions.generate(descriptor.name, shell, withValues(descriptor, "")),
  )
  // zsh requires its tag in the first line of the file.
  const end = lines.indexOf("\n") + 1
  return `${lines.slice(0, end)}${define}${lines.slice(end)}`
}

/** Makes the library's flag print scripts that also complete the config's values. */
export const withConfigValues = (flag: typeof GlobalFlag.Completions): typeof GlobalFlag.Completions => ({
  ...flag,
  run: (shell, { command }) =>
    Option.match(shell, {
      onNone: () => Effect.void,
      onSome: (shell) => Console.log(script(shell, Completions.fromCommand(command))),
    }),
})

/** Returns the lanes without a sink, which only the running relay knows; empty if it does not answer soon. */
const orphans = Effect.fnUntraced(
  function* (file: string | undefined) {
    const { ask } = yield* lazily(() => import("./adminClient.ts"))
    const { lanes } = yield* ask((client) => client.status()).pipe(
      Effect.provideService(Config, Option.fromUndefinedOr(file)),
      Effect.provideService(As, Option.none()),
    )
    return lanes.filter(({ condition }) => condition === "orphaned").map(({ name }) => name)
  },
  Effect.timeout("2 seconds"),
  Effect.orElseSucceed((): ReadonlyArray<string> => []),
)

/** Returns the values of a kind; empty for an unknown kind. */
const valuesOf = Effect.fnUntraced(function* (kind: string, file: string | undefined) {
  if (kind === "types") return [...eventTypes, ...relayEventTypes]
  if (kind === "orphans") return yield* orphans(file)
  const part = kind === "webhooks" ? kind : "sinks"
  const { env } = yield* Program
  const names = yield* namesIn(part, file, { env, readFile: readerOf(yield* FileSystem.FileSystem), ...ofHost })
  return kind === "lanes" ? [...names, quarantine] : names
})

/** Runs `relay __complete KIND [-c FILE]`, which the scripts call. */
export const complete = Effect.fnUntraced(function* ([kind = "", , file]: ReadonlyArray<string>) {
  const values = yield* valuesOf(kind, file)
  if (values.length > 0) yield* print(values.join("\n"))
})
