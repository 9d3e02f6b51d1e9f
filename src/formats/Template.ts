/**
 * Templates over an event: `{{type}}`, `{{resource}}`, `{{id}}`, `{{account_id}}`,
 * `{{webhook}}`, `{{created_at}}`, `{{received_at}}`, its `{{date}}` and `{{hour}}`
 * in UTC, and a JSON Pointer into the envelope, `{{/data/object/id}}`.
 *
 * A value is escaped for its place, because it comes from outside and must not begin
 * another header, path or topic. A missing value is an empty text. Templates without
 * a pointer never parse a body; others parse it once per event.
 *
 * A JMESPath expression may replace a text or a body. Its root is the envelope, and
 * each name above is one of its variables: `$received_at`.
 */
import { Result } from "effect"
import * as Envelope from "../event/Envelope.ts"
import type { AlertNote, Entry } from "../event/Event.ts"
import { asFailure, resource } from "../event/EventType.ts"
import { nearest } from "../event/Nearest.ts"
import * as Numbers from "../event/Numbers.ts"
import * as Pointer from "../event/Pointer.ts"
import * as Jmespath from "./jmespath/Jmespath.ts"
import * as Rendering from "./Rendering.ts"

/**
 * The place that uses the text. It decides how values are escaped. `json` is the inside of a JSON string. In a `key`
 * equal numbers have the same text, and values that slashes join stay different; elsewhere a number is written as the
 * sender wrote it.
 */
export type Place = "text" | "key" | "json" | "url" | "header" | "topic"

/** A text with placeholders, or an expression whose result is the text. */
export type Text = string | Jmespath.Shape

export interface Template {
  /**
   * For a digest, `group` is all of its events, oldest first, and `entry` the last. `alert` is called if the template
   * needs it. Throws `Unrenderable` if a value can't be rendered, and nothing else.
   */
  readonly render: (entry: Entry, group?: ReadonlyArray<Entry>, alert?: () => Alert) => string
}

/** The alert that an event begins or ends, for sinks of alert APIs. */
export interface Alert {
  readonly key: string
  readonly action: string
  readonly summary: string
}

/** The source of a template's values. */
interface Source {
  readonly entry: Entry
  readonly group: ReadonlyArray<Entry>
  readonly envelope: () => unknown
  readonly alert: () => Alert
}

type Field = (source: Source) => unknown

const iso = (millis: number): string => new Date(millis).toISOString()

/** The most events that `{{events}}` lists: of more, the first and the last. */
const listed = 20

const list = (group: ReadonlyArray<Entry>): string => {
  const line = ({ event }: Entry) => [iso(event.receivedAt), event.type, event.accountId, event.id].join(" ").trimEnd()
  const shown = some(group, listed).map(line)
  if (shown.length < group.length) shown.splice(listed / 2, 0, `… ${group.length - shown.length} more`)
  return shown.join("\n")
}

/** At most `most` events of a group: the first and the last. */
export const some = (group: ReadonlyArray<Entry>, most: number): ReadonlyArray<Entry> =>
  group.length <= most ? group : [...group.slice(0, most / 2), ...group.slice(-most / 2)]

/** Fields of an event. */
const eventFields: Readonly<Record<string, Field>> = {
  type: ({ entry }) => entry.event.type,
  resource: ({ entry }) => resource(entry.event.type),
  id: ({ entry }) => entry.event.id,
  account_id: ({ entry }) => entry.event.accountId,
  webhook: ({ entry }) => entry.event.webhook,
  received_at: ({ entry }) => iso(entry.event.receivedAt),
  date: ({ entry }) => iso(entry.event.receivedAt).slice(0, 10),
  hour: ({ entry }) => iso(entry.event.receivedAt).slice(11, 13),
  created_at: ({ envelope }) => Pointer.get(["created_at"], envelope()),
}

/** Of each alert its newest message, and all other events. */
export const newestOf = (group: ReadonlyArray<Entry>): ReadonlyArray<Entry> => {
  const newest = new Map(group.map((entry) => [entry.alert?.key, entry]))
  return group.filter((entry) => entry.alert === undefined || newest.get(entry.alert.key) === entry)
}

/**
 * The number of events that a group stands for, and when the first and the last were received, in epoch milliseconds.
 * The message of an alert stands for all of the alert's failures, and a newer message of it replaces an older one.
 */
export const extent = (group: ReadonlyArray<Entry>): Pick<AlertNote, "count" | "first" | "last"> => {
  const parts = newestOf(group).map(({ event, alert }) => {
    const { count = 1, first = event.receivedAt, last = event.receivedAt } = alert ?? {}
    return { count, first, last }
  })
  return {
    count: parts.reduce((sum, { count }) => sum + count, 0),
    first: Math.min(...parts.map(({ first }) => first)),
    last: Math.max(...parts.map(({ last }) => last)),
  }
}

/** Fields of a digest; a single event counts as a digest of one. */
const digestFields: Readonly<Record<string, Field>> = {
  count: ({ group }) => extent(group).count,
  first: ({ group }) => iso(extent(group).first),
  last: ({ group }) => iso(extent(group).last),
  events: ({ group }) => list(group),
}

/** Fields of an alert. Only texts whose schema has the trait `ofAlert` may name them. */
const alertFields: Readonly<Record<string, Field>> = {
  key: ({ alert }) => alert().key,
  action: ({ alert }) => alert().action,
  summary: ({ alert }) => alert().summary,
}

const ofEvents: Readonly<Record<string, Field>> = { ...eventFields, ...digestFields }
const fields: Readonly<Record<string, Field>> = { ...ofEvents, ...alertFields }

/** The variables of expressions. `$events` are the envelopes of a digest. */
const variables: Readonly<Record<string, Field>> = {
  ...fields,
  events: ({ group }) => group.map((entry) => lazyEnvelope(entry)() ?? null),
}
const allVariables: ReadonlySet<string> = new Set(Object.keys(variables))
const eventVariables: ReadonlySet<string> = new Set(Object.keys(ofEvents))
/** The names of the variables that an expression has. */
export const variableNames = (ofAlert = false): ReadonlySet<string> => (ofAlert ? allVariables : eventVariables)

const placeholder = /\{\{([^{}]*)\}\}/g

/** Whether a text has placeholders. */
export const hasPlaceholder = (text: string): boolean => text.includes("{{")

/** Whether a text is the same for all events. An expression may read the event. */
export const isConstant = (text: Text): text is string => typeof text === "string" && !hasPlaceholder(text)

/** A text with each placeholder replaced by a word, to check the rest. */
export const withoutPlaceholders = (text: string, word = "x"): string => text.replaceAll(placeholder, word)

const isOneOf = (fields: Readonly<Record<string, Field>>, name: string): boolean =>
  Object.hasOwn(fields, name) || (name.startsWith("/") && Pointer.parsePointer(name) !== undefined)

const choice = (fields: Readonly<Record<string, Field>>, more: ReadonlyArray<string> = []): string =>
  `it is one of ${[...more, ...Object.keys(fields)].join(", ")}, or a JSON Pointer such as /data/object/id`

/** Guesses the intended field for a name that isn't one. */
const meant = (fields: Readonly<Record<string, Field>>, name: string): string | undefined => {
  const plain = name.replace(/^[$.@]+/, "").replaceAll(/\[(\d+)\]/g, ".$1")
  const near = nearest(plain, Object.keys(fields))
  if (near !== undefined) return near
  const pointer = `/${plain.replaceAll(".", "/")}`
  return /^\w+([./][\w-]+)+$/.test(plain) && Pointer.parsePointer(pointer) !== undefined ? pointer : undefined
}

/**
 * Says what is wrong with a template. Returns `undefined` if nothing is. `more` are names that the template's user fills
 * in.
 */
export const problem = (text: string, ofAlert = false, more: ReadonlyArray<string> = []): string | undefined => {
  const known = ofAlert ? fields : ofEvents
  for (const [whole, inside = ""] of text.matchAll(placeholder)) {
    const name = inside.trim()
    if (isOneOf(known, name) || more.includes(name)) continue
    const [, variable] =
      /^(?:env|secrets?|vars?)\.([A-Za-z_]\w*)$/i.exec(name) ?? /^([A-Z][A-Z0-9_]*)$/.exec(name) ?? []
    if (variable !== undefined) return `${whole} is no placeholder: a variable is written \${${variable}}`
    if (/[|()]|^#|^(?:if|else|end|range|with|for|each)\b/.test(name)) {
      return `${whole} is no placeholder: it has no functions, conditions or loops; an expression has: { "jmespath": "…" }`
    }
    const near = meant(known, name)
    return `${whole} is no placeholder: ${near === undefined ? choice(known, more) : `did you mean {{${near}}}?`}`
  }
  return /\{\{|\}\}/.test(text.replaceAll(placeholder, "")) ? "a {{ has no }} or the other way round" : undefined
}

/** Says why a name isn't a field of an event. */
export const fieldProblem = (name: string): string | undefined => {
  if (isOneOf(eventFields, name)) return undefined
  const near = meant(eventFields, name)
  return `${name} is no field: ${near === undefined ? choice(eventFields) : `did you mean "${near}"?`}`
}

/** A field in single braces, which stays as it is, and the placeholder's name; `undefined` if there is none. */
export const unfilled = (text: string): { readonly written: string; readonly field: string } | undefined => {
  for (const [, written = ""] of text.matchAll(/(?<![{$])\{([^{}]*)\}(?!\})/g)) {
    const name = written.trim()
    const plain = name.replace(/^(?:event\.|[$@]?\.)/, "")
    if (isOneOf(ofEvents, plain)) return { written: name, field: plain }
    const field = plain === name && !plain.startsWith("data.") ? undefined : meant(ofEvents, plain)
    if (field !== undefined) return { written: name, field }
  }
  return undefined
}

const lookup = (text: string): Field => {
  const name = text.trim()
  const field = Object.hasOwn(fields, name) ? fields[name] : undefined
  if (field !== undefined) return field
  const pointer = Pointer.parsePointer(name) ?? []
  return ({ envelope }) => Rendering.flat(Pointer.get(pointer, envelope()), name)
}

/** The envelope of an entry, decoded at most once and only when asked for. */
const lazyEnvelope = (entry: Entry): (() => unknown) => {
  let decoded: { readonly value: unknown } | undefined
  return () => {
    decoded ??= { value: Result.getOrElse(Envelope.ofEvent(entry.event, Numbers.parse), () => undefined) }
    return decoded.value
  }
}

/** A value as text. Empty if it is missing. */
export const toText = (value: unknown): string => {
  if (typeof value === "string") return value
  if (value === undefined || value === null) return ""
  return typeof value === "object" ? JSON.stringify(value) : String(value)
}

/** A value as text in a key. */
const toKey = (value: unknown): string => Numbers.textOf(value) ?? toText(value)

/**
 * Percent-encodes whatever could end a path segment or a query value. Dots alone
 * would climb out of the path even when encoded, so they become `_`.
 */
export const escapeUrl = (value: string): string =>
  /^\.+$/.test(value) ? "_".repeat(value.length) : encodeURIComponent(value.toWellFormed())

/** Percent-encodes slashes, so that values which are joined by them stay different. */
export const escapeKey = (value: string): string => value.replace(/[%/]/g, encodeURIComponent)

const isVisible = /^[\x20-\x7e]*$/

/**
 * Percent-encodes whatever isn't visible ASCII, so that a line break doesn't begin
 * another header, and ids that differ stay different.
 */
export const escapeHeader = (value: string): string =>
  isVisible.test(value) ? value : value.replace(/[^\x20-\x7e]+/g, (odd) => encodeURIComponent(odd.toWellFormed()))

const escapes: Readonly<Record<Place, (value: string) => string>> = {
  text: (value) => value,
  json: (value) => JSON.stringify(value).slice(1, -1),
  url: escapeUrl,
  header: escapeHeader,
  // Characters that a Kafka topic and a NATS subject may hold.
  topic: (value) => value.replace(/[^A-Za-z0-9._-]/g, "_"),
  key: escapeKey,
}

type Maker<A> = (source: Source) => A

/** The result of an expression, whose place in the config is `at`; `use` says as what. */
const expression = ({ jmespath }: Jmespath.Shape, at: string, use: "text" | "key" | "json"): Maker<string> => {
  const compiled = Jmespath.compile(jmespath, at, allVariables)
  return (source) => compiled[use](source.envelope(), (name) => variables[name]?.(source))
}

/** A text without placeholders comes back as it is. */
const compileText = (text: Text, place: Place, at = "key"): string | Maker<string> => {
  if (typeof text !== "string") {
    const result = expression(text, `${at}.jmespath`, place === "key" ? "key" : "text")
    // A value alone can't be taken for several that are joined.
    const escaped = place === "key" ? escapes.text : escapes[place]
    return (source) => escaped(result(source))
  }
  const parts: Array<string | Field> = []
  let end = 0
  for (const match of text.matchAll(placeholder)) {
    if (match.index > end) parts.push(text.slice(end, match.index))
    parts.push(lookup(match[1] ?? ""))
    end = match.index + match[0].length
  }
  if (end < text.length) parts.push(text.slice(end))
  const [only] = parts
  if (only === undefined) return ""
  if (parts.length === 1 && typeof only === "string") return only
  const write = place === "key" ? toKey : toText
  const escaped = place === "key" && parts.length === 1 ? escapes.text : escapes[place]
  return (source) => {
    let out = ""
    for (const part of parts) out += typeof part === "string" ? part : escaped(write(part(source)))
    return out
  }
}

const compileValue = (value: unknown): Maker<unknown> => {
  if (typeof value === "string") {
    const whole = /^\{\{([^{}]*)\}\}$/.exec(value)
    if (whole === null) {
      const compiled = compileText(value, "text")
      return typeof compiled === "string" ? () => compiled : compiled
    }
    // A string that is one placeholder and nothing else keeps the value's own JSON type.
    const field = lookup(whole[1] ?? "")
    return (source) => field(source) ?? null
  }
  if (Array.isArray(value)) {
    const makers = value.map(compileValue)
    return (source) => makers.map((make) => make(source))
  }
  if (typeof value === "object" && value !== null && !Numbers.isNumber(value)) {
    const makers = Object.entries(value).map(([key, inner]) => [key, compileValue(inner)] as const)
    return (source) => Object.fromEntries(makers.map(([key, make]) => [key, make(source)]))
  }
  return () => value
}

/** Used to try a template with a sample. */
const noAlert: Alert = { key: "", action: "trigger", summary: "" }

const template = (make: string | Maker<string>): Template => ({
  render:
    typeof make === "string"
      ? () => make
      : (entry, group = [entry], alert = () => noAlert) => make({ entry, group, envelope: lazyEnvelope(entry), alert }),
})

/**
 * Compiles a template whose result is a string for `place`. `at` is its key in the config. A text without a {@link
 * problem} always compiles.
 */
export const compile = (text: Text, place: Place = "text", at?: string): Template =>
  template(compileText(text, place, at))

/**
 * Compiles an expression, or a JSON value whose strings, not its keys, may hold placeholders; renders JSON. `at` is its
 * key in the config.
 */
export const compileBody = (value: unknown, at = "body"): Template => {
  if (Jmespath.isShape(value)) return template(expression(value, `${at}.jmespath`, "json"))
  const make = compileValue(value)
  return template((source) => JSON.stringify(make(source)))
}

/** The names of a text's placeholders: words such as `type`, and JSON Pointers. */
export const names = (text: string): ReadonlyArray<string> =>
  [...text.matchAll(placeholder)].map(([, name = ""]) => name.trim())

// The key of an event in a lane: events of one key are kept in order, or put
// into one digest; a recovery has the key of the failure that it ends.

/** Returns the template of the key that events with the same fields have in common. */
export const keyOfFields = (names: ReadonlyArray<string>): string => names.map((name) => `{{${name}}}`).join("/")

/** The key of digests for events that have none of its fields. */
const nothing = "-"

/** The part of a lane that decides about keys. */
interface Grouped {
  readonly key: Text
  readonly alert?: { readonly sends: string; readonly resolves: boolean }
}

/** The key is empty if an event has none: such events keep no order with any other. */
export const orderKey = ({ key, alert }: Grouped): ((entry: Entry) => string) => {
  const { render } = compile(key, "key")
  const keyOf = (entry: Entry) => render(alert?.resolves === true ? { ...entry, event: asFailure(entry.event) } : entry)
  return alert?.sends === "digest" ? (entry) => keyOf(entry) || nothing : keyOf
}
