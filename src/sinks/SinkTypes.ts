/**
 * The types of sinks as a table, in the order of their names.
 *
 * **Guarantee.** A preview gets a config without secrets, so none can show one.
 */
import { Record, Redacted } from "effect"
import { fields } from "../config/Fields.ts"
import { partOf, traitOf, written } from "../config/schema/Traits.ts"
import * as Jmespath from "../formats/jmespath/Jmespath.ts"
import { type AnySinkType, masked } from "./Sink.ts"
import * as sinks from "./Sinks.ts"

const isPlain = (value: object): value is Readonly<Record<string, unknown>> =>
  Object.getPrototypeOf(value) === Object.prototype

/** A config with every secret masked. */
const withoutSecrets = (value: unknown): unknown => {
  if (Redacted.isRedacted(value)) return Redacted.make(masked)
  if (Array.isArray(value)) return value.map(withoutSecrets)
  return typeof value === "object" && value !== null && isPlain(value) ? Record.map(value, withoutSecrets) : value
}

const types: Readonly<Record<string, AnySinkType>> = Record.map<string, AnySinkType, AnySinkType>(sinks, (type) => ({
  ...type,
  preview: (config, batch) => type.preview(withoutSecrets(config), batch),
}))

/** The types of sinks by the name that a config gives them. */
export const sinkTypes: typeof types = Object.fromEntries(
  Object.entries(types).toSorted(([one], [other]) => (one < other ? -1 : 1)),
)

/** Reports whether all sinks of a type send alerts, which report events and don't carry them. */
export const sendsAlerts = (type: string): boolean => {
  const messages = sinkTypes[type]?.messages
  return messages !== undefined && messages.composes === undefined
}

/** An expression is shown as its text. If a URL may hold a secret, only its scheme and host are shown. */
const textOf = (value: unknown): string => {
  if (Array.isArray(value)) return value.map(textOf).join(", ")
  if (typeof value === "string") return value
  if (Jmespath.isShape(value)) return value.jmespath
  const url = Redacted.isRedacted(value) ? String(Redacted.value(value)) : ""
  if (!URL.canParse(url)) return ""
  const { protocol, host } = new URL(url)
  return `${protocol}//${host}`
}

/** Returns the target of a sink without secrets: its file, topic or queue, and its servers. Empty if it has none. */
export const targetOf = (type: string, config: unknown): string => {
  const schema = sinkTypes[type]?.config
  const all = Object.entries(fields(config)).map(([key, value]) => {
    const ast = schema && partOf(written(schema), key)
    return { part: ast && traitOf(ast, "target"), text: textOf(value) }
  })
  const shown = (wanted: string) => all.flatMap(({ part, text }) => (part === wanted && text !== "" ? [text] : []))
  return [...shown("place"), ...shown("servers")].join(" at ")
}
