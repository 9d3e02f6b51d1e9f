/** Numbers at every numeric key in the config's JSON Schema: none may be negative or infinite. */
import { describe, expect, test } from "bun:test"
import { Effect } from "effect"
import { load } from "../../../src/config/load/Load.ts"
import { jsonSchema } from "../../../src/config/schema/JsonSchema.ts"
import { journalTypes } from "../../../src/journal/Journals.ts"
import { sinkTypes } from "../../../src/sinks/SinkTypes.ts"
import { it } from "../../lib/effect.ts"
import { options } from "../fixture.ts"

type Json = Readonly<Record<string, unknown>>
const fields = (value: unknown): Json => (value === null || typeof value !== "object" ? {} : (value as Json))
const list = (value: unknown): ReadonlyArray<unknown> => (Array.isArray(value) ? value : [])

const schema = fields(jsonSchema({ sinkTypes, journalTypes }))

/** A key with a quantity, and the keys beside it that say which type of sink or journal has it. */
interface Key {
  readonly path: ReadonlyArray<string>
  readonly types: ReadonlyArray<readonly [path: ReadonlyArray<string>, type: unknown]>
  readonly schema: Json
  /** The key, if it takes several kinds of values and this is one of them. */
  readonly choice?: ReadonlyArray<string> | undefined
}

/** All keys below a schema that have a number, or a text that a pattern restricts. */
const keysOf = (value: unknown, { path, types, choice }: Omit<Key, "schema">): ReadonlyArray<Key> => {
  const { $ref, ...found } = fields(value)
  if (typeof $ref === "string") {
    return keysOf(fields(schema.$defs)[$ref.slice("#/$defs/".length)], { path, types, choice })
  }
  const properties = fields(found.properties)
  const { const: type, anyOf } = fields(properties.type)
  const [named = type] = list(fields(list(anyOf)[0]).enum)
  const isQuantity = found.type === "integer" || found.type === "number" || typeof found.pattern === "string"
  // Sinks of all types are in one config.
  const at = named !== undefined && path[0] === "sinks" ? ["sinks", String(named)] : path
  const own = named === undefined ? types : [...types, [at, named] as const]
  const below = (key: string, one: unknown) => keysOf(one, { path: [...at, key], types: own, choice })
  return [
    ...(isQuantity ? [{ path, types, choice, schema: found }] : []),
    // A condition compares its numbers with an event's, so they may have any value.
    ...Object.entries(properties).flatMap(([key, one]) => (key === "where" ? [] : below(key, one))),
    ...(Object.keys(fields(found.additionalProperties)).length === 0 ? [] : below("one", found.additionalProperties)),
    ...(found.items === undefined ? [] : below("0", found.items)),
    ...[...list(found.anyOf), ...list(found.oneOf)].flatMap((one) => {
      const isOfType = fields(fields(one).properties).type !== undefined || fields(one).$ref !== undefined
      return keysOf(one, { path, types: own, choice: isOfType ? choice : path })
    }),
  ]
}

const huge = "9".repeat(400)
const words = [
  ["1 second", ["-1 seconds", "-1s", "-0.5 millis", "999999999999 weeks", `${huge} weeks`, "Infinity", "-Infinity"]],
  ["1 MiB", ["-1 MiB", "-1", "0 B", "99999999999 TiB", `${huge} B`, "Infinity", "NaN"]],
  ["1/second", ["-1/second", "0/second", `${huge}/second`, "Infinity/second"]],
] as const

/** Returns values, as JSON, that the key must refuse. Empty if the key isn't a quantity. */
const wrongOf = ({ path, schema: { type, pattern, minimum, maximum } }: Key): ReadonlyArray<string> => {
  if (type === "integer") return ["-1", "1e999", "-1e999", `${Number(minimum) - 1}`, `${Number(maximum) + 1}`, "2.5"]
  if (type === "number") return ["-1", "1e999", "-1e999"]
  const isOf = (text: string): boolean => new RegExp(String(pattern)).test(text)
  const [, wrong = []] = words.find(([right]) => isOf(right) && !isOf("text")) ?? []
  const isWait = path[0] === "drain"
  return [...wrong, ...(wrong === words[0][1] && !isWait ? ["0 seconds"] : [])].map((text) => JSON.stringify(text))
}

interface Mistake {
  readonly key: Key
  /** As JSON. */
  readonly value: string
}

type Node = { [key: string]: Node | string }

/** Puts a value at a path. Returns false if the file has another value there. */
const put = (file: Node, path: Key["path"], value: string): boolean => {
  let at = file
  for (const key of path.slice(0, -1)) {
    at[key] ??= {}
    const next = at[key]
    if (typeof next === "string") return false
    at = next
  }
  const last = path.at(-1) ?? ""
  at[last] ??= value
  return at[last] === value
}

const json = (node: Node | string): string => {
  if (typeof node === "string") return node
  const parts = Object.entries(node).map(([key, one]) => [JSON.stringify(key), json(one)] as const)
  return node["0"] === undefined
    ? `{${parts.map(([key, one]) => `${key}:${one}`)}}`
    : `[${parts.map(([, one]) => one)}]`
}

/** Returns a config with as many mistakes as fit together, and the remaining mistakes. */
const together = (mistakes: ReadonlyArray<Mistake>) => {
  const file: Node = {}
  const isPut = ({ key: { path, types }, value }: Mistake): boolean => {
    const typed = types.every(([place, type]) => put(file, [...place, "type"], JSON.stringify(type)))
    return typed && put(file, path, value)
  }
  const { here = [], later = [] } = Object.groupBy(mistakes, (one) => (isPut(one) ? "here" : "later"))
  return { text: json(file), here, later }
}

const nameOf = (path: Key["path"]): string => path.join(".").replaceAll(/\.0(?=\.|$)/g, "[0]")
const keys = keysOf(schema, { path: [], types: [] }).filter((key) => wrongOf(key).length > 0)

describe("a quantity", () => {
  test("has limits under every key", () => {
    expect(keys.length).toBeGreaterThan(150)
    const withoutLimits = keys.filter(
      ({ schema: { type, minimum, maximum } }) => type !== "string" && (minimum === undefined || maximum === undefined),
    )
    expect(withoutLimits.map(({ path }) => nameOf(path))).toEqual([])
  })

  it.effect("is refused at its key if it is negative, without end or out of its limits, in plain words", function* () {
    const all = keys.flatMap((key) => wrongOf(key).map((value): Mistake => ({ key, value })))
    for (let left: ReadonlyArray<Mistake> = all; left.length > 0; ) {
      const { text, here, later } = together(left)
      left = later
      const context = { ...options({ "relay.config.json": text }), sinkTypes, journalTypes }
      const { diagnostics } = yield* Effect.flip(load("relay.config.json", context))
      const told = Map.groupBy(diagnostics, ({ key }) => key)
      for (const { key, value } of here) {
        const places = [key.path, ...(key.choice === undefined ? [] : [key.choice])].map(nameOf)
        const messages = places.flatMap((place) => told.get(place) ?? []).map(({ message }) => message)
        expect([places[0], value, messages.length > 0]).toEqual([places[0], value, true])
        expect(messages.join()).not.toMatch(/undefined|NaN|\[object|internal error|unknown key/)
      }
    }
  })
})
