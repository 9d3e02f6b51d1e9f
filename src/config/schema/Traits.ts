/**
 * Facts about a key's value beyond its shape, as annotations of the key's schema. The
 * rules, the diagnostics and the tests read them, so no other code knows a sink's keys
 * by name.
 *
 * **Guarantee.** Text counts as a secret unless its schema says otherwise, so text with
 * a forgotten annotation isn't shown.
 */
import { type Schema, SchemaAST } from "effect"
import { fields, type Path } from "../Fields.ts"

export interface Traits {
  /** Whether diagnostics may show it. */
  readonly shown?: boolean
  /** Its texts are templates over an event. */
  readonly template?: boolean
  /** Its templates may also name the alert that the event begins or ends. */
  readonly ofAlert?: boolean
  /** More placeholders that its templates may have. */
  readonly placeholders?: ReadonlyArray<string>
  /** Its texts are patterns of event types. */
  readonly patterns?: boolean
  /** It is a file that nothing else may write to. */
  readonly ownFile?: boolean
  /** Suffixes of more files beside it that nothing else may write to. */
  readonly filesBeside?: ReadonlyArray<string>
  /** It names the target of a sink: a place such as a topic or a file, or the servers that have it. */
  readonly target?: "place" | "servers"
  /** It is a URL that events are posted to. */
  readonly postsTo?: boolean
  /** The hosts of the service's URLs. `.example.com` means its subdomains. */
  readonly hosts?: ReadonlyArray<string>
  /** The path prefixes of the service's URLs. */
  readonly paths?: ReadonlyArray<string>
  /** Hosts that the service no longer uses, and what to do. */
  readonly retired?: Readonly<Record<string, string>>
  /** Keys of this object that must all be given if one is. */
  readonly together?: ReadonlyArray<string>
  /** `ca`, `certificate` and `key` of this object are PEM files, which are read when the config loads. */
  readonly certificates?: boolean
  /** The keys of this object are header names. */
  readonly headerNames?: boolean
  /** No value below it may be shown, because it may contain a misplaced secret. */
  readonly hidden?: boolean
  /** Names that other programs give to keys of this object. */
  readonly otherNames?: ReadonlyArray<OtherNames>
}

/**
 * Other programs' names for a key, separated by blanks; the key's name here, or an empty text if there is none; and a
 * hint if more than the name differs. Case, `-` and `_` of a name don't count.
 */
export type OtherNames = readonly [names: string, key: string, todo?: string]

/** Returns a trait of a schema. If the schema has checks, annotations are on the last check. */
export const traitOf = <const T extends keyof Traits>(ast: SchemaAST.AST, trait: T): Traits[T] =>
  annotationOf(ast, trait) as Traits[T]

const annotationOf = (ast: SchemaAST.AST, name: string): unknown => {
  const all = [ast.annotations, ...(ast.checks ?? []).map(({ annotations }) => annotations)]
  return all.findLast((annotations) => annotations?.[name] !== undefined)?.[name]
}

const plainName = (name: string): string => name.toLowerCase().replaceAll(/[-_.]/g, "")

/** Returns the key and the hint for another program's name, or `undefined` if the schema doesn't know the name. */
export const meantBy = (
  ast: SchemaAST.AST,
  name: string,
): { readonly key: string; readonly hint: string } | undefined => {
  const found = traitOf(ast, "otherNames")?.find(([names]) => plainName(names).split(" ").includes(plainName(name)))
  if (found === undefined) return undefined
  const [, key, hint = `here it is called "${key}"`] = found
  return { key, hint }
}

/** Reports whether a schema's object has a key with this name. */
const hasKey = (ast: SchemaAST.AST, key: string): boolean =>
  ast._tag === "Union"
    ? ast.types.some((type) => hasKey(type, key))
    : ast._tag === "Objects" && ast.propertySignatures.some(({ name }) => name === key)

/** Returns the path of a key that was written at the wrong object. The right object is below or above `path`. */
export const placeOf = (schema: SchemaAST.AST, path: Path, key: string): string | undefined => {
  const above = path.map((_, index) => path.slice(0, index).reduce<SchemaAST.AST | undefined>(inside, schema))
  const outer = path.findLast((_, index) => {
    const ast = above[index]
    return ast !== undefined && hasKey(ast, key)
  })
  if (outer !== undefined) return `it belongs beside "${outer}", one level up`
  const own = path.reduce<SchemaAST.AST | undefined>(inside, schema)
  // The keys of an object of unknown type aren't known here, and one of them may be meant.
  if (own?._tag !== "Objects" || own.propertySignatures.some(({ type }) => type._tag === "Unknown")) return undefined
  const inner = own.propertySignatures.find(({ type }) => hasKey(type, key))
  return inner && `it belongs in "${String(inner.name)}": ${String(inner.name)}.${key}`
}

const inside = (ast: SchemaAST.AST | undefined, key: string | number): SchemaAST.AST | undefined =>
  ast && partOf(ast, key)

/** Returns texts that a schema accepts: its default, its examples, its choices. */
export const examplesOf = (ast: SchemaAST.AST): ReadonlyArray<string> => {
  const given = annotationOf(ast, "examples")
  const choices = ast._tag === "Union" ? ast.types.flatMap(examplesOf) : ast._tag === "Literal" ? [ast.literal] : []
  const all = [annotationOf(ast, "default"), ...(Array.isArray(given) ? given : []), ...choices]
  return all.filter((one) => typeof one === "string")
}

/** Returns a key's description and a hint about its syntax, for messages. */
export const describe = (ast: SchemaAST.AST): { readonly description?: string; readonly hint?: string } => {
  const textAt = (name: string) => {
    const words = annotationOf(ast, name)
    return typeof words === "string" ? { [name]: words } : {}
  }
  return { ...textAt("description"), ...textAt("hint") }
}

/** Returns the schema of a value in the file, before it is decoded. */
export const written = (schema: Schema.ConstraintDecoder<unknown>): SchemaAST.AST => SchemaAST.toEncoded(schema.ast)

/** Returns the keys of an object with the trait `ownFile`, each with its default. */
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

/** Returns the schema of the value at a key, or `undefined` if no value is allowed there. */
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

/** Calls `on` with each part of a value that has a schema, outer parts first. */
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

/** Reports whether a text is in place of an object or a list. It may be a secret that belongs inside. */
const isMisplaced = (ast: SchemaAST.AST, value: unknown): boolean =>
  typeof value === "string" && (ast._tag === "Objects" || ast._tag === "Arrays")

const isOpen = (ast: SchemaAST.AST, value: unknown): boolean => {
  const shown = traitOf(ast, "shown")
  if (shown !== undefined) return shown
  if (ast._tag === "Union") {
    const fitting = ast.types.filter((type) => !isMisplaced(type, value))
    return fitting.length > 0 && fitting.every((type) => isOpen(type, value))
  }
  return !isMisplaced(ast, value) && !["String", "Literal", "Unknown", "Declaration"].includes(ast._tag)
}

/** Reports whether a value at a path may be shown, because its schema is known and no part of it is a secret. */
export const mayShow = (ast: SchemaAST.AST, path: Path, value: unknown): boolean => {
  let at: SchemaAST.AST | undefined = ast
  for (const key of path) {
    at = partOf(at, key)
    if (at === undefined || traitOf(at, "hidden") === true) return false
  }
  return isOpen(at, value)
}
