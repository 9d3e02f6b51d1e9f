/** The contract of every type of sink, whatever it sends to: its config, its preview, and that it shows no secret. */
import { describe, expect } from "bun:test"
import { Effect, Result, Schema, type SchemaAST } from "effect"
import { load as loadConfig } from "../../src/config/load/Load.ts"
import { Lane } from "../../src/config/schema/ConfigFile.ts"
import { jsonSchema } from "../../src/config/schema/JsonSchema.ts"
import { partOf, traitOf, written as writtenSchema } from "../../src/config/schema/Traits.ts"
import type { Entry } from "../../src/event/Event.ts"
import { journalTypes } from "../../src/journal/Journals.ts"
import { sinkTypes } from "../../src/sinks/SinkTypes.ts"
import { validate } from "../config/validate.ts"
import { it } from "../lib/effect.ts"
import { canary, entry } from "./sinkEntries.ts"

/** A type of sink, and a config of it that is valid. */
export interface SinkTypeContract {
  /** The type's name in `Sinks.ts`. */
  readonly type: string
  /** A config as in a file, with all its secrets. Each secret contains the canary. */
  readonly config: Readonly<Record<string, unknown>>
  /** Whether the sink sends the trace of an event. */
  readonly carriesTrace?: boolean
}

const utf8 = new TextEncoder()

const fields = (value: unknown): Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null ? { ...value } : {}

/** Tests a type of sink. It opens none. */
export const sinkTypeContract = ({ type, config, carriesTrace = false }: SinkTypeContract): void => {
  describe(`the sink type ${type}`, () => {
    const sinkType = sinkTypes[type]
    if (sinkType === undefined) throw new Error(`a line for ${type} is missing in Sinks.ts`)
    const written = { type, ...config }
    const load = (sink: object) => {
      const text = JSON.stringify({
        webhooks: { hooks: { path: "/", secrets: [{ name: "now", value: "a secret of this test" }] } },
        sinks: { it: sink },
        routes: [{ name: "all", match: "**", to: ["it"] }],
      })
      const readFile = () => Effect.succeed(utf8.encode(text))
      return Effect.result(loadConfig("relay.config.json", { env: {}, readFile, sinkTypes, journalTypes }))
    }
    const preview = (entry: Entry) =>
      JSON.stringify(sinkType.preview(Schema.decodeUnknownSync(sinkType.config)(config), [entry]))

    it.effect("its config loads, and its JSON Schema accepts it", function* () {
      const loaded = yield* load(written)
      expect(Result.isFailure(loaded) ? loaded.failure.message : "").toBe("")
      const schema = fields(jsonSchema({ sinkTypes, journalTypes }))
      const own = { ...schema, ...fields(fields(schema.$defs)[`sink.${type}`]) }
      expect(validate(own, written)).toEqual([])
    })

    it.effect(
      "its config has no key that every sink has, but for `key` and `order` with the same meaning and default",
      () =>
        Effect.sync(() => {
          const shared = Object.keys(Lane.fields).filter((key) => partOf(writtenSchema(sinkType.config), key))
          expect(shared.filter((key) => key !== "key" && key !== "order")).toEqual([])
          const { key: _, order: __, ...others } = config
          const decoded = fields(Schema.decodeUnknownSync(sinkType.config)(others))
          const usual = fields(Schema.decodeUnknownSync(Lane)({}))
          expect(shared.map((key) => decoded[key])).toEqual(shared.map((key) => usual[key]))
        }),
    )

    it.effect("every text of its config is marked as shown or hidden", () =>
      Effect.sync(() => {
        const silent: Array<string> = []
        const look = (ast: SchemaAST.AST, at: string): void => {
          if (ast._tag === "String" && traitOf(ast, "shown") === undefined) silent.push(at)
          if (ast._tag === "Objects") {
            for (const { name, type } of ast.propertySignatures) look(type, `${at}.${String(name)}`)
            for (const { type } of ast.indexSignatures) look(type, `${at}.*`)
          }
          if (ast._tag === "Arrays") for (const type of [...ast.elements, ...ast.rest]) look(type, `${at}[]`)
          if (ast._tag === "Union") for (const type of ast.types) look(type, at)
        }
        look(writtenSchema(sinkType.config), type)
        expect(silent).toEqual([])
      }),
    )

    it.effect("no secret is in the messages about its config's mistakes, or in a preview", function* () {
      for (const key of ["unheard", ...Object.keys(config)]) {
        for (const value of [1, [canary], "{{"]) {
          const loaded = yield* load({ ...written, [key]: value })
          const told = Result.isFailure(loaded) ? loaded.failure.message : JSON.stringify(loaded.success.warnings)
          expect(told).not.toContain(canary)
        }
      }
      const shown = preview(entry(1, { body: utf8.encode('{"id":"evt_1"}') }))
      expect(shown).toContain("evt_1")
      expect(shown).not.toContain(canary)
    })

    if (carriesTrace) {
      it.effect("an event's trace is sent along, and nothing if the event has none", () =>
        Effect.sync(() => {
          const trace = { traceparent: `00-${"a".repeat(32)}-${"b".repeat(16)}-01`, tracestate: "vendor=1" }
          const shown = preview(entry(1, { trace }))
          expect(shown).toContain(trace.traceparent)
          expect(shown).toContain(trace.tracestate)
          expect(preview(entry(1))).not.toContain("trace")
        }),
      )
    }
  })
}
