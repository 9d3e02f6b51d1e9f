import { describe, expect } from "bun:test"
import { Effect, Schema } from "effect"
import { parse } from "jsonc-parser"
import { embedded } from "../../../src/config/load/ConfigText.ts"
import { jsonSchema } from "../../../src/config/schema/JsonSchema.ts"
import { it } from "../../lib/effect.ts"
import { config, journalTypes, sinkTypes } from "../fixture.ts"
import { validate } from "../validate.ts"

const schema = jsonSchema({ sinkTypes, journalTypes })
const read = (text: string): unknown => parse(text, [], { allowTrailingComma: true })

describe("the JSON Schema", () => {
  it.effect("accepts the same configs as the relay, with references in place of words", () =>
    Effect.sync(() => {
      expect(validate(schema, read(config({})))).toEqual([])
      expect(validate(schema, read(embedded))).toEqual([])
      expect(
        validate(
          schema,
          read(
            config({
              listen: "${HOST}:${PORT}",
              journal: { maxSize: "${SIZE:-1 GiB}", retention: "file:retention" },
              sinks: { audit: { type: "http", url: "${URL}", rateLimit: { events: 1, per: "1 day" } } },
            }),
          ),
        ),
      ).toEqual([])
    }),
  )

  it.effect("knows a journal's keys by its type, and takes one without a type for the default", () =>
    Effect.sync(() => {
      const two = jsonSchema({
        sinkTypes,
        journalTypes: { ...journalTypes, other: { config: Schema.Struct({ size: Schema.Int }) } },
      })
      const journal = (value: object) => validate(two, read(config({ journal: value })))
      expect(journal({ path: "x" })).toEqual([])
      expect(journal({ type: "other", size: 1 })).toEqual([])
      expect(journal({ size: 1 })).not.toEqual([])
      expect(journal({ type: "sqlite", size: 1 })).not.toEqual([])
      expect(two).toMatchObject({ properties: { journal: { description: expect.stringContaining("events") } } })
    }),
  )

  it.effect("knows a sink's keys by its type, and no others", () =>
    Effect.sync(() => {
      const sink = (value: object) => validate(schema, read(config({ sinks: { audit: value } })))
      expect(sink({ type: "file", path: "x", concurrency: 4 })).toEqual([])
      expect(sink({ type: "file" })).not.toEqual([])
      expect(sink({ type: "file", path: "x", url: "http://x" })).not.toEqual([])
      expect(sink({ type: "http", url: "http://x" })).toEqual([])
      expect(sink({ type: "carrier-pigeon" })).not.toEqual([])
      expect(sink({ path: "x" })).not.toEqual([])
    }),
  )

  it.effect("refuses unknown keys and invalid words", () =>
    Effect.sync(() => {
      const refused = (parts: object) => validate(schema, read(config({ ...parts })))
      expect(refused({ lisen: "x" })).toEqual([".lisen: unknown key"])
      expect(refused({ listen: "localhost" })).toEqual([".listen: pattern"])
      expect(refused({ journal: { retention: "7d" } })).toEqual([".journal: anyOf"])
      expect(refused({ journal: { maxSize: "7 gigs" } })).toEqual([".journal: anyOf"])
      const one = jsonSchema({ sinkTypes, journalTypes: Object.fromEntries(Object.entries(journalTypes).slice(0, 1)) })
      expect(validate(one, read(config({ journal: { retention: "7d" } })))).toEqual([".journal.retention: pattern"])
      expect(validate(one, read(config({ journal: { maxSize: "7 gigs" } })))).toEqual([".journal.maxSize: pattern"])
      expect(refused({ delivery: { retry: { maxAttempts: 0 } } })).not.toEqual([])
    }),
  )

  it.effect("carries descriptions, defaults and examples for an editor to show", () =>
    Effect.sync(() => {
      expect(schema).toMatchObject({
        $schema: "https://json-schema.org/draft/2020-12/schema",
        additionalProperties: false,
        properties: {
          listen: { description: "Address or Unix socket that receives deliveries", default: "127.0.0.1:8080" },
          journal: {
            anyOf: expect.arrayContaining([
              expect.objectContaining({
                properties: expect.objectContaining({
                  retention: expect.objectContaining({
                    default: "7 days",
                    examples: expect.arrayContaining(["30 seconds"]),
                  }),
                }),
              }),
            ]),
          },
        },
        $defs: { sink: { properties: { type: { enum: ["console", "file", "chat", "http"] } } } },
      })
    }),
  )
})
