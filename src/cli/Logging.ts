/** The log of `relay run`, on stderr: lines for a person, or JSON for a collector. */
import { Formatter, Logger } from "effect"
import { plain } from "./Output.ts"

const text = (value: unknown): string => (typeof value === "string" ? value : Formatter.format(value))

/** `2026-11-21T03:04:55.694Z WARN  what happened  key=value`. */
const lines = Logger.map(Logger.formatStructured, ({ timestamp, level, message, annotations, cause }) => {
  const words = (Array.isArray(message) ? message : [message]).map((part) => plain(text(part))).join(" ")
  const facts = Object.entries(annotations).map(([key, value]) => `  ${key}=${plain(text(value))}`)
  return `${timestamp} ${level.padEnd(5)} ${words}${facts.join("")}${cause === undefined ? "" : `\n${cause}`}`
})

export const layer = (json: boolean) => Logger.layer([Logger.withConsoleError(json ? Logger.formatJson : lines)])
