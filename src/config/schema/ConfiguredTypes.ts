/** The config needs to know this of each type of sink; `sinks/Sink.ts` has the rest of a type. */
import { Predicate, type Schema, type SchemaAST } from "effect"
import { ConfigFile, Lane } from "./ConfigFile.ts"
import { type JournalTypes, journalSchema } from "./JournalSchema.ts"
import { mayShow, type Path, partOf, written } from "./Traits.ts"

/** How a sink reports recoveries: events that say that an earlier failure is over. */
export interface Recoveries<Config> {
  /** The key of the config that asks for it. */
  readonly askedBy: string
  /** The key by which a config sets the message's own key, where there is one. */
  readonly ownKey?: string
  /** The template of the key that a failure and its recovery share; absent where recoveries are not asked for. */
  key(config: Config): string | undefined
}

/**
 * Sinks whose messages tell of events instead of carrying them, such as alerts:
 * they may have `digest` and `enrich`.
 */
export interface Messages<Config> {
  /** Whether a config makes such messages; every config of the type unless given. */
  composes?(config: Config): boolean
  /** This part of a config makes it compose, as it is written: `"format": "template"`. */
  readonly with?: string
  readonly recoveries?: Recoveries<Config>
  /** The config of a sink of digests; `key` is the template of the key that the events of each share. */
  ofDigests?(config: Config, key: string): Config
}

export interface ConfiguredType<Config> {
  /** The type's own keys, each with what it holds (`config/schema/Keys.ts`); the keys that every sink has are added. */
  readonly config: Schema.Codec<Config, unknown>
  /** How many batches may be in flight unless the config says otherwise. */
  readonly concurrency: number
  readonly messages?: Messages<Config>
}

export type ConfiguredTypes = Readonly<Record<string, ConfiguredType<unknown>>>

const file = written(ConfigFile)
const lane = written(Lane)

/** The schemas of a sink as it is written: its type's own keys, and those of every sink. */
export const schemasOf = (type: ConfiguredType<unknown> | undefined): ReadonlyArray<SchemaAST.AST> =>
  type === undefined ? [lane] : [written(type.config), lane]

const typeOf = (value: unknown): string => (Predicate.hasProperty(value, "type") ? String(value.type) : "")

/** Reads the value at a key; `undefined` if there is none. */
const at = (value: unknown, key: string): unknown => (Predicate.hasProperty(value, key) ? value[key] : undefined)

/** The schema of what stands at a path of a config as it is written; `undefined` where nothing may, or the type of a sink decides and is not known. */
export const schemaAt =
  (sinkTypes: ConfiguredTypes, journalTypes: JournalTypes) =>
  (path: Path, config: unknown): SchemaAST.AST | undefined => {
    const [root, rest] = placeOf(path, config, sinkTypes, journalTypes)
    return rest.reduce<SchemaAST.AST | undefined>((ast, key) => ast && partOf(ast, key), root)
  }

/** The nearest schema above a path that is not part of another one, and the way from there. */
const placeOf = (
  path: Path,
  config: unknown,
  sinkTypes: ConfiguredTypes,
  journalTypes: JournalTypes,
): readonly [SchemaAST.AST | undefined, Path] => {
  const [first, name, key] = path
  if (first === "journal") return [written(journalSchema(typeOf(at(config, first)), journalTypes)), path.slice(1)]
  if (first !== "sinks" || key === undefined) return [file, path]
  const type = typeOf(at(at(config, first), String(name)))
  const schemas = schemasOf(Object.hasOwn(sinkTypes, type) ? sinkTypes[type] : undefined)
  return [schemas.find((one) => partOf(one, key) !== undefined), path.slice(2)]
}

/** Whether a diagnostic may show the value at a path of a config: its schema must say so. */
export const mayBeShown =
  (sinkTypes: ConfiguredTypes, journalTypes: JournalTypes) =>
  (path: Path, config: unknown): boolean => {
    const [first, , key] = path
    const value = path.reduce((value: unknown, key) => at(value, String(key)), config)
    if (first === "sinks" && key === undefined) return typeof value !== "string"
    if (first === "sinks" && key === "type") return true
    const [root, rest] = placeOf(path, config, sinkTypes, journalTypes)
    return root !== undefined && mayShow(root, rest, value)
  }
