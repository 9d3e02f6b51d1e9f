/** Rules for sinks, and for the client details that they ask for. */
import * as Pointer from "../../event/Pointer.ts"
import * as Jmespath from "../../formats/jmespath/Jmespath.ts"
import * as Template from "../../formats/Template.ts"
import * as Pattern from "../../routing/Pattern.ts"
import { error, errorAtKey, type Finding, formatPath, type Path, warning, warningAtKey } from "../diagnostics/Source.ts"
import { type Fields, fields } from "../Fields.ts"
import { type Types, visitSinks, writtenJournal } from "../schema/ConfiguredTypes.ts"
import { headerNamePattern } from "../schema/Keys.ts"
import { ownFiles, traitOf } from "../schema/Traits.ts"
import { constantRules, unfilledRules } from "./ConstantRules.ts"
import { deepTexts, nameRules, repeated, texts } from "./Shape.ts"
import { shapeRules } from "./ShapeRules.ts"
import { listeners, ownAddressRules, serviceRules } from "./UrlRules.ts"

const isJson = (text: string): boolean => {
  if (!/^\s*[{[]/.test(text)) return false
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

const templateRules = (value: unknown, path: Path): ReadonlyArray<Finding> => {
  if (Jmespath.isShape(value)) return shapeRules(value, path)
  if (path.at(-1) === "body" && typeof value === "string" && isJson(Template.withoutPlaceholders(value, "0"))) {
    const hint = 'write the JSON itself, without the quotes around it: "body": { "text": "{{type}}" }'
    return [warning(path, "this is JSON in a text, so receivers get a JSON string and no object", hint)]
  }
  return deepTexts(value, path).flatMap(({ path, text }) => {
    const problem = Template.problem(text)
    if (problem !== undefined) return [error(path, problem)]
    const unfilled = Template.unfilled(text)
    if (unfilled === undefined) return constantRules(text, path)
    const { written, field } = unfilled
    return [warning(path, `{${written}} is not filled in`, `a placeholder has two braces: {{${field}}}`)]
  })
}

const headerRules = (headers: Fields, at: Path): ReadonlyArray<Finding> =>
  Object.keys(headers).flatMap((header) =>
    headerNamePattern.test(header)
      ? []
      : [errorAtKey([...at, header], "this is no header name", "letters, digits and dashes")],
  )

/** Keys that go together, such as the two files of a client certificate. */
const togetherRules = (keys: ReadonlyArray<string>, value: Fields, at: Path): ReadonlyArray<Finding> => {
  const missing = keys.filter((key) => value[key] === undefined)
  if (missing.length === keys.length) return []
  return missing.map((key) =>
    error([...at, key], `the key "${key}" is missing`, `${keys.map((one) => `"${one}"`).join(" and ")} go together`),
  )
}

/** Rules that follow from what the schemas say of the values. */
const traitRules = (root: Fields, types: Types): ReadonlyArray<Finding> => {
  const found: Array<Finding> = []
  const own = listeners(root)
  visitSinks(root, types, (schema, value, path) => {
    if (traitOf(schema, "postsTo") === true) found.push(...ownAddressRules(value, path, own))
    const hosts = traitOf(schema, "hosts")
    if (hosts !== undefined) {
      const [paths, retired] = [traitOf(schema, "paths") ?? [], traitOf(schema, "retired") ?? {}]
      found.push(...serviceRules(value, path, { hosts, paths, retired }))
    }
    const isTemplate = traitOf(schema, "template") === true
    if (isTemplate) found.push(...templateRules(value, path))
    else if (typeof value === "string" && schema._tag === "String" && traitOf(schema, "shown") === true) {
      if (path.at(-1) !== "jmespath") found.push(...unfilledRules(value, path))
    }
    if (traitOf(schema, "headerNames") === true) found.push(...headerRules(fields(value), path))
    found.push(...togetherRules(traitOf(schema, "together") ?? [], fields(value), path))
  })
  return found
}

const plain = (path: string): string => path.replaceAll(/\/(\.?\/)+/g, "/").replace(/^\.\//, "")

/** Tells which file a path leads to, because two names may be one file: the same text for the same file. */
export interface FileIdentity {
  readonly fileOf?: (path: string) => string
}

/** Each file has one writer: two would damage each other's lines, or the journal. */
export const fileRules = (root: Fields, types: Types & FileIdentity): ReadonlyArray<Finding> => {
  const { fileOf = plain } = types
  const journal = fields(root.journal)
  const files = ownFiles(writtenJournal(root, types)).flatMap(([key, usual, beside]) =>
    texts(journal[key] ?? usual, ["journal", key]).flatMap(({ path, text }) =>
      ["", ...beside].map((suffix) => ({ path, text: text + suffix, suffix })),
    ),
  )
  visitSinks(root, types, (schema, value, path) => {
    if (traitOf(schema, "ownFile") === true) files.push(...texts(value, path).map((one) => ({ ...one, suffix: "" })))
  })
  return repeated(files, ({ text }) => fileOf(text)).map(([again, first]) =>
    error(
      again.path,
      first.suffix === ""
        ? `${formatPath(first.path)} is the same file`
        : `this is a file of the journal's own: that of ${formatPath(first.path)} with ${first.suffix}`,
      "give each a file of its own",
    ),
  )
}

export const sinkRules = (root: Fields, types: Types): ReadonlyArray<Finding> => {
  const sinks = fields(root.sinks)
  const adopted = Object.entries(sinks).flatMap(([name, sink]) =>
    texts(fields(sink).renamedFrom, ["sinks", name, "renamedFrom"]),
  )
  const kept = adopted.filter(({ text }) => Object.hasOwn(sinks, text))
  return [
    ...Object.keys(sinks).flatMap((name) => nameRules(name, ["sinks", name], "sink")),
    ...traitRules(root, types),
    ...kept.map(({ path, text }) =>
      error(path, `the sink "${text}" still exists, so nothing was renamed`, "remove this key, or the other sink"),
    ),
    ...repeated(adopted, ({ text }) => text).map(([again, first]) =>
      error(
        again.path,
        `${formatPath(first.path)} takes over the same sink`,
        "only one can take over what is pending there",
      ),
    ),
  ]
}

/** Client details need an API, and valid patterns and pointers. */
export const clientRules = (root: Fields): ReadonlyArray<Finding> => {
  const asking = Object.entries(fields(root.sinks)).filter(([, sink]) => fields(sink).enrich !== undefined)
  if (root.clients === undefined) {
    const hint = 'add the sender\'s API: "clients": { "baseUrl": "https://…" }'
    return asking.map(([name]) =>
      errorAtKey(["sinks", name, "enrich"], '"enrich" requires "clients", which is missing', hint),
    )
  }
  const events = Object.entries(fields(fields(root.clients).events)).flatMap(([pattern, pointer]) => {
    const at: Path = ["clients", "events", pattern]
    const problem = Pattern.problem(pattern)
    return [
      ...(problem === undefined ? [] : [errorAtKey(at, problem)]),
      ...(typeof pointer === "string" && Pointer.parse(pointer) === undefined
        ? [error(at, "this is no JSON Pointer", "such as /data/object/client_id")]
        : []),
    ]
  })
  if (asking.length > 0) return events
  const hint = 'add "enrich": "deliver" to a sink, or remove "clients"'
  return [...events, warningAtKey(["clients"], "no sink asks for client details", hint)]
}
