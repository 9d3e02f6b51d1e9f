/** Where a sink sends: its file, topic or queue, and its servers, as its config names them. */
import { Redacted } from "effect"

/** The keys that name a place at a service. A mail's subject is not a place. */
const places = ["path", "topic", "topicArn", "queueUrl", "eventBusArn", "exchange"]
const servers = ["brokers", "servers", "server", "url"]

/** If a URL may hold a secret, only its scheme and host are shown. */
const textOf = (value: unknown): string => {
  if (Array.isArray(value)) return value.map(textOf).join(", ")
  if (typeof value === "string") return value
  const url = Redacted.isRedacted(value) ? String(Redacted.value(value)) : ""
  if (!URL.canParse(url)) return ""
  const { protocol, host } = new URL(url)
  return `${protocol}//${host}`
}

/** Returns the target without secrets; empty if the config names none. */
export const targetOf = (config: unknown): string => {
  if (typeof config !== "object" || config === null) return ""
  const keys: Readonly<Record<string, unknown>> = { ...config }
  const shown = (names: ReadonlyArray<string>) => names.map((name) => textOf(keys[name])).find((text) => text !== "")
  const place = shown("servers" in keys ? ["subject"] : places)
  return [place, shown(servers)].filter((text) => text !== undefined).join(" at ")
}
