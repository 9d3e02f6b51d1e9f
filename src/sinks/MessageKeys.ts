/** The keys that the configs of message brokers and files share, and the bodies and headers that they make. */
import { Effect, Schema } from "effect"
import * as Address from "../config/Address.ts"
import { oneOf, orExpression, Shape, textOrShapeOr } from "../config/schema/Keys.ts"
import type { Entry } from "../event/Event.ts"
import { eventTypes, resource } from "../event/EventType.ts"
import { idempotencyKey } from "../event/IdempotencyKey.ts"
import { type Header, identity, provenance } from "../formats/CloudEvents.ts"
import { Unrenderable } from "../formats/Rendering.ts"
import * as Template from "../formats/Template.ts"
import * as Signing from "./Signing.ts"

/** Says why a text is not a host and port. `thing` is the config's name for it. */
export const hostProblem =
  (thing: string, example: string) =>
  (text: string): string | undefined => {
    if (Address.parse(text) !== undefined) return undefined
    return /^[a-z]+:\/\//i.test(text)
      ? `a ${thing} is host and port alone, such as "${example}"`
      : `this is not a ${thing}: write host and port, such as "${example}"`
  }

/** A host and port. A wrong text may hold a password, so it isn't shown. */
export const host = (
  problem: (text: string) => string | undefined,
  doc: { readonly description?: string; readonly examples: ReadonlyArray<string> },
) =>
  Schema.String.annotate({ ...doc, shown: false, target: "servers" }).check(
    Schema.makeFilter(problem, { toJsonSchema: () => ({ pattern: Address.pattern }) }),
  )

/** The hosts to connect to. At least one is required, and `none` is the message if there are none. */
export const hosts = (thing: string, example: string, description: string, none: string) => {
  const port = example.replace(/^.*:/, "")
  const together = `each ${thing} stands in its own quotes: ["one:${port}", "two:${port}"]`
  const problem = hostProblem(thing, example)
  return Schema.Array(
    host((text) => problem(text) && (text.includes(",") ? together : problem(text)), { examples: [example] }),
  )
    .annotate({ description, examples: [[`127.0.0.1:${port}`]], target: "servers" })
    .check(Schema.isMinLength(1, { message: none }))
}

/** The default of the key. */
export const usualKey = "{{account_id}}"

/** The template of the key: `order` keeps the events of one key in order. The lane reads it too. */
export const key = textOrShapeOr("A template over the envelope: what `order` keeps apart", usualKey)

type Headers = Readonly<Record<string, Template.Text>>

/** The config's own headers, by name. `problem` describes headers that a broker refuses. */
export const headers = (problem: (headers: Headers) => Schema.FilterIssue | undefined = () => undefined) =>
  Schema.Record(Schema.String, Schema.Union([Schema.String.annotate({ shown: true }), Shape]).annotate(orExpression))
    .annotate({
      description: "Headers in addition to the relay's own; values are templates or expressions",
      headerNames: true,
    })
    .check(Schema.makeFilter(problem))
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed({})))

/** The key for the format of the body and the headers. */
export const format = oneOf(
  "`raw`: the signed bytes. `cloudevents`: the signed bytes, with headers that follow CloudEvents 1.0. `template`: `body`, filled in",
  ["raw", "cloudevents", "template"],
  "raw",
)

/** Makes the body of an event's message. Throws if a template throws. With other formats it is the received body itself. */
export const bodyOf = ({
  format,
  body,
}: {
  readonly format: string
  readonly body?: unknown
}): ((entry: Entry) => Uint8Array) => {
  if (format !== "template") return ({ event }) => event.body
  const { render } = Template.compileBody(body)
  return (entry) => Buffer.from(render(entry))
}

/** Advice for messages that are too large. With a `body` of the config, the received body decides little about the size. */
export const smaller = ({ format }: { readonly format: string }): string =>
  format === "template" ? 'put less into "body"' : "lower the webhook's maxBody"

/** Reports a `body` that doesn't make a JSON object, for sinks that accept only objects. */
export const objectProblem = ({ body }: { readonly body?: unknown }): Schema.FilterIssue | undefined =>
  body === undefined || (typeof body === "object" && body !== null && !Array.isArray(body))
    ? undefined
    : { path: ["body"], issue: "the body must be a JSON object here, or an expression that makes one" }

/** Makes the JSON object of an event by a config's `body`. Throws if it makes another value, or if a template throws. */
export const objectOf = (body: unknown): ((entry: Entry) => string) => {
  const { render } = Template.compileBody(body)
  return (entry) => {
    const text = render(entry)
    if (text.startsWith("{")) return text
    throw new Unrenderable('the expression in "body" must make a JSON object, and makes another value of this event')
  }
}

// The headers of a message to a broker: the relay's facts about the event, the sender's, its signature, and the
// config's own.

/** The part of a config that shapes headers. */
interface HeaderConfig {
  readonly format: "raw" | "cloudevents" | "template"
  readonly headers: Headers
  readonly sign?: Signing.SignatureConfig
}

/** The differences between brokers. */
interface Broker {
  /** Whether a value may be any text, or must be a single line for a header. */
  readonly values: "text" | "header"
  /** The first headers, with `raw` and `template`. */
  readonly raw: ReadonlyArray<Header>
  /** CloudEvents' binary mode, in this broker's binding. */
  readonly cloudEvent: (entry: Entry) => ReadonlyArray<Header>
}

/** The content type of the signed bytes, and of bodies that the config makes. */
export const jsonHeader: Header = ["content-type", "application/json"]

/** Sets a header of the config. It replaces the relay's header of the same name. */
const set = (headers: Array<Header>, header: Header): void => {
  const at = headers.findIndex(([name]) => name === header[0])
  headers[at === -1 ? headers.length : at] = header
}

/**
 * Returns a function that makes the headers of an event. That function throws if a template throws. `now` is the clock
 * of signatures: see `Signing.bodySigner`.
 */
export const sentHeaders = (config: HeaderConfig, { values, raw, cloudEvent }: Broker, now?: () => number) => {
  const own = Object.entries(config.headers).map(
    ([name, value]) => [name, Template.compile(value, values, `headers.${name}`)] as const,
  )
  const fit = values === "header" ? Template.escapeHeader : undefined
  const sign = config.sign && Signing.bodySigner(config.sign, now)
  // Only a received body has the sender's signature. A body of `null` has no signature.
  return (entry: Entry, body: Uint8Array | null): ReadonlyArray<Header> => {
    const headers = config.format === "cloudevents" ? [...cloudEvent(entry)] : [...raw, ...identity(entry, fit)]
    headers.push(...provenance(entry, fit, body === entry.event.body))
    if (sign !== undefined && body !== null) headers.push(...Object.entries(sign(body, idempotencyKey(entry))))
    for (const [name, value] of own) set(headers, [name, value.render(entry)])
    return headers
  }
}

// The names that a template gives to events of the known types, for advice before there is an event.

const placeholder = /\{\{\s*(type|resource)\s*\}\}/g

/** Returns the topics or subjects of events of these types, or none if the text needs more than the type. */
export const possibleValues = (
  template: Template.Text,
  types: ReadonlyArray<string> = eventTypes,
): ReadonlyArray<string> => {
  if (typeof template !== "string") return []
  const nameOf = (type: string) => template.replace(placeholder, (_, key) => (key === "type" ? type : resource(type)))
  return template.replace(placeholder, "").includes("{{") ? [] : [...new Set(types.map(nameOf))]
}
