/**
 * Turns the issues of `Schema` into findings: what was found, what is expected,
 * and what was probably meant.
 *
 * **Gotcha.** A message never repeats a value of the file, because it may be a
 * resolved secret. It names the value's kind.
 */
import { Result, Schema, SchemaAST, type SchemaIssue } from "effect"
import { nearest } from "../../routing/Pattern.ts"
import { error, type Finding, type Path } from "./Source.ts"

const names = (ast: SchemaAST.AST): ReadonlyArray<string> =>
  ast._tag === "Objects" ? ast.propertySignatures.map((signature) => String(signature.name)) : []

/** The keys that the object may have in the file; for a union, those of all members. */
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

/** `did you mean "x"?`, or all choices if none is near. */
export const didYouMean = (given: string, choice: ReadonlyArray<string>, what: string): string | undefined => {
  const near = nearest(given, choice)
  if (near !== undefined) return `did you mean ${quoted(near)}?`
  return choice.length === 0 ? undefined : `${what}: ${choice.join(", ")}`
}

const kinds: Readonly<Record<string, string>> = {
  String: "text in double quotes",
  Number: "a number",
  Boolean: "true or false",
  Objects: "an object: { … }",
  Arrays: "a list: [ … ]",
  Null: "null",
}

/** What a schema expects: its own description, or the kind of JSON value. */
const expected = (ast: SchemaAST.AST): string => {
  const said = ast.annotations?.expected ?? ast.checks?.map((check) => check.annotations?.expected).find(Boolean)
  if (typeof said === "string") return said
  const choice = literals(ast)
  if (choice.length > 0) return list(choice.map(quoted))
  if (ast._tag === "Union") return list([...new Set(ast.types.map(expected))])
  return kinds[ast._tag] ?? "another kind of value"
}

const annotated = (annotations: object | undefined): string | undefined => {
  if (annotations === undefined || !("message" in annotations)) return undefined
  return typeof annotations.message === "string" ? annotations.message : undefined
}

const valueAt = (root: unknown, path: Path): unknown => {
  let value = root
  for (const key of path) {
    if (typeof value !== "object" || value === null) return undefined
    value = (value as Readonly<Record<string, unknown>>)[String(key)]
  }
  return value
}

const kindOf = (value: unknown): string => {
  if (value === null) return "null"
  if (Array.isArray(value)) return "a list"
  if (typeof value === "object") return "an object"
  return typeof value === "string" ? "text" : typeof value === "boolean" ? "true or false" : "a number"
}

/** Flattens an issue. Of `root`, the value that was decoded, messages show only the kind, or a mistyped choice. */
const flatten = (issue: SchemaIssue.Issue, path: Path, root: unknown, said?: string): ReadonlyArray<Finding> => {
  const wanted = (what: string): ReadonlyArray<Finding> => [
    error(path, said ?? `expected ${what}, found ${kindOf(valueAt(root, path))}`),
  ]
  switch (issue._tag) {
    case "Pointer": {
      const inner = issue.path.map((key) => (typeof key === "number" ? key : String(key)))
      if (issue.issue._tag === "UnexpectedKey" && typeof inner.at(-1) === "string") {
        const given = String(inner.at(-1))
        const hint = didYouMean(given, names(issue.issue.ast), "the keys here are")
        return [error([...path, ...inner], `unknown key ${quoted(given)}`, hint, "key")]
      }
      return flatten(issue.issue, [...path, ...inner], root, said)
    }
    case "Composite":
      return issue.issues.flatMap((one) => flatten(one, path, root, said))
    case "AnyOf": {
      const choice = literals(issue.ast)
      const given = valueAt(root, path)
      if (choice.length > 0 && typeof given === "string") {
        return [error(path, `expected ${list(choice.map(quoted))}`, didYouMean(given, choice, "one of"))]
      }
      // The only member whose kind fits: its issues are more precise than the union's.
      if (issue.issues.length === 1) return issue.issues.flatMap((one) => flatten(one, path, root, said))
      return wanted(expected(issue.ast))
    }
    case "Encoding":
      return flatten(issue.issue, path, root, said)
    case "Filter": {
      const { annotations } = issue.filter
      const wanted = annotations?.expected === undefined ? undefined : `expected ${annotations.expected}`
      const own = issue.issue._tag === "InvalidValue" ? annotated(issue.issue.annotations) : undefined
      return flatten(issue.issue, path, root, said ?? annotated(annotations) ?? own ?? wanted)
    }
    case "MissingKey":
      return [error(path, `the key ${quoted(String(path.at(-1) ?? ""))} is missing`)]
    case "InvalidType":
      return wanted(expected(issue.ast))
    case "InvalidValue":
      return [error(path, said ?? annotated(issue.annotations) ?? "this value can't be used here")]
    case "UnexpectedKey":
    case "Forbidden":
    case "OneOf":
      return [error(path, said ?? "this is not allowed here")]
  }
}

/** Decodes the value at `path` of the file, or returns all findings. */
export const decode = <A>(
  schema: Schema.ConstraintDecoder<A>,
  value: unknown,
  path: Path,
): Result.Result<A, ReadonlyArray<Finding>> =>
  Schema.decodeUnknownResult(schema, { errors: "all", onExcessProperty: "error" })(value).pipe(
    Result.mapError(({ issue }) =>
      flatten(issue, [], value).map((finding) => ({ ...finding, path: [...path, ...finding.path] })),
    ),
  )
