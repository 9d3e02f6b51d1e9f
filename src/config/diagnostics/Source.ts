/**
 * A config file's text, with the position of every key and value in it.
 *
 * **Gotcha.** A value may be a secret. `mayBeShown` decides which values a diagnostic
 * shows (see `schema/ConfiguredTypes.ts`).
 */
import { type Node, type ParseError, parseTree } from "jsonc-parser"
import * as Numbers from "../../event/Numbers.ts"
import type { Path } from "../Fields.ts"
import type { Diagnostic } from "./Diagnostic.ts"
import { excerpt, firstBeyond, type Span, syntaxMistakes, type Token, tokensOf, tooDeep } from "./Syntax.ts"

/** A problem at a path of the file. */
export interface Finding {
  readonly severity: Diagnostic["severity"]
  readonly path: Path
  /** The underlined part: the value, or the key in front of it. */
  readonly at: "key" | "value"
  readonly message: string
  readonly hint?: string
  /**
   * A position in the text at the path, counted from 0. If the file has the same text, only the character at this
   * position is underlined.
   */
  readonly within?: { readonly text: string; readonly offset: number }
}

const finder =
  (severity: Finding["severity"], at: Finding["at"]) =>
  (path: Path, message: string, hint?: string): Finding => ({
    severity,
    path,
    at,
    message,
    ...(hint === undefined ? {} : { hint }),
  })

export const error = finder("error", "value")
export const errorAtKey = finder("error", "key")
export const warning = finder("warning", "value")
export const warningAtKey = finder("warning", "key")

export interface Source {
  readonly file: string
  /** The file as a plain value with unresolved references; `undefined` if it isn't JSON. */
  readonly value: unknown
  /** Problems of the text itself: syntax, and duplicate keys. */
  readonly problems: ReadonlyArray<Diagnostic>
  readonly locate: (finding: Finding) => Diagnostic
}

/** Formats a path, such as `webhooks.scheduling.secrets[0].value`. A key that is not an identifier is in quotes. */
export const formatPath = (path: Path): string =>
  path.reduce<string>((text, key) => {
    if (typeof key === "number") return `${text}[${key}]`
    if (!/^[A-Za-z_$][A-Za-z0-9_$-]*$/.test(key)) return `${text}[${JSON.stringify(key)}]`
    return text === "" ? key : `${text}.${key}`
  }, "")

const nodeAt = (root: Node | undefined, path: Path): Node | undefined => {
  let node = root
  for (const key of path) {
    const children: ReadonlyArray<Node> = node?.children ?? []
    node =
      typeof key === "number"
        ? children[key]
        : // If a key appears twice, the last one counts, as in JSON.parse.
          children.findLast((property) => node?.type === "object" && property.children?.[0]?.value === key)
            ?.children?.[1]
    if (node === undefined) return undefined
  }
  return node
}

/** Reports whether the value at a path is compared with events. Its numbers then keep all digits; the relay's own are doubles. */
const isOfEvents = ([first, , key, ...below]: Path): boolean =>
  (first === "routes" && key === "where" && below.length > 0) ||
  (first === "sinks" && key === "body") ||
  (first === "tests" && key === "object")

/** Returns the tree as a plain value. `getNodeValue` isn't used, because a key `__proto__` would set the prototype. */
const toValue = (text: string, node: Node, path: Path = []): unknown => {
  if (node.type === "array") return (node.children ?? []).map((child, index) => toValue(text, child, [...path, index]))
  if (node.type === "number" && isOfEvents(path)) return Numbers.of(text.slice(node.offset, node.offset + node.length))
  if (node.type !== "object") return node.value
  return Object.fromEntries(
    (node.children ?? []).flatMap((property) => {
      const [key, value] = property.children ?? []
      return key === undefined || value === undefined
        ? []
        : [[String(key.value), toValue(text, value, [...path, String(key.value)])]]
    }),
  )
}

/** Returns the distance of a character from the opening quote of its text. Escapes in the file are longer than their characters. */
const insideOf = (file: string, { offset, length }: Span, character: number): number => {
  const written = file.slice(offset + 1, offset + length - 1)
  let end = 0
  for (const { 0: one } of written.matchAll(/\\u[0-9A-Fa-f]{4}|\\?./gs)) {
    if (character-- <= 0) break
    end += one.length
  }
  return 1 + end
}

/** The maximum nesting of a config. */
const deepest = 100

/** Parses the text. It never fails: problems are part of the result. */
export const parse = (file: string, text: string, mayBeShown: (path: Path, config: unknown) => boolean): Source => {
  const errors: Array<ParseError> = []
  const deep = tooDeep(text, deepest)
  const root = deep === undefined ? parseTree(text, errors, { allowTrailingComma: true }) : undefined
  // Computed once, because a text can have as many mistakes as lines.
  const starts = [0, ...[...text.matchAll(/\n/g)].map(({ index }) => index + 1)]
  let tokens: ReadonlyArray<Token> | undefined
  const place = (offset: number) => {
    const line = firstBeyond(starts.length, (index) => (starts[index] ?? 0) > offset)
    return { line, column: offset - (starts[line - 1] ?? 0) + 1 }
  }
  const diagnose = (
    span: Span,
    key: string,
    message: string,
    hint?: string,
    showsValue = false,
    inside = 0,
  ): Diagnostic => {
    tokens ??= tokensOf(text)
    return {
      severity: "error",
      file,
      ...place(span.offset + inside),
      key,
      message,
      ...(hint === undefined ? {} : { hint }),
      excerpt: excerpt(text, tokens, span, showsValue, inside),
    }
  }

  const syntax = (): ReadonlyArray<Diagnostic> => {
    if (deep !== undefined) return [diagnose({ offset: deep, length: 1 }, "", "this is nested too deeply")]
    if (text.trim() === "") {
      return [
        {
          severity: "error",
          file,
          line: 1,
          column: 1,
          key: "",
          message: "the file is empty",
          hint: "`relay init` writes a config to start from",
        },
      ]
    }
    return errors.length === 0
      ? []
      : syntaxMistakes(text).map((found) => diagnose(found, "", found.message, found.hint))
  }

  const repeated = (node: Node, path: Path): ReadonlyArray<Diagnostic> => {
    const first = new Map<string, Node>()
    return (node.children ?? []).flatMap((child, index) => {
      if (node.type === "array") return repeated(child, [...path, index])
      const [key, value] = child.children ?? []
      if (key === undefined || value === undefined) return []
      const name = String(key.value)
      const inside = repeated(value, [...path, name])
      const earlier = first.get(name)
      if (earlier === undefined) {
        first.set(name, key)
        return inside
      }
      const message = `the key "${name}" is a duplicate of the one in line ${place(earlier.offset).line}`
      return [diagnose(key, formatPath([...path, name]), message, "keep one of them", true), ...inside]
    })
  }

  const value = root === undefined ? undefined : toValue(text, root)
  const problems = [...syntax(), ...(root === undefined || errors.length > 0 ? [] : repeated(root, []))]
  return {
    file,
    value: errors.length > 0 ? undefined : value,
    problems,
    locate: ({ severity, path, at, message, hint, within }) => {
      const found = nodeAt(root, path)
      const node = at === "key" ? (found?.parent?.children?.[0] ?? found) : found
      // A missing key is shown at the object that should have it.
      if (node === undefined && path.length > 0) {
        const parent = nodeAt(root, path.slice(0, -1))
        if (parent !== undefined) {
          const owner = parent.parent?.type === "property" ? (parent.parent.children?.[0] ?? parent) : parent
          const span = owner === parent ? { offset: parent.offset, length: 1 } : owner
          return { ...diagnose(span, formatPath(path), message, hint, true), severity }
        }
      }
      const span = node ?? { offset: 0, length: 1 }
      const shows = at === "key" || mayBeShown(path, value)
      const inside = within !== undefined && within.text === node?.value ? insideOf(text, span, within.offset) : 0
      return { ...diagnose(span, formatPath(path), message, hint, shows, inside), severity }
    },
  }
}
