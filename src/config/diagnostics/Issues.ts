/**
 * Turns the issues of `Schema` into findings, which name the position, the expected
 * value, and the value that was probably meant.
 *
 * **Gotcha.** A message never repeats a value of the file, because it may be a
 * resolved secret. It names the value's kind.
 */
import { Result, Schema, SchemaAST, type SchemaIssue } from "effect"
import { nearest } from "../../event/Nearest.ts"
import * as Numbers from "../../event/Numbers.ts"
import { type Path, valueAt } from "../Fields.ts"
import { describe, meantBy, partOf, placeOf, written } from "../schema/Traits.ts"
import { error, errorAtKey, type Finding } from "./Source.ts"

const names = (ast: SchemaAST.AST): ReadonlyArray<string> =>
  ast._tag === "Objects" ? ast.propertySignatures.map((signature) => String(signature.name)) : []

/** Returns the keys that the object may have in the file. For a union, returns the keys of all members. */
export const keysOf = (schema: Schema.ConstraintDecoder<unknown>): ReadonlyArray<string> => {
  const collect = (ast: SchemaAST.AST): ReadonlyArray<string> =>
    ast._tag === "Union" ? ast.types.flatMap(collect) : names(ast)
  return [...new Set(collect(SchemaAST.toEncoded(schema.ast)))]
}

const literals = (ast: SchemaAST.AST): ReadonlyArray<string> =>
  ast._tag === "Union" ? ast.types.flatMap((type) => (type._tag === "Literal" ? [String(type.literal)] : [])) : []

const list = (words: ReadonlyArray<string>): string =>
  words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} or ${words.at(-1)}`

const quoted = (word: string): string => `"${word}"`

/** Returns `did you mean "x"?`. If no choice is similar, returns the choices that are `listed`. */
export const didYouMean = (
  given: string,
  choice: ReadonlyArray<string>,
  what: string,
  listed = choice,
): string | undefined => {
  const near = nearest(given, choice)
  if (near !== undefined) return `did you mean ${quoted(near)}?`
  return listed.length === 0 ? undefined : `${what}: ${listed.join(", ")}`
}

const kinds: Readonly<Record<string, string>> = {
  String: "text in double quotes",
  Number: "a number",
  Boolean: "true or false",
  Objects: "an object: { … }",
  Arrays: "a list: [ … ]",
  Null: "null",
}

/** Reports whether the library's words for a check say less than ours. */
const isGeneric = (words: string): boolean => /^(a (string|value)|an integer)\b/.test(words)

/** Describes the values that a schema expects: its own words, or the kind of JSON value. */
const expected = (ast: SchemaAST.AST): string => {
  const all = [ast.annotations?.expected, ...(ast.checks ?? []).map((check) => check.annotations?.expected)]
  const found = all.findLast((words) => typeof words === "string" && !isGeneric(words))
  if (typeof found === "string") return found
  const choice = literals(ast)
  if (choice.length > 0) return list(choice.map(quoted))
  if (ast._tag === "Union") return list([...new Set(ast.types.map(expected))])
  return kinds[ast._tag] ?? "another kind of value"
}

const annotated = (annotations: object | undefined): string | undefined => {
  if (annotations === undefined || !("message" in annotations)) return undefined
  return typeof annotations.message === "string" ? annotations.message : undefined
}

const kindOf = (value: unknown): string => {
  if (value === null) return "null"
  if (Array.isArray(value)) return "a list"
  if (typeof value === "object" && Numbers.isNumber(value)) return "a number"
  if (typeof value === "object") return "an object"
  return typeof value === "string" ? "text" : typeof value === "boolean" ? String(value) : "a number"
}

/** A finding, with the key that is missing or was probably meant. */
interface Told extends Finding {
  readonly misses?: string
  readonly means?: string
}

/** Returns a hint about the syntax or the keys of the expected object or list. */
const shapeOf = (ast: SchemaAST.AST, value: unknown): string | undefined => {
  if (ast._tag === "Arrays") {
    const [item] = ast.rest
    if (item?._tag === "Objects") {
      const required = item.propertySignatures.filter(({ type }) => !SchemaAST.isOptional(type))
      return `it is written [{ ${required.map(({ name }) => `${quoted(String(name))}: …`).join(", ")} }]`
    }
    return typeof value === "string" && value.includes(",")
      ? 'each in its own quotes: ["…", "…"]'
      : 'it is written ["…"]'
  }
  if (ast._tag !== "Objects") return undefined
  const keys = names(ast)
  return keys.length > 0 ? `its keys are: ${keys.join(", ")}` : 'it is written by name: { "…": … }'
}

/** Says how to correct a value of the wrong kind. */
const mending = (ast: SchemaAST.AST, value: unknown): string | undefined => {
  const { hint, description } = describe(ast)
  if (hint !== undefined) return hint
  if (ast._tag === "Number" && typeof value === "string" && value.trim() !== "" && !Number.isNaN(Number(value)))
    return "write the number itself, without quotes"
  if (ast._tag === "Boolean" && typeof value === "string") return "without quotes: true or false"
  if (ast._tag === "String" && (typeof value === "number" || typeof value === "boolean"))
    return 'put it in double quotes: "…"'
  if (
    ast._tag === "Objects" &&
    value === true &&
    ast.propertySignatures.every(({ type }) => SchemaAST.isOptional(type))
  )
    return `{} uses the defaults; its keys are: ${names(ast).join(", ")}`
  return shapeOf(ast, value) ?? description
}

/** Reports whether a member of a union expects another kind of value. The library tries a declaration with values of every kind. */
const isOfOtherKind = (issue: SchemaIssue.Issue): boolean => {
  if (issue._tag === "AnyOf") return issue.issues.length > 0 && issue.issues.every(isOfOtherKind)
  return issue._tag === "InvalidType" && issue.ast._tag === "Declaration"
}

/** Flattens an issue. `root` is the decoded value. Messages show only its kind, or a mistyped choice. */
const flatten = (
  issue: SchemaIssue.Issue,
  path: Path,
  root: unknown,
  schema: SchemaAST.AST,
  outerMessage?: string,
): ReadonlyArray<Told> => {
  const schemaAt = (at: Path) => at.reduce<SchemaAST.AST | undefined>((ast, key) => ast && partOf(ast, key), schema)
  const wanted = (ast: SchemaAST.AST): ReadonlyArray<Told> => {
    const value = valueAt(root, path)
    const message = outerMessage ?? `expected ${expected(ast)}, found ${kindOf(value)}`
    return [error(path, message, mending(schemaAt(path) ?? ast, value))]
  }
  const inside = (one: SchemaIssue.Issue) => flatten(one, path, root, schema, outerMessage)
  switch (issue._tag) {
    case "Pointer": {
      const inner = issue.path.map((key) => (typeof key === "number" ? key : String(key)))
      if (issue.issue._tag === "UnexpectedKey" && typeof inner.at(-1) === "string") {
        const given = String(inner.at(-1))
        const known = names(issue.issue.ast)
        const at = [...path, ...inner.slice(0, -1)]
        const object = schemaAt(at)
        const meant = object && meantBy(object, given)
        const hint = meant?.hint ?? placeOf(schema, at, given) ?? didYouMean(given, known, "the keys here are")
        const found = errorAtKey([...path, ...inner], `unknown key ${quoted(given)}`, hint)
        const key = meant?.key ?? nearest(given, known)
        return [key === undefined ? found : { ...found, means: JSON.stringify([...at, key]) }]
      }
      return flatten(issue.issue, [...path, ...inner], root, schema, outerMessage)
    }
    case "Composite":
      return issue.issues.flatMap(inside)
    case "AnyOf": {
      const choice = literals(issue.ast)
      const given = valueAt(root, path)
      if (choice.length > 0 && typeof given === "string") {
        const near = nearest(given, choice)
        return [error(path, `expected ${list(choice.map(quoted))}`, near && `did you mean ${quoted(near)}?`)]
      }
      // If the kind fits only one member, its issues are more precise than the union's.
      const fitting = issue.issues.filter((one) => !isOfOtherKind(one))
      if (fitting.length === 1) return fitting.flatMap(inside)
      return wanted(issue.ast)
    }
    case "Encoding":
      return inside(issue.issue)
    case "Filter": {
      const { annotations } = issue.filter
      const wanted = annotations?.expected === "an integer" ? "a whole number" : annotations?.expected
      const own = issue.issue._tag === "InvalidValue" ? annotated(issue.issue.annotations) : undefined
      const words =
        outerMessage ?? annotated(annotations) ?? own ?? (wanted === undefined ? undefined : `expected ${wanted}`)
      return flatten(issue.issue, path, root, schema, words)
    }
    case "MissingKey": {
      const what = schemaAt(path)
      const key = quoted(String(path.at(-1) ?? ""))
      const hint = what && (shapeOf(what, undefined) ?? describe(what).description)
      const found = error(path, `the key ${key} is missing`, hint)
      return [{ ...found, misses: JSON.stringify(path) }]
    }
    case "InvalidType":
      return wanted(issue.ast)
    case "InvalidValue":
      return [error(path, outerMessage ?? annotated(issue.annotations) ?? "this value can't be used here")]
    case "UnexpectedKey":
    case "Forbidden":
    case "OneOf":
      return [error(path, outerMessage ?? "this is not allowed here")]
  }
}

/** A part of the config, or the findings about it. */
export interface Decoded<A> {
  readonly value?: A
  readonly findings: ReadonlyArray<Finding>
}

/** Decodes the value at `path` of the file. */
export const decode = <A>(schema: Schema.ConstraintDecoder<A>, value: unknown, path: Path): Decoded<A> => {
  const decoded = Schema.decodeUnknownResult(schema, { errors: "all", onExcessProperty: "error" })(value)
  if (Result.isSuccess(decoded)) return { value: decoded.success, findings: [] }
  const all = flatten(decoded.failure.issue, [], value, written(schema))
  // A key that is misspelled is not missing as well.
  const meant = new Set(all.map(({ means }) => means))
  const findings = all.flatMap(({ misses, means: _, ...finding }) =>
    misses !== undefined && meant.has(misses) ? [] : [{ ...finding, path: [...path, ...finding.path] }],
  )
  return { findings }
}
