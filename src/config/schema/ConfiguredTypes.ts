/** The config needs to know this of each type of sink; `sinks/Sink.ts` has the rest of a type. */
import { Effect, Schema, type SchemaAST } from "effect"
import { type Fields, fields, type Path, valueAt } from "../Fields.ts"
import { ConfigFile, Lane } from "./ConfigFile.ts"
import { mayShow, type OtherNames, partOf, type Visitor, visit, written } from "./Traits.ts"

// The schema of `"journal"`: its type, and the keys of that type.

/** The part of a `JournalType` that a config needs. The first is the default. */
type JournalTypes = Readonly<Record<string, { readonly config: Schema.Struct<Schema.Struct.Fields> }>>

/** An unknown type has the keys of the default; its `type` is refused. */
export const journalSchema = (type: string, journalTypes: JournalTypes) => {
  const types = Object.keys(journalTypes)
  const [usual = ""] = types
  const own = journalTypes[Object.hasOwn(journalTypes, type) ? type : usual]?.config.fields
  const otherNames = Object.entries(journalTypes).flatMap(([other, { config }]) =>
    Object.keys(config.fields)
      .filter((key) => own !== undefined && !Object.hasOwn(own, key))
      .map((key): OtherNames => [key, "", `it is a key of ${other}: for that journal add "type": "${other}"`]),
  )
  const key = Schema.Literals(types).annotate({ description: "The kind of journal", default: usual })
  return Schema.Struct({
    type: key.pipe(Schema.withDecodingDefaultKey(Effect.succeed(usual))),
    ...own,
  }).annotate({ description: "Storage of accepted events until every sink has them", otherNames })
}

/** How a sink reports recoveries: events that say that an earlier failure is over. */
export interface Recoveries<Config> {
  /** The key of the config that asks for it. */
  readonly askedBy: string
  /** The config key of the message's own key, if it has one. */
  readonly ownKey?: string
  /** The template of the key that a failure and its recovery share; absent where recoveries are not asked for. */
  key(config: Config): string | undefined
}

/**
 * Sinks whose messages tell of events instead of carrying them, such as alerts:
 * they may have `digest` and `enrich`.
 */
interface Messages<Config> {
  /** Whether a config makes such messages; every config of the type unless given. */
  composes?(config: Config): boolean
  /** This part of a config makes it compose, as it is written: `"format": "template"`. */
  readonly with?: string
  readonly recoveries?: Recoveries<Config>
  /** The config of a sink of digests; `key` is the template of the key that the events of each share. */
  ofDigests?(config: Config, key: string): Config
}

/** A type of sink, as far as its config goes. */
export interface ConfiguredType<Config> {
  /** The type's own keys, each with its traits (`config/schema/Keys.ts`). The keys that every sink has are added. */
  readonly config: Schema.Codec<Config, unknown>
  /** How many batches may be in flight unless the config says otherwise. */
  readonly concurrency: number
  /** The time for one attempt that the protocol needs, such as `12 minutes`, and the source of that. Absent: 10 seconds. */
  readonly timeout?: { readonly value: `${number} ${"seconds" | "minutes"}`; readonly because: string }
  readonly messages?: Messages<Config>
  /** Lists parts of a config that are allowed, and probably not meant. */
  doubts?(config: Config): ReadonlyArray<Doubt>
}

/** A part of a sink's config that is probably not meant. */
export interface Doubt {
  /** Its place in the sink. */
  readonly path: Path
  readonly message: string
  readonly hint: string
}

/** The types of sinks by their names, which a sink's `type` holds. */
export type ConfiguredTypes = Readonly<Record<string, ConfiguredType<unknown>>>

/** All types that a config may name. */
export interface Types {
  readonly sinkTypes: ConfiguredTypes
  readonly journalTypes: JournalTypes
}

const file = written(ConfigFile)
const lane = written(Lane)

/** The type that a sink names. `undefined` if that type doesn't exist. */
export const typeOf = (sink: unknown, { sinkTypes }: Pick<Types, "sinkTypes">): ConfiguredType<unknown> | undefined => {
  const { type } = fields(sink)
  return typeof type === "string" && Object.hasOwn(sinkTypes, type) ? sinkTypes[type] : undefined
}

/** The schemas of a sink as it is written: the keys of its type, and the keys of every sink. */
const schemasOf = (sink: unknown, types: Pick<Types, "sinkTypes">): ReadonlyArray<SchemaAST.AST> => {
  const type = typeOf(sink, types)
  return type === undefined ? [lane] : [written(type.config), lane]
}

/** Visits each value of the sinks that its schema knows. */
export const visitSinks = (config: Fields, types: Pick<Types, "sinkTypes">, on: Visitor): void => {
  for (const [name, sink] of Object.entries(fields(config.sinks))) {
    const schemas = schemasOf(sink, types)
    for (const [key, value] of Object.entries(fields(sink))) {
      const schema = schemas.map((one) => partOf(one, key)).find((part) => part !== undefined)
      if (schema !== undefined) visit(schema, value, ["sinks", name, key], on)
    }
  }
}

/** The schema of a config's journal as it is written. */
export const writtenJournal = (config: unknown, { journalTypes }: Types): SchemaAST.AST =>
  written(journalSchema(String(valueAt(config, ["journal", "type"])), journalTypes))

/** The nearest schema above a path that is not part of another one, and the way from there. */
const placeOf = (path: Path, config: unknown, types: Types): readonly [SchemaAST.AST | undefined, Path] => {
  const [first, name = "", key] = path
  if (first === "journal") return [writtenJournal(config, types), path.slice(1)]
  if (first !== "sinks" || key === undefined) return [file, path]
  const schemas = schemasOf(valueAt(config, [first, name]), types)
  return [schemas.find((one) => partOf(one, key) !== undefined), path.slice(2)]
}

/**
 * The schema of the value at a path of a config as it is written. `undefined` if no value is allowed there, or if it
 * depends on a sink's type that is not known.
 */
export const schemaAt =
  (types: Types) =>
  (path: Path, config: unknown): SchemaAST.AST | undefined => {
    const [root, rest] = placeOf(path, config, types)
    return rest.reduce<SchemaAST.AST | undefined>((ast, key) => ast && partOf(ast, key), root)
  }

/** Whether a diagnostic may show the value at a path of a config: its schema must say so. */
export const mayBeShown =
  (types: Types) =>
  (path: Path, config: unknown): boolean => {
    const [first, , key] = path
    const value = valueAt(config, path)
    if (first === "sinks" && key === undefined) return typeof value !== "string"
    if (first === "sinks" && key === "type") return true
    const [root, rest] = placeOf(path, config, types)
    return root !== undefined && mayShow(root, rest, value)
  }
