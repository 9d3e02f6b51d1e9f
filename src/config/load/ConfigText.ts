/** Finds the config and reads its text: the file that is named, or the default one. */
import { Effect } from "effect"
import text from "../../../relay.config.json" with { type: "text" }
import { ConfigError } from "../diagnostics/Diagnostic.ts"
import { parse } from "../diagnostics/Source.ts"
import { fields } from "../Fields.ts"
import { decodeText, type Environment, reasonOf } from "./References.ts"

// The embedded config, which is the project's own. `relay run` uses it if there is no file, and
// `relay init` writes it.
//
// TypeScript gives a .json file the type of its content, even if it is imported as text.
export const embedded = text as unknown as string

/** The config's name if no other is given. */
export const defaultFile = "relay.config.json"
/** The config of a relay that a package installed. It is the default if the working directory has no config. */
export const installedFile = "/etc/relay/relay.config.json"

/** The name of the embedded config in messages. */
export const embeddedName = "the embedded defaults"

const failed = (file: string, message: string, hint: string): ConfigError =>
  new ConfigError({ file, diagnostics: [{ severity: "error", file, line: 0, column: 0, key: "", message, hint }] })

export const missing = (file: string): ConfigError =>
  failed(file, "there is no such file", "`relay init` writes a config to start from; `--config PATH` chooses another")

/** The error of a check without a config. Checking the embedded defaults would say nothing about the config that will run. */
export const unwritten: ConfigError = failed(
  defaultFile,
  "there is no such file here: `relay run` would use the embedded defaults, whose signing secret is public",
  "`relay init` writes a config to start from; `--config PATH` chooses another",
)

/** Reads the file's text. Returns `undefined` only if the file doesn't exist. */
export const read = Effect.fnUntraced(function* (
  file: string,
  { readFile }: Environment,
): Effect.fn.Return<string | undefined, ConfigError> {
  const bytes = yield* readFile(file).pipe(
    Effect.catch((cause) =>
      cause.reason._tag === "NotFound"
        ? Effect.succeed(undefined)
        : Effect.fail(failed(file, reasonOf(cause), "`--config PATH` chooses another file")),
    ),
  )
  const text = bytes === undefined ? "" : decodeText(bytes)
  if (text === undefined) return yield* failed(file, "this is not UTF-8 text", "save it as UTF-8")
  return bytes === undefined ? undefined : text
})

/**
 * Reads the default config: the working directory's, the installed one, or the embedded one.
 *
 * **Guarantee.** A config of the working directory is used only if it is trusted,
 * because it names files that are read as secrets and addresses that receive them.
 */
export const readDefault = Effect.fnUntraced(function* (options: Environment) {
  const doubt = options.distrust?.(defaultFile)
  if (doubt !== undefined) {
    const hint = `if you trust it, name it: \`-c ${defaultFile}\``
    return yield* failed(defaultFile, `it is not used, because another user may have written it: ${doubt}`, hint)
  }
  for (const file of [defaultFile, installedFile]) {
    const text = yield* read(file, options)
    if (text !== undefined) return { file, text }
  }
  return { file: embeddedName, text: embedded }
})

// The names of a config's sinks and webhooks, for completions. Nothing is resolved, decoded or checked.

/** Returns the names; empty if the config can't be read. */
export const namesIn = Effect.fnUntraced(
  function* (part: "sinks" | "webhooks", file: string | undefined, options: Environment) {
    const found = file === undefined ? yield* readDefault(options) : { file, text: yield* read(file, options) }
    return Object.keys(fields(fields(parse(found.file, found.text ?? "", () => false).value)[part]))
  },
  Effect.orElseSucceed((): ReadonlyArray<string> => []),
)
