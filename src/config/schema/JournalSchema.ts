/** The schema of `"journal"`: its type, and the keys of that type. */
import { Effect, Schema } from "effect"
import type { OtherNames } from "./Traits.ts"

/** The part of a `JournalType` that a config needs. The first is the default. */
export type JournalTypes = Readonly<Record<string, { readonly config: Schema.Struct<Schema.Struct.Fields> }>>

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
