/**
 * Templates over an event: `{{type}}`, `{{resource}}`, `{{id}}`,
 * `{{account_id}}`, `{{webhook}}`, `{{created_at}}`, `{{received_at}}`, and a
 * JSON Pointer into the envelope, `{{/data/object/id}}`.
 *
 * A value is escaped for the place that it is put into. Templates that need no
 * pointer never parse a body.
 */
import { Result } from "effect"
import * as Envelope from "../event/Envelope.ts"
import { resource } from "../event/EventType.ts"
import * as Pointer from "../event/Pointer.ts"
import type { Entry } from "../journal/Journal.ts"

/** Where the text goes: it decides how a value is escaped. */
export type Place = "text" | "url" | "header"

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

const lookup = (name: string): Field => {
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

const toText = (value: unknown): string =>
  value === undefined || value === null ? "" : typeof value === "object" ? JSON.stringify(value) : String(value)

const escapes: Readonly<Record<Place, (value: string) => string>> = {
  text: (value) => value,
  url: encodeURIComponent,
  // Visible ASCII only: a CR LF in a value must not start a header of its own.
  header: (value) => value.replace(/[^\x20-\x7e]+/g, " ").trim(),
}

/** Compiles a template whose result is a string for `place`. */
export const compile = (text: string, place: Place): Template => {
  const escaped = escapes[place]
  const parts: Array<string | Field> = []
  let end = 0
  for (const match of text.matchAll(placeholder)) {
    if (match.index > end) parts.push(text.slice(end, match.index))
    parts.push(lookup((match[1] ?? "").trim()))
    end = match.index + match[0].length
  }
  if (end < text.length) parts.push(text.slice(end))
  const [only] = parts
  if (parts.length === 1 && typeof only === "string") return { render: () => only }
  return {
    render: (entry) => {
      const envelope = lazyEnvelope(entry)
      let out = ""
      for (const part of parts) out += typeof part === "string" ? part : escaped(toText(part(entry, envelope)))
      return out
    },
  }
}

type Maker = (entry: Entry, envelope: () => unknown) => unknown

const compileJson = (value: unknown): Maker => {
  if (typeof value === "string") {
    const whole = /^\{\{([^{}]*)\}\}$/.exec(value)
    // A string that is one placeholder and nothing else keeps the value's own JSON type.
    if (whole !== null) {
      const field = lookup((whole[1] ?? "").trim())
      return (entry, envelope) => field(entry, envelope) ?? null
    }
    const template = compile(value, "text")
    return (entry) => template.render(entry)
  }
  if (Array.isArray(value)) {
    const makers = value.map(compileJson)
    return (entry, envelope) => makers.map((make) => make(entry, envelope))
  }
  if (typeof value === "object" && value !== null) {
    const makers = Object.entries(value).map(([key, inner]) => [key, compileJson(inner)] as const)
    return (entry, envelope) => Object.fromEntries(makers.map(([key, make]) => [key, make(entry, envelope)]))
  }
  return () => value
}

/** Compiles a JSON value whose strings may hold placeholders; renders JSON. */
export const compileBody = (value: unknown): Template => {
  const make = compileJson(value)
  return { render: (entry) => JSON.stringify(make(entry, lazyEnvelope(entry))) }
}
