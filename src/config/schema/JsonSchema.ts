/**
 * The JSON Schema of `relay.config.json` for editors, generated from the schemas
 * that decode the config.
 *
 * It accepts more than the relay does. A text may be a reference (`${VAR}`,
 * `file:PATH`) instead of a duration, and only the relay checks the rules between parts
 * of the file.
 */
import { Predicate, Schema } from "effect"
import { fields, items, type Fields as Json } from "../Fields.ts"
import { ConfigFile, Lane } from "./ConfigFile.ts"
import { journalSchema, type Types } from "./ConfiguredTypes.ts"

const generate = (schema: Schema.Constraint): { readonly schema: Json; readonly definitions: Json } =>
  Schema.toJsonSchemaDocument(schema, { onExcessProperty: "error" })

/** Rewrites a schema and all schemas in it, inner ones first. */
const rewrite = (value: unknown, change: (schema: Json) => Json): unknown => {
  if (Array.isArray(value)) return value.map((item) => rewrite(item, change))
  if (!Predicate.isObject(value)) return value
  return change(Object.fromEntries(Object.entries(value).map(([key, item]) => [key, rewrite(item, change)])))
}

/** Lets a text with a pattern also be or contain a reference. */
const allowReferences = (schema: Json): Json =>
  typeof schema.pattern === "string" ? { ...schema, pattern: `${schema.pattern}|\\$\\{|^file:` } : schema

/** Removes the default. A sink's `delivery` has none, because the common `delivery` is its default. */
const withoutDefault = ({ default: _, ...schema }: Json): Json => schema

/** Returns the schemas of a type of sink. An object has its own keys and the keys of every sink, so that other keys are refused. */
const sinkSchemas = (type: string, own: Json): ReadonlyArray<Json> => {
  const either = own.anyOf ?? own.oneOf
  const members = Array.isArray(either) ? either : [own]
  const lane = fields(generate(Lane).schema.properties)
  return members.map((member) => {
    const { properties, required, ...rest } = fields(member)
    const { type: _, ...keys } = fields(properties)
    return {
      // The schema of a type without its own keys doesn't say that it is an object.
      ...(rest.type === "object" ? rest : { type: "object" }),
      properties: {
        type: { const: type, description: "The kind of sink" },
        ...keys,
        ...lane,
        delivery: rewrite(lane.delivery, withoutDefault),
      },
      required: [...new Set(["type", ...items(required)])],
      additionalProperties: false,
    }
  })
}

/** Makes `type` required, for a type of journal that isn't the default. */
const namedJournal = (own: Json): Json => {
  const properties = fields(own.properties)
  return {
    ...own,
    properties: { ...properties, type: withoutDefault(fields(properties.type)) },
    required: ["type", ...items(own.required)],
  }
}

/** Returns the JSON Schema (draft 2020-12) of a config with these types of sinks and journals. */
export const jsonSchema = ({ sinkTypes, journalTypes }: Types): object => {
  const { schema, definitions } = generate(ConfigFile)
  const types = Object.keys(sinkTypes)
  const defs: Record<string, unknown> = { ...definitions }
  for (const [type, { config }] of Object.entries(sinkTypes)) {
    const own = generate(config)
    Object.assign(defs, own.definitions)
    const members = sinkSchemas(type, own.schema)
    defs[`sink.${type}`] = members.length === 1 ? members[0] : { anyOf: members }
  }
  defs.sink = {
    description: "A sink: its type decides which keys it has",
    type: "object",
    properties: { type: { enum: types, description: "The kind of sink" } },
    required: ["type"],
    oneOf: types.map((type) => ({ $ref: `#/$defs/sink.${type}` })),
  }
  const journals = Object.entries(journalTypes).map(([type, journalType], index) => {
    const own = generate(journalSchema(type, { [type]: journalType }))
    Object.assign(defs, own.definitions)
    return index === 0 ? own.schema : namedJournal(own.schema)
  })
  const properties: Json = {
    ...fields(schema.properties),
    journal: journals.length === 1 ? journals[0] : { description: journals[0]?.description, anyOf: journals },
  }
  const sinks = { ...fields(properties.sinks), additionalProperties: { $ref: "#/$defs/sink" } }
  const whole = { ...schema, properties: { ...properties, sinks }, $defs: defs }
  return { $schema: "https://json-schema.org/draft/2020-12/schema", ...fields(rewrite(whole, allowReferences)) }
}

/** Renders the text of `config/relay.schema.json`. */
export const jsonSchemaText = (types: Types): string => `${JSON.stringify(jsonSchema(types), null, 2)}\n`
