/**
 * The schema of a key says this of its value beyond the value's shape, as
 * annotations. The rules, the diagnostics and the tests read it here, so no other
 * code knows the keys of a sink by name.
 *
 * **Guarantee.** A text whose schema doesn't say otherwise counts as a secret, so a
 * forgotten one isn't shown.
 */
import { type Schema, SchemaAST } from "effect"
import { fields, type Path } from "../Fields.ts"

export interface Traits {
  /** Whether diagnostics may show it. */
  readonly shown?: boolean
  /** Its texts are templates over an event. */
  readonly template?: boolean
  /** It names a file that nothing else may write to. */
  readonly ownFile?: boolean
  /** Suffixes of that file's name: nothing else may write to the files that have them either. */
  readonly filesBeside?: ReadonlyArray<string>
  /** It is a URL that events are posted to. */
  readonly postsTo?: boolean
  /** Hosts of the service that a URL belongs to; `.example.com` is each below it. */
  readonly hosts?: ReadonlyArray<string>
  /** The beginnings of the paths that the service's URLs have. */
  readonly paths?: ReadonlyArray<string>
  /** Hosts that the service has given up, and what to do. */
  readonly retired?: Readonly<Record<string, string>>
  /** Keys of this object that are given all together or not at all. */
  readonly together?: ReadonlyArray<string>
  /** `ca`, `certificate` and `key` of this object are PEM files, which the config is loaded with. */
  readonly certificates?: boolean
  /** The keys of this object are names of headers. */
  readonly headerNames?: boolean
  /** Nothing below may be shown: it may hold a misplaced secret. */
  readonly hidden?: boolean
  /** Names that other programs give to keys of this object. */
  readonly otherNames?: ReadonlyArray<OtherNames>
}

/**
 * Names that other programs give to a key, separated by blanks; the key here, or an empty text if there is none; and
 * what to do if more than the name differs. Case, `-` and `_` of a name don't count.
 */
export type OtherNames = readonly [names: string, key: string, todo?: string]

/** Reads a trait of a schema. If the schema has checks, annotations are on the last check. */
export const traitOf = <const T extends keyof Traits>(ast: SchemaAST.AST, trait: T): Traits[T] =>
  annotationOf(ast, trait) as Traits[T]

const annotationOf = (ast: SchemaAST.AST, name: string): unknown => {
  const all = [ast.annotations, ...(ast.checks ?? []).map(({ annotations }) => annotations)]
  return all.findLast((annotations) => annotations?.[name] !== undefined)?.[name]
}

const plainName = (name: string): string => name.toLowerCase().replaceAll(/[-_.]/g, "")

/** The key that another program's name means here, and what to do about it; `undefined` if the schema doesn't know the name. */
export const meantBy = (
  ast: SchemaAST.AST,
  name: string,
): { readonly key: string; readonly hint: string } | undefined => {
  const found = traitOf(ast, "otherNames")?.find(([names]) => plainName(names).split(" ").includes(plainName(name)))
  if (found === undefined) return undefined
  const [, key, hint = `here it is called "${key}"`] = found
  return { key, hint }
}

/** Whether the object that a schema describes has the key by name. */
const hasKey = (ast: SchemaAST.AST, key: string): boolean =>
  ast._tag === "Union"
    ? ast.types.some((type) => hasKey(type, key))
    : ast._tag === "Objects" && ast.propertySignatures.some(({ name }) => name === key)

/** The place of a key that the object at `path` does not have: in an object below it, or in an object above it. */
export const placeOf = (schema: SchemaAST.AST, path: Path, key: string): string | undefined => {
  const above = path.map((_, index) => path.slice(0, index).reduce<SchemaAST.AST | undefined>(inside, schema))
  const outer = path.findLast((_, index) => {
    const ast = above[index]
    return ast !== undefined && hasKey(ast, key)
  })
  if (outer !== undefined) return `it belongs beside "${outer}", one level up`
  const own = path.reduce<SchemaAST.AST | undefined>(inside, schema)
  // The keys of an object of any type are not known here: one of its keys may be meant.
  if (own?._tag !== "Objects" || own.propertySignatures.some(({ type }) => type._tag === "Unknown")) return undefined
  const inner = own.propertySignatures.find(({ type }) => hasKey(type, key))
  return inner && `it belongs in "${String(inner.name)}": ${String(inner.name)}.${key}`
}

const inside = (ast: SchemaAST.AST | undefined, key: string | number): SchemaAST.AST | undefined =>
  ast && partOf(ast, key)

/** Texts that a schema says it takes: its default, its examples, its choices. */
export const examplesOf = (ast: SchemaAST.AST): ReadonlyArray<string> => {
  const given = annotationOf(ast, "examples")
  const choices = ast._tag === "Union" ? ast.types.flatMap(examplesOf) : ast._tag === "Literal" ? [ast.literal] : []
  const all = [annotationOf(ast, "default"), ...(Array.isArray(given) ? given : []), ...choices]
  return all.filter((one) => typeof one === "string")
}

/** The words of a schema about its key, for people: a description and a hint how to write it. */
export const describe = (ast: SchemaAST.AST): { readonly description?: string; readonly hint?: string } => {
  const said = (name: string) => {
    const words = annotationOf(ast, name)
    return typeof words === "string" ? { [name]: words } : {}
  }
  return { ...said("description"), ...said("hint") }
}

/** A schema as the file is written. */
export const written = (schema: Schema.ConstraintDecoder<unknown>): SchemaAST.AST => SchemaAST.toEncoded(schema.ast)

/** The keys of an object that name a file of its own, each with its default. */
export const ownFiles = (
  ast: SchemaAST.AST,
): ReadonlyArray<readonly [key: string, usual: unknown, beside: ReadonlyArray<string>]> =>
  ast._tag !== "Objects"
    ? []
    : ast.propertySignatures.flatMap(({ name, type }) =>
        traitOf(type, "ownFile") === true
          ? [[String(name), annotationOf(type, "default"), traitOf(type, "filesBeside") ?? []] as const]
          : [],
      )

/** The schema of the value at a key. `undefined` if no value is allowed there. */
export const partOf = (ast: SchemaAST.AST, key: string | number): SchemaAST.AST | undefined => {
  switch (ast._tag) {
    case "Objects":
      return (
        ast.propertySignatures.find(({ name }) => name === key)?.type ??
        ast.indexSignatures.find(() => typeof key === "string")?.type
      )
    case "Arrays":
      return typeof key === "number" ? (ast.elements[key] ?? ast.rest[0]) : undefined
    case "Union":
      return ast.types.map((type) => partOf(type, key)).find((found) => found !== undefined)
    default:
      return undefined
  }
}

export type Visitor = (ast: SchemaAST.AST, value: unknown, path: Path) => void

/** Calls `on` with each part of a value that its schema knows, the outer ones first. */
export const visit = (ast: SchemaAST.AST, value: unknown, path: Path, on: Visitor): void => {
  on(ast, value, path)
  const inner: Iterable<readonly [string | number, unknown]> = Array.isArray(value)
    ? value.entries()
    : Object.entries(fields(value))
  for (const [key, item] of inner) {
    const type = partOf(ast, key)
    if (type !== undefined) visit(type, item, [...path, key], on)
  }
}

/** A text in place of an object or a list may be the secret that belongs into it. */
const isMisplaced = (ast: SchemaAST.AST, value: unknown): boolean =>
  typeof value === "string" && (ast._tag === "Objects" || ast._tag === "Arrays")

const isOpen = (ast: SchemaAST.AST, value: unknown): boolean => {
  const said = traitOf(ast, "shown")
  if (said !== undefined) return said
  if (ast._tag === "Union") {
    const fitting = ast.types.filter((type) => !isMisplaced(type, value))
    return fitting.length > 0 && fitting.every((type) => isOpen(type, value))
  }
  return !isMisplaced(ast, value) && !["String", "Literal", "Unknown", "Declaration"].includes(ast._tag)
}

/** Reports whether a value at a path may be shown: its schema is known, and no part of it is a secret. */
export const mayShow = (ast: SchemaAST.AST, path: Path, value: unknown): boolean => {
  let at: SchemaAST.AST | undefined = ast
  for (const key of path) {
    at = partOf(at, key)
    if (at === undefined || traitOf(at, "hidden") === true) return false
  }
  return isOpen(at, value)
}
