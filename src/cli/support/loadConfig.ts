/** Loads the config that the flags name. */
import { Effect, FileSystem, Option } from "effect"
import { readerOf } from "../../config/load/ReadFile.ts"
import { Config } from "./flags.ts"
import { say } from "./output.ts"
import { lazily, Program, quoted } from "./Program.ts"

/** Leaves the warnings to the caller. */
export const loadQuietly = Effect.gen(function* () {
  const file = yield* Config
  const { env } = yield* Program
  const readFile = readerOf(yield* FileSystem.FileSystem)
  const [{ load, loadOrEmbedded }, { sinkTypes }, { journalTypes }] = yield* Effect.all([
    lazily(() => import("../../config/load/Load.ts")),
    lazily(() => import("../../sinks/SinkTypes.ts")),
    lazily(() => import("../../journal/Journals.ts")),
  ])
  const options = { env, readFile, sinkTypes, journalTypes }
  return yield* Option.match(file, { onNone: () => loadOrEmbedded(options), onSome: (path) => load(path, options) })
})

/** Prints the warnings to stderr. */
export const loadConfig = Effect.tap(loadQuietly, ({ warnings }) =>
  Effect.flatMap(
    lazily(() => import("../../config/diagnostics/Diagnostic.ts")),
    ({ render }) => (warnings.length === 0 ? Effect.void : say(render(warnings))),
  ),
)

/** ` -c FILE` where the flag was given, for printed commands. */
export const configFlag = Effect.map(
  Config,
  Option.match({ onNone: () => "", onSome: (file) => ` -c ${quoted(file)}` }),
)
