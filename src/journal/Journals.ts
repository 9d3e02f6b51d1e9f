/** The journals there are. The only file that names them: a new one is a line here. */
import { Effect, Layer } from "effect"
import type { JournalConfig } from "../config/Config.ts"
import type { Journal } from "./Journal.ts"
import { type JournalError, unavailable } from "./JournalError.ts"
import type { Inspected, JournalFile, JournalType } from "./JournalType.ts"
import { Postgres } from "./postgres/Postgres.ts"
import { Sqlite } from "./sqlite/Sqlite.ts"

/** A type whose config only its own schema knows: what is decoded by `config` goes into `load` and `file`. */
type AnyJournalType = JournalType<unknown>

const erase = <Config>({ config, load, live, inspect, file }: JournalType<Config>): AnyJournalType => ({
  config,
  ...(live && { live }),
  ...(inspect && { inspect: (config) => inspect(config as Config) }),
  load: async () => {
    const { layer } = await load()
    return { layer: (config) => layer(config as Config) }
  },
  ...(file && { file: (config) => file(config as Config) }),
})

/** The first is the default. */
export const journalTypes: Readonly<Record<string, AnyJournalType>> = {
  sqlite: erase(Sqlite),
  postgres: erase(Postgres),
}

/** The journal of a config. */
export const layer = (config: JournalConfig): Layer.Layer<Journal, JournalError> => {
  const type = journalTypes[config.type]
  const unknown = unavailable(`There is no journal of the type ${config.type}.`)
  if (type === undefined) return Layer.unwrap(Effect.fail(unknown))
  return Layer.unwrap(Effect.map(Effect.promise(type.load), ({ layer }) => layer(config)))
}

/** The file that the journal of a config keeps, if it keeps one. */
export const fileOf = (config: JournalConfig): JournalFile | undefined => journalTypes[config.type]?.file?.(config)

/** The keys of a journal's config that a reload may change. */
export const liveKeys = ({ type }: JournalConfig): ReadonlyArray<string> => journalTypes[type]?.live ?? []

/** What can be said of a journal that is not on this machine. */
export const inspect = (config: JournalConfig): Effect.Effect<ReadonlyArray<Inspected>> =>
  journalTypes[config.type]?.inspect?.(config) ?? Effect.succeed([])

/** The work on a journal's file, for `relay journal`. */
export const maintenance = () => import("./sqlite/file/Maintenance.ts")

/** What the main module runs in a worker thread. */
export const runWorker = async (): Promise<void> => (await import("./sqlite/JournalWorker.ts")).runWorker()
