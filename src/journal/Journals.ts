/** All journal types. Only this file names them: a new type is a line here. */
import { Effect, Layer, Predicate, type Scope } from "effect"
import type { JournalConfig } from "../config/Config.ts"
import type { Archive } from "./Archive.ts"
import type { Operation } from "./AuditLog.ts"
import { copyInto } from "./archive/Copying.ts"
import type { Journal } from "./Journal.ts"
import { type Checked, type CopyCounts, type CopySource, check as checkSource, withOperation } from "./JournalCopy.ts"
import { type JournalError, MaintenanceError, unavailable } from "./JournalError.ts"
import type { Inspected, JournalFile, JournalType } from "./JournalType.ts"
import { Postgres } from "./postgres/Postgres.ts"
import { Sqlite } from "./sqlite/Sqlite.ts"

/** The first is the default. A type gets only configs that its own `config` has decoded. */
export const journalTypes: Readonly<Record<string, JournalType<unknown>>> = { sqlite: Sqlite, postgres: Postgres }

/** The journal of a config. */
export const layer = (config: JournalConfig): Layer.Layer<Journal | Archive, JournalError> => {
  const type = journalTypes[config.type]
  const unknown = unavailable(`There is no journal of the type ${config.type}.`)
  if (type === undefined) return Layer.unwrap(Effect.fail(unknown))
  return Layer.unwrap(Effect.map(Effect.promise(type.load), ({ layer }) => layer(config)))
}

/** The identity of a relay's journal, and the version of the schema that this relay writes. */
export const identify = (config: JournalConfig): Effect.Effect<{ readonly journal: string; readonly schema: number }> =>
  Effect.promise(async () => {
    const type = journalTypes[config.type]
    const schema = (await type?.load())?.schema ?? 0
    return { journal: `${config.type} ${type?.identity(config)}`, schema }
  })

/** Returns the file of a config's journal, if it has one. */
export const fileOf = (config: JournalConfig): JournalFile | undefined => journalTypes[config.type]?.file?.(config)

/** The keys of a journal's config that a reload may change. */
export const liveKeys = ({ type }: JournalConfig): ReadonlyArray<string> => journalTypes[type]?.live ?? []

/** Returns the findings about a journal that isn't on this machine. */
export const inspect = (config: JournalConfig): Effect.Effect<ReadonlyArray<Inspected>> =>
  journalTypes[config.type]?.inspect?.(config) ?? Effect.succeed([])

/** Returns the config of a journal in a file, or `undefined` if this type keeps no file. */
export const ofFile = (type: string, path: string | undefined): JournalConfig | undefined => {
  const keys = journalTypes[type]?.ofFile?.(path)
  return Predicate.isObject(keys) ? { ...keys, type } : undefined
}

const copyingOf = ({ type }: JournalConfig) => {
  const copying = journalTypes[type]?.copying
  const message = `A journal of the type ${type} can't be copied.`
  return copying === undefined ? new MaintenanceError({ message }) : Effect.promise(copying)
}

/** Opens a journal to read its present contents, also while relays run on it. Nothing is written to it. */
export const reading = (config: JournalConfig): Effect.Effect<CopySource, MaintenanceError, Scope.Scope> =>
  Effect.flatMap(copyingOf(config), ({ source }) => source(config, "check"))

/**
 * Copies everything in one journal into a journal of another type. The target's audit log also gets the copy
 * itself.
 */
export const copy = (
  from: JournalConfig,
  to: JournalConfig,
  operation: Operation,
  onProgress: (share: number) => Effect.Effect<void>,
): Effect.Effect<CopyCounts & { readonly damaged: number }, MaintenanceError> =>
  Effect.gen(function* () {
    const [reading, writing] = [yield* copyingOf(from), yield* copyingOf(to)]
    const source = yield* reading.source(from)
    const target = yield* writing.target(to, source)
    const counts = yield* copyInto(target, withOperation(source, operation), onProgress)
    return { ...counts, damaged: source.damaged() }
  }).pipe(Effect.scoped)

/**
 * Reads a journal without a file to its end. Returns `undefined` if the journal has a file or its type can't be
 * copied.
 */
export const check = (config: JournalConfig): Effect.Effect<Checked | undefined, MaintenanceError> =>
  Effect.gen(function* () {
    const type = journalTypes[config.type]
    if (type?.copying === undefined || type.file !== undefined) return undefined
    const { source } = yield* Effect.promise(type.copying)
    return yield* checkSource(yield* source(config, "check"))
  }).pipe(Effect.scoped)

/** Loads the maintenance of a journal's file, for `relay journal`. */
export const maintenance = () => import("./sqlite/maintenance/Maintenance.ts")
