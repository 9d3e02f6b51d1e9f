/**
 * Completions in the shell. The library's script has the commands and flags; the
 * values that a config gives are asked for with `relay __complete KIND [-c FILE]`,
 * which prints them a line each, and nothing where there are none.
 */
import { Console, Effect, FileSystem, Option } from "effect"
import { Completions, type GlobalFlag } from "effect/cli"
import { namesIn } from "../../config/load/ConfiguredNames.ts"
import { readerOf } from "../../config/load/ReadFile.ts"
import { quarantine } from "../../event/Event.ts"
import { eventTypes, relayEventTypes } from "../../event/EventType.ts"
import { print } from "./output.ts"
import { Program } from "./Program.ts"

type Kind = "types" | "sinks" | "lanes" | "webhooks"

/** Which values a flag takes, whatever its command. */
const ofFlags: Readonly<Record<string, Kind>> = { type: "types", sink: "lanes", payload: "sinks", webhook: "webhooks" }

/** Which values an argument of a command takes. */
const ofArguments: Readonly<Record<string, Kind>> = {
  "explain type|event": "types",
  "trigger type": "types",
  "lanes name": "sinks",
  "lanes from": "sinks",
  "lanes to": "sinks",
}

/** Stands for the values in the library's script until the shell's way to ask for them replaces it. */
const placeholder = (kind: Kind): string => `__relay_${kind}__`
const choice = (kind: Kind) => ({ _tag: "Choice", values: [placeholder(kind)] }) as const

const withValues = (
  { flags, arguments: given, subcommands, ...rest }: Completions.CommandDescriptor,
  command: string,
): Completions.CommandDescriptor => ({
  ...rest,
  flags: flags.map((flag) => {
    const kind = ofFlags[flag.name]
    return kind === undefined ? flag : { ...flag, type: choice(kind) }
  }),
  arguments: given.map((argument) => {
    const kind = ofArguments[`${command} ${argument.name}`]
    return kind === undefined ? argument : { ...argument, type: choice(kind) }
  }),
  subcommands: subcommands.map((one) => withValues(one, command === "" ? one.name : command)),
})

/** How a shell asks: a function that it defines, and the placeholder with the quotes around it as it is replaced. */
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
    // With a blank in front the words are called as they are.
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

const kinds: ReadonlyArray<Kind> = ["types", "sinks", "lanes", "webhooks"]

/** The script for a shell. */
const script = (shell: Completions.Shell, descriptor: Completions.CommandDescriptor): string => {
  if (shell === "powershell") return Completions.generate(descriptor.name, shell, descriptor)
  const { define, quoted, call } = asking[shell]
  const lines = kinds.reduce(
    (text, kind) => text.replaceAll(quoted(kind), () => call(kind)),
    Completions.generate(descriptor.name, shell, withValues(descriptor, "")),
  )
  // zsh reads the first line of the file.
  const end = lines.indexOf("\n") + 1
  return `${lines.slice(0, end)}${define}${lines.slice(end)}`
}

/** The library's flag, whose scripts also complete the config's values. */
export const withConfigValues = (flag: typeof GlobalFlag.Completions): typeof GlobalFlag.Completions => ({
  ...flag,
  run: (shell, { command }) =>
    Option.match(shell, {
      onNone: () => Effect.void,
      onSome: (shell) => Console.log(script(shell, Completions.fromCommand(command))),
    }),
})

/** The values of a kind; none of one that there is not. */
const valuesOf = Effect.fnUntraced(function* (kind: string, file: string | undefined) {
  if (kind === "types") return [...eventTypes, ...relayEventTypes]
  const part = kind === "webhooks" ? kind : "sinks"
  const { env } = yield* Program
  const names = yield* namesIn(part, file, { env, readFile: readerOf(yield* FileSystem.FileSystem) })
  return kind === "lanes" ? [...names, quarantine] : names
})

/** `relay __complete KIND [-c FILE]`, which the scripts call. */
export const complete = Effect.fnUntraced(function* ([kind = "", , file]: ReadonlyArray<string>) {
  const values = yield* valuesOf(kind, file)
  if (values.length > 0) yield* print(values.join("\n"))
})
