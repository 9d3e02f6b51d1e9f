/** The schema of `"journal"`: its type, and the keys of that type. */
import { Effect, Schema } from "effect"

/** The part of a `JournalType` that a config needs. The first is the default. */
export type JournalTypes = Readonly<Record<string, { readonly config: Schema.Struct<Schema.Struct.Fields> }>>

/** An unknown type has the keys of the default; its `type` is refused. */
export const journalSchema = (type: string, journalTypes: JournalTypes) => {
  const types = Object.keys(journalTypes)
  const [usual = ""] = types
  const key = Schema.Literals(types).annotate({ description: "The kind of journal", default: usual })
  return Schema.Struct({
    type: key.pipe(Schema.withDecodingDefaultKey(Effect.succeed(usual))),
    ...journalTypes[Object.hasOwn(journalTypes, type) ? type : usual]?.config.fields,
  }).annotate({ description: "Storage of accepted events until every sink has them" })
}
