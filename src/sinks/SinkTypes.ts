/**
 * The types of sinks as a table, in the order of their names.
 *
 * **Guarantee.** A preview gets a config without secrets, so none can show one.
 */
import { Record, Redacted } from "effect"
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

/** Reports whether sinks of a type send alerts, which report events and don't carry them. */
export const sendsAlerts = (type: string): boolean => sinkTypes[type]?.messages?.recoveries !== undefined
