/** Loads the config that the flags name. */
import { Effect, FileSystem, Option } from "effect"
import type { Loaded, LoadOptions } from "../../config/load/Load.ts"
import { ReadFiles, readerOf } from "../../config/load/References.ts"
import { quoted } from "../../formats/Texts.ts"
import { distrust, fileIdentity, unitCredentials } from "../../runtime/Files.ts"
import { headerLimit } from "../../runtime/RequestGuard.ts"
import { Config } from "./flags.ts"
import { marked, paintMessages, plain, say, table } from "./output.ts"
import { lazily, Program } from "./Program.ts"

/** The host's part of loading a config: file identities and owners, the runtime's header limit, and the service's credentials. */
export const ofHost = { fileOf: fileIdentity, distrust, headerLimit, unitCredentials: () => unitCredentials() }

const loading = Effect.fnUntraced(function* (how: Pick<LoadOptions, "mayLack" | "readsInstalled">) {
  const file = yield* Config
  const { env } = yield* Program
  const files = yield* ReadFiles
  files?.clear()
  const readFile = readerOf(yield* FileSystem.FileSystem, files)
  const [{ load, loadOrEmbedded }, { sinkTypes }, { journalTypes }] = yield* Effect.all([
    lazily(() => import("../../config/load/Load.ts")),
    lazily(() => import("../../sinks/SinkTypes.ts")),
    lazily(() => import("../../journal/Journals.ts")),
  ])
  const options = { env, readFile, sinkTypes, journalTypes, ...ofHost, ...how }
  return yield* Option.match(file, { onNone: () => loadOrEmbedded(options), onSome: (path) => load(path, options) })
})

/** Loads the config and leaves its warnings to the caller. */
export const loadQuietly = loading({})

/** Loads the config even if secrets are absent, for checks that don't need them. */
export const loadLacking = loading({ mayLack: true })

/** Loads the config as the service does, for checks. Credentials that this process can't read are left out. */
export const loadForHost = loading({ mayLack: "credentials", readsInstalled: true })

/** Reports whether a part of the config, such as `["sinks", "lake"]`, has a value that is absent here. */
export const lacks = ({ absent }: Pick<Loaded, "absent">, ...part: ReadonlyArray<string>): boolean =>
  absent.some(({ path }) => part.every((key, index) => path[index] === key))

export const sayWarnings = Effect.fnUntraced(function* ({ warnings }: Pick<Loaded, "warnings">) {
  const { render } = yield* lazily(() => import("../../config/diagnostics/Diagnostic.ts"))
  if (warnings.length > 0) yield* say(render(warnings, marked(yield* paintMessages)))
})

/** Prints warnings about unusable certificates in a config that is used despite them. */
const sayFaults = Effect.fnUntraced(function* (loaded: Loaded) {
  const { warningsOf } = yield* lazily(() => import("../../config/load/Load.ts"))
  yield* sayWarnings({ warnings: warningsOf(loaded) })
})

export const loadConfig = Effect.tap(loadQuietly, sayFaults)

/** Loads the config as the service of an installed relay does, for root. */
export const loadAsService = Effect.tap(loading({ readsInstalled: true }), sayFaults)

/** Prints the absent variables and files to stderr. */
export const sayAbsent = ({ file, absent }: Loaded): Effect.Effect<void> => {
  if (absent.length === 0) return Effect.void
  const rows = absent.map(({ key, message }) => [key, message])
  return say(`${plain(file)}: not here, and so not checked:\n${table(rows)}`)
}

/** Lists the absent secrets for `--json`. */
export const absentIn = ({ absent }: Loaded): object =>
  absent.length === 0 ? {} : { absent: absent.map(({ key, message }) => ({ key, message })) }

export const loadForCheck = Effect.tap(loadLacking, (loaded) => Effect.andThen(sayFaults(loaded), sayAbsent(loaded)))

/** The text ` -c FILE` for printed commands, if the flag was given. */
export const configFlag = Effect.map(
  Config,
  Option.match({ onNone: () => "", onSome: (file) => ` -c ${quoted(file)}` }),
)

/** Loads only the config's journal section. */
export const loadJournal = Effect.gen(function* () {
  const file = Option.getOrUndefined(yield* Config)
  const { env } = yield* Program
  const readFile = readerOf(yield* FileSystem.FileSystem)
  const [{ loadJournal }, { journalTypes }] = yield* Effect.all([
    lazily(() => import("../../config/load/Load.ts")),
    lazily(() => import("../../journal/Journals.ts")),
  ])
  return yield* loadJournal(file, { env, readFile, journalTypes, ...ofHost })
})
