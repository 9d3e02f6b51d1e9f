/**
 * Templates over an event: `{{type}}`, `{{resource}}`, `{{id}}`,
 * `{{account_id}}`, `{{webhook}}`, `{{created_at}}`, `{{received_at}}`, and a
 * JSON Pointer into the envelope, `{{/data/object/id}}`.
 *
 * A value is escaped for the place that it is put into: it comes from outside,
 * and must not start a header, a path or a topic of its own. A value that is
 * missing is empty text. Templates that need no pointer never parse a body, and
 * the others parse it once an event.
 */
import { Result } from "effect"
import * as Envelope from "../event/Envelope.ts"
import { resource } from "../event/EventType.ts"
import * as Pointer from "../event/Pointer.ts"
import type { Entry } from "../journal/Journal.ts"

/** Where the text goes: it decides how a value is escaped. `json` is the inside of a JSON string. */
export type Place = "text" | "json" | "url" | "header" | "topic"

export interface Template {
  readonly render: (entry: Entry) => string
}

type Field = (entry: Entry, envelope: () => unknown) => unknown

const fields: Readonly<Record<string, Field>> = {
  type: ({ event }) => event.type,
  resource: ({ event }) => resource(event.type),
  id: ({ event }) => event.id,
  account_id: ({ event }) => event.accountId,
  webhook: ({ event }) => event.webhook,
  received_at: ({ event }) => new Date(event.receivedAt).toISOString(),
  created_at: (_, envelope) => Pointer.get(["created_at"], envelope()),
}

const placeholder = /\{\{([^{}]*)\}\}/g

/** Whether a text holds anything to fill in. */
export const hasPlaceholder = (text: string): boolean => text.includes("{{")

/** A text with every placeholder replaced by one word, to look at what is around them. */
export const withoutPlaceholders = (text: string, word = "x"): string => text.replaceAll(placeholder, word)

/** What a template does wrong, in words; `undefined` when nothing. */
export const problem = (text: string): string | undefined => {
  for (const [whole, name = ""] of text.matchAll(placeholder)) {
    const trimmed = name.trim()
    if (Object.hasOwn(fields, trimmed)) continue
    if (trimmed.startsWith("/") && Pointer.parse(trimmed) !== undefined) continue
    return `${whole} is no placeholder: it is one of ${Object.keys(fields).join(", ")}, or a JSON Pointer such as /data/object/id`
  }
  return /\{\{|\}\}/.test(text.replaceAll(placeholder, "")) ? "a {{ has no }} or the other way round" : undefined
}

const lookup = (text: string): Field => {
  const name = text.trim()
  const field = Object.hasOwn(fields, name) ? fields[name] : undefined
  if (field !== undefined) return field
  const pointer = Pointer.parse(name) ?? []
  return (_, envelope) => Pointer.get(pointer, envelope())
}

/** The envelope of an entry, decoded at most once and only when asked for. */
const lazyEnvelope = (entry: Entry): (() => unknown) => {
  let decoded: { readonly value: unknown } | undefined
  return () => {
    decoded ??= { value: Result.getOrElse(Envelope.decode(entry.event.body), () => undefined) }
    return decoded.value
  }
}

const toText = (value: unknown): string => {
  if (typeof value === "string") return value
  if (value === undefined || value === null) return ""
  return typeof value === "object" ? JSON.stringify(value) : String(value)
}

/**
 * Percent-encodes whatever could end a path segment or a query value. Dots alone
 * would climb out of the path, and stay what they are when encoded: they become `_`.
 */
const escapeUrl = (value: string): string =>
  /^\.+$/.test(value) ? "_".repeat(value.length) : encodeURIComponent(value.toWellFormed())

/**
 * Percent-encodes whatever is not visible ASCII: a line break must not start a
 * header of its own, and two ids that differ must not become the same key.
 */
export const escapeHeader = (value: string): string =>
  value.replace(/[^\x20-\x7e]+/g, (odd) => encodeURIComponent(odd.toWellFormed()))

const escapes: Readonly<Record<Place, (value: string) => string>> = {
  text: (value) => value,
  json: (value) => JSON.stringify(value).slice(1, -1),
  url: escapeUrl,
  header: escapeHeader,
  // What a Kafka topic may hold.
  topic: (value) => value.replace(/[^A-Za-z0-9._-]/g, "_"),
}

type Maker<A> = (entry: Entry, envelope: () => unknown) => A

const compileText = (text: string, place: Place): Maker<string> => {
  const escaped = escapes[place]
  const parts: Array<string | Field> = []
  let end = 0
  for (const match of text.matchAll(placeholder)) {
    if (match.index > end) parts.push(text.slice(end, match.index))
    parts.push(lookup(match[1] ?? ""))
    end = match.index + match[0].length
  }
  if (end < text.length) parts.push(text.slice(end))
  const [only] = parts
  if (only === undefined) return () => ""
  if (parts.length === 1 && typeof only === "string") return () => only
  return (entry, envelope) => {
    let out = ""
    for (const part of parts) out += typeof part === "string" ? part : escaped(toText(part(entry, envelope)))
    return out
  }
}

const compileValue = (value: unknown): Maker<unknown> => {
  if (typeof value === "string") {
    const whole = /^\{\{([^{}]*)\}\}$/.exec(value)
    if (whole === null) return compileText(value, "text")
    // A string that is one placeholder and nothing else keeps the value's own JSON type.
    const field = lookup(whole[1] ?? "")
    return (entry, envelope) => field(entry, envelope) ?? null
  }
  if (Array.isArray(value)) {
    const makers = value.map(compileValue)
    return (entry, envelope) => makers.map((make) => make(entry, envelope))
  }
  if (typeof value === "object" && value !== null) {
    const makers = Object.entries(value).map(([key, inner]) => [key, compileValue(inner)] as const)
    return (entry, envelope) => Object.fromEntries(makers.map(([key, make]) => [key, make(entry, envelope)]))
  }
  return () => value
}

const template = (make: Maker<string>): Template => ({ render: (entry) => make(entry, lazyEnvelope(entry)) })

/** Compiles a template whose result is a string for `place`. A text without a {@link problem} always compiles. */
export const compile = (text: string, place: Place = "text"): Template => template(compileText(text, place))

/** Compiles a JSON value whose strings, not its keys, may hold placeholders; renders JSON. */
export const compileBody = (value: unknown): Template => {
  const make = compileValue(value)
  return template((entry, envelope) => JSON.stringify(make(entry, envelope)))
}
