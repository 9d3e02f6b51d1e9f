/**
 * The reference below `docs/reference`: its tables and the pages of the sinks. The tables are made from the JSON
 * Schema, with a row for each key that shows its type, default and meaning. The page of a sink type is made from
 * the `<type>.md` beside the sink's code and its table.
 * A table follows the mark `<!-- keys: listen tls -->`. The table of a journal type follows `<!-- journal: sqlite -->`,
 * and the catalogue of event types follows `<!-- event types -->`.
 *
 * After a change of a schema or a note: bun test/docs/reference.ts
 */
import { readFileSync, writeFileSync } from "node:fs"
import { jsonSchema, jsonSchemaText } from "../../src/config/schema/JsonSchema.ts"
import { eventTypes } from "../../src/event/EventType.ts"
import { journalTypes } from "../../src/journal/Journals.ts"
import { sinkTypes } from "../../src/sinks/SinkTypes.ts"
import { pagesBelow, readPage } from "../lib/docs.ts"

type Json = Readonly<Record<string, unknown>>

const isJson = (value: unknown): value is Json => typeof value === "object" && value !== null && !Array.isArray(value)
const fields = (value: unknown): Json => (isJson(value) ? value : {})
const list = (value: unknown): ReadonlyArray<unknown> => (Array.isArray(value) ? value : [])
const code = (value: unknown): string => `\`${typeof value === "string" ? value : JSON.stringify(value)}\``

const words: ReadonlyArray<readonly [start: string, word: string]> = [
  ["^\\d+(\\.\\d+)? (millis", "duration"],
  ["^\\d+(\\.\\d+)? ?(B", "size"],
  ["^(\\[[0-9A-Fa-f:.]+\\]", "address"],
  ["^[1-9]\\d*/(second", "rate"],
  ["^\\d{4}-", "time"],
  ["^([01]\\d|2[0-3]):", "hours"],
]

const kind = (schema: Json): string => {
  const { type, pattern, minimum, maximum, items } = schema
  if (Array.isArray(schema.enum)) return schema.enum.map(code).join(", ")
  if (schema.const !== undefined) return code(schema.const)
  const either = list(schema.anyOf)
  if (either.length > 0) return [...new Set(either.map((one) => kind(fields(one))))].join(" or ")
  if (type === "integer") return minimum === undefined ? "number" : `number, ${minimum} to ${maximum}`
  if (type === "array") return `list of ${kind(fields(items))}`
  if (type === "string") return words.find(([start]) => String(pattern).startsWith(start))?.[1] ?? "text"
  return type === undefined ? "any" : String(type)
}

const row = (path: string, schema: Json, required: boolean): string => {
  const fallback = required ? "required" : schema.default === undefined ? "" : code(schema.default)
  return `| ${code(path)} | ${kind(schema).replaceAll("|", "\\|")} | ${fallback} | ${String(schema.description ?? "").replaceAll("|", "\\|")} |`
}

/** The rows of an object's keys, and of those below. */
const rowsOf = (schema: unknown, prefix: string): ReadonlyArray<string> => {
  const required = new Set(list(fields(schema).required))
  return Object.entries(fields(fields(schema).properties)).flatMap(([key, value]) => {
    const path = prefix === "" ? key : `${prefix}.${key}`
    const inner = fields(value)
    const below = [
      ...rowsOf(inner, path),
      ...rowsOf(inner.additionalProperties, `${path}.NAME`),
      ...list(fields(inner.additionalProperties).anyOf).flatMap((one) => rowsOf(one, `${path}.NAME`)),
      ...rowsOf(inner.items, `${path}[]`),
      ...list(inner.anyOf).flatMap((one) => rowsOf(one, path)),
    ]
    return [row(path, inner, required.has(key)), ...below]
  })
}

interface Section {
  readonly title: string
  readonly rows: ReadonlyArray<string>
}

/** Returns all sections: the file's own keys, the keys of every sink, and the keys of each type. */
export const sections = (schema: object): ReadonlyArray<Section> => {
  const definitions = fields(fields(schema).$defs)
  const types = Object.entries(definitions).filter(([name]) => name.startsWith("sink."))
  const each = types.map(([name, definition]) => {
    const type = name.slice("sink.".length)
    const members = list(fields(definition).anyOf)
    const all = (members.length === 0 ? [definition] : members).flatMap((member) => rowsOf(member, "sinks.NAME"))
    return { title: type, rows: [...new Set(all)] }
  })
  const isCommon = (path: string) => each.every(({ rows }) => rows.includes(path))
  return [
    { title: "the whole file", rows: rowsOf(schema, "") },
    { title: "every sink", rows: (each[0]?.rows ?? []).filter(isCommon) },
    ...each.map(({ title, rows }) => ({ title, rows: rows.filter((row) => !isCommon(row)) })),
  ]
}

/** Returns the rows of each type of journal, with the row of the key `journal` itself. */
const journals = (schema: object): ReadonlyMap<string, ReadonlyArray<string>> => {
  const journal = fields(fields(fields(schema).properties).journal)
  const members = list(journal.anyOf)
  const all = members.length === 0 ? [journal] : members
  const typeOf = (one: unknown) => kind(fields(fields(fields(one).properties).type)).replaceAll("`", "")
  return new Map(all.map((one) => [typeOf(one), [row("journal", journal, false), ...rowsOf(one, "journal")]]))
}

const head = ["| key | type | default | meaning |", "|---|---|---|---|"]
const sinks = new URL("../../src/sinks/", import.meta.url)

/** Returns the notes in a sink's folder, which has the name of the type. */
const notesOf = (type: string): string => {
  const file = [...new Bun.Glob(`**/${type}/${type}.md`).scanSync(sinks.pathname)][0]
  if (file === undefined) throw new Error(`a folder src/sinks/${type} with a ${type}.md is missing`)
  return readFileSync(new URL(file, sinks), "utf8").trim()
}

const marked = (mark: string, rows: ReadonlyArray<string>): string =>
  `<!-- ${mark} -->\n\n${[...head, ...rows].join("\n")}\n`

/** The event types, with a row for each object, such as `appointment.meeting`. */
const catalogue = (): string => {
  const objectOf = (type: string) => type.slice(0, type.lastIndexOf("."))
  const groups = Map.groupBy(eventTypes, objectOf)
  const rows = [...groups].map(([object, types]) => `| ${code(object)} | ${types.map(code).join(", ")} |\n`)
  return `<!-- event types -->\n\n| object | event types |\n|---|---|\n${rows.join("")}`
}

/** Returns the current pages of the reference by path, with their tables and the notes on sinks. */
export const renewed = (schema: object): ReadonlyMap<string, string> => {
  const [whole, everySink, ...types] = sections(schema)
  const ofJournals = journals(schema)
  const withTables = (text: string): string =>
    text.replaceAll(/<!-- (keys|sink|journal): (.*) -->\n\n*(?:\|.*\n)*/g, (_, kind: string, names: string) => {
      const keys = names.split(" ")
      const isNamed = (row: string) => keys.includes(/^\| `([^`.[]+)/.exec(row)?.[1] ?? "")
      const rows = { sink: everySink?.rows, journal: ofJournals.get(names) }[kind] ?? whole?.rows.filter(isNamed)
      return marked(`${kind}: ${names}`, rows ?? [])
    })
  const list = `<!-- sink types -->\n\n${types.map(({ title }) => `- [${title}](${title}.md)\n`).join("")}`
  const pageOf = (title: string) => `docs/reference/sinks/${title}.md`
  const generated = types.map(({ title, rows }): [string, string] => [
    pageOf(title),
    `# ${title}\n\n${notesOf(title)}\n\n${marked(`sink: ${title}`, rows)}`,
  ])
  const written = pagesBelow("docs/reference")
    .filter((path) => !path.startsWith("docs/reference/sinks/") || path.endsWith("README.md"))
    .map((path): [string, string] => [
      path,
      withTables(readPage(path))
        .replace(/<!-- sink types -->\n\n*(?:- .*\n)*/, list)
        .replace(/<!-- event types -->\n\n*(?:\|.*\n)*/, catalogue()),
    ])
  return new Map([...written, ...generated])
}

if (import.meta.main) {
  const file = (path: string) => new URL(`../../${path}`, import.meta.url)
  writeFileSync(file("config/relay.schema.json"), jsonSchemaText({ sinkTypes, journalTypes }))
  for (const [path, text] of renewed(jsonSchema({ sinkTypes, journalTypes }))) writeFileSync(file(path), text)
}
