/** The part of each sink type that the config needs. `sinks/Sink.ts` has the rest. */
import { Effect, Schema, type SchemaAST } from "effect"
import { type Fields, fields, type Path, valueAt } from "../Fields.ts"
import { ConfigFile, Lane } from "./ConfigFile.ts"
import { mayShow, type OtherNames, partOf, type Visitor, visit, written } from "./Traits.ts"

// The schema of `"journal"`: its type, and the keys of that type.

/** The part of a `JournalType` that a config needs. The first is the default. */
type JournalTypes = Readonly<Record<string, { readonly config: Schema.Struct<Schema.Struct.Fields> }>>

/** Returns the schema of a journal. An unknown type has the keys of the default, and its `type` is refused. */
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
  /** The config key that turns recoveries on. */
  readonly askedBy: string
  /** The config key with the message's own key, if it has one. */
  readonly ownKey?: string
  isOn(config: Config): boolean
  /** Returns the template of the key that a failure and its recovery share. */
  key(config: Config): string
}

/**
 * Facts about sinks whose messages report events instead of carrying them, such as
 * alerts. They may have `digest` and `enrich`.
 */
interface Messages<Config> {
  /** Reports whether a config makes such messages. If absent, every config of the type does. */
  composes?(config: Config): boolean
  /** The part of a config that makes it compose messages, such as `"format": "template"`. */
  readonly with?: string
  readonly recoveries?: Recoveries<Config>
  /** Reports whether the sink changes the message of an alert while the alert lasts. If absent, it never does. */
  updates?(config: Config): boolean
  /** Reports whether each alert is an incident of its own at the service. If absent, none is. */
  incidents?(config: Config): boolean
  /** Returns the config of a sink with digests. `key` is the template of the key that the events of a digest share. */
  ofDigests?(config: Config, key: string): Config
}

/** The facts about a type of sink that concern its config. */
export interface ConfiguredType<Config> {
  /** The type's own keys, each with its traits (`config/schema/Keys.ts`). The keys that every sink has are added. */
  readonly config: Schema.Codec<Config, unknown>
  /** The default of the maximum batches in flight. */
  readonly concurrency: number
  /** The time that the protocol needs for an attempt, such as `12 minutes`, and the source of it. The default is 10 seconds. */
  readonly timeout?: { readonly value: `${number} ${"seconds" | "minutes"}`; readonly because: string }
  readonly messages?: Messages<Config>
  /** Lists parts of a config that are allowed but probably not intended. */
  doubts?(config: Config): ReadonlyArray<Doubt>
}

/** A part of a sink's config that is probably not intended. */
export interface Doubt {
  /** The path within the sink. */
  readonly path: Path
  readonly message: string
  readonly hint: string
}

/** The types of sinks by the name in a sink's `type`. */
export type ConfiguredTypes = Readonly<Record<string, ConfiguredType<unknown>>>

/** All types that a config may name. */
export interface Types {
  readonly sinkTypes: ConfiguredTypes
  readonly journalTypes: JournalTypes
}

const file = written(ConfigFile)
const lane = written(Lane)

/** Returns the type of a sink, or `undefined` if it doesn't exist. */
export const typeOf = (sink: unknown, { sinkTypes }: Pick<Types, "sinkTypes">): ConfiguredType<unknown> | undefined => {
  const { type } = fields(sink)
  return typeof type === "string" && Object.hasOwn(sinkTypes, type) ? sinkTypes[type] : undefined
}

/** Returns the schemas of a sink in the file: the keys of its type, and the keys of every sink. */
const schemasOf = (sink: unknown, types: Pick<Types, "sinkTypes">): ReadonlyArray<SchemaAST.AST> => {
  const type = typeOf(sink, types)
  return type === undefined ? [lane] : [written(type.config), lane]
}

/** Visits each value of the sinks that has a schema. */
export const visitSinks = (config: Fields, types: Pick<Types, "sinkTypes">, on: Visitor): void => {
  for (const [name, sink] of Object.entries(fields(config.sinks))) {
    const schemas = schemasOf(sink, types)
    for (const [key, value] of Object.entries(fields(sink))) {
      const schema = schemas.map((one) => partOf(one, key)).find((part) => part !== undefined)
      if (schema !== undefined) visit(schema, value, ["sinks", name, key], on)
    }
  }
}

/** Returns the schema of the journal in the file. */
export const writtenJournal = (config: unknown, { journalTypes }: Types): SchemaAST.AST =>
  written(journalSchema(String(valueAt(config, ["journal", "type"])), journalTypes))

/** Returns the schema of the section that a path is in, and the path within it. */
const placeOf = (path: Path, config: unknown, types: Types): readonly [SchemaAST.AST | undefined, Path] => {
  const [first, name = "", key] = path
  if (first === "journal") return [writtenJournal(config, types), path.slice(1)]
  if (first !== "sinks" || key === undefined) return [file, path]
  const schemas = schemasOf(valueAt(config, [first, name]), types)
  return [schemas.find((one) => partOf(one, key) !== undefined), path.slice(2)]
}

/**
 * Returns the schema of the value at a path of the file, or `undefined` if no value is allowed there or the sink's type
 * is unknown.
 */
export const schemaAt =
  (types: Types) =>
  (path: Path, config: unknown): SchemaAST.AST | undefined => {
    const [root, rest] = placeOf(path, config, types)
    return rest.reduce<SchemaAST.AST | undefined>((ast, key) => ast && partOf(ast, key), root)
  }

/** Reports whether a diagnostic may show the value at a path. Its schema must allow it. */
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
