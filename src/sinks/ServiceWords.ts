/** A service's own words, for messages that people read. */
import { Predicate, Redacted } from "effect"
import { orUndefined } from "../event/Tolerance.ts"
import * as Terminal from "../formats/Texts.ts"
import { masked } from "./Sink.ts"

// The text of an answer to a failed attempt, as it is kept with the attempt.
//
// **Guarantee.** It has at most {@link longestKept} bytes and none of the sink's own secrets: many
// receivers repeat the request in an answer, headers included. Parts of an event that they repeat
// are kept.

/** Bytes of UTF-8. */
export const longestKept = 2_048

/** A shorter text occurs in answers by chance. */
const shortestSecret = 8
/** The lower limit for the parts of a URL and of a header: most are words. */
const shortestPart = 12

/** All texts of a config that are never shown. */
const secretsIn = (value: unknown): ReadonlyArray<string> => {
  if (Redacted.isRedacted(value)) {
    const text = Redacted.value(value)
    return typeof text === "string" ? [text] : []
  }
  return Predicate.isObject(value) || Array.isArray(value) ? Object.values(value).flatMap(secretsIn) : []
}

/** A receiver may repeat these parts of a secret: a header without `Bearer`, a URL's path, query and their parts. */
const partsOf = (secret: string): ReadonlyArray<string> => {
  const fixed = secret.split(/\{\{.*?\}\}/)
  const words = fixed.flatMap((text) => text.replace(/^https?:\/\/[^/?#]*/i, "").split(/\s+/))
  return [
    ...fixed.filter((text) => text.length >= shortestSecret),
    ...words.flatMap((word) => [word, ...word.split(/[/?&=]/)]).filter((part) => part.length >= shortestPart),
  ]
}

/** Cuts a text to its first bytes. A text that was cut ends in `…`. */
const cutKept = (text: string): string => {
  const bytes = Buffer.from(text)
  if (bytes.length <= longestKept) return text
  const mark = "…"
  // A decoder that expects more bytes leaves out a character that is cut in two.
  return new TextDecoder().decode(bytes.subarray(0, longestKept - Buffer.byteLength(mark)), { stream: true }) + mark
}

export type Keep = (text: string, token?: Redacted.Redacted<string>) => Redacted.Redacted<string> | undefined

/**
 * Returns a function that prepares answers to be kept. It masks the secrets of the
 * sink's config and the token that was sent, and returns `undefined` for an answer
 * without text.
 */
export const keeper = (config: unknown): Keep => {
  const hidden = [...new Set(secretsIn(config).flatMap(partsOf))].sort((one, other) => other.length - one.length)
  return (text, token) => {
    const own = secretsIn(token).filter((secret) => secret !== "")
    const shown = [...own, ...hidden].reduce((text, secret) => text.replaceAll(secret, masked), text)
    // Not every journal can store NUL.
    return shown.trim() === "" ? undefined : Redacted.make(cutKept(shown.replaceAll("\u0000", "\ufffd")))
  }
}

/** The longest text that is kept, in code units. */
const longest = 500

/** The text as one line, with control characters escaped, and cut. The service may have written anything into it. */
export const oneLine = (text: string): string => {
  const line = Terminal.escaped(JSON.stringify(text.trim().slice(0, longest))).slice(1, -1)
  const shown = line.replaceAll('\\"', '"')
  return shown.length <= longest ? shown : `${shown.slice(0, longest - 1).toWellFormed()}…`
}

/** Shorter parts of the request occur in any text. */
const shortestSent = 3

/** The separate parts of a text: lines, and the values after names. */
const partsIn = (text: string): ReadonlyArray<string> => [text, ...text.split(/\n|: +/)]

/**
 * Returns the texts and numbers of a body: the values of JSON, with and without
 * Markdown's backslashes, or the lines of any other body.
 */
export const sentIn = (body: Uint8Array | undefined): ReadonlyArray<string> => {
  const text = body === undefined ? "" : Buffer.from(body).toString("utf8")
  const leaves = (value: unknown): ReadonlyArray<string> => {
    if (typeof value === "string") return [value, value.replace(/\\(.)/g, "$1")].flatMap(partsIn)
    if (typeof value === "number") return [String(value)]
    return Predicate.isObject(value) || Array.isArray(value) ? Object.values(value).flatMap(leaves) : []
  }
  return orUndefined(() => leaves(JSON.parse(text))) ?? partsIn(text)
}

/** Where services put their words into an answer, the most telling first. */
const wordsAt = [
  "error_description",
  "detail",
  "message",
  "error_message",
  "error",
  "title",
  "reason",
  "errors",
  "status",
]

const spokenAt = (value: unknown): string => {
  if (typeof value === "string") return value
  if (Array.isArray(value)) return value.map(spokenAt).filter(Boolean).join("; ")
  if (!Predicate.isObject(value)) return ""
  const fields: Readonly<Record<string, unknown>> = { ...value }
  for (const key of wordsAt) {
    const spoken = spokenAt(fields[key])
    if (spoken === "") continue
    // A list of errors is more exact than a general message.
    const errors = Array.isArray(fields.errors) ? spokenAt(fields.errors) : ""
    return errors === "" || spoken.includes(errors) ? spoken : `${spoken}: ${errors}`
  }
  return ""
}

/**
 * Returns mistakes that are listed by field, as in Django's `{"content":["This field
 * is required"]}`. Returns an empty text for other JSON.
 */
const mistakesIn = (value: unknown): string => {
  const fields: ReadonlyArray<readonly [string, unknown]> = Predicate.isObject(value) ? Object.entries(value) : []
  const lists = fields.flatMap(([name, list]) =>
    Array.isArray(list) && list.every(Predicate.isString) ? [`${name}: ${list.join("; ")}`] : [],
  )
  return lists.length === fields.length ? lists.join(", ") : ""
}

/** The words of an answer: a field of JSON, the title of a page, or all of a text. */
export const spokenIn = (answer: string): string => {
  if (/^\s*<(!doctype|html|\?xml)/i.test(answer)) {
    return /<(title|message)>([^<]*)/i.exec(answer)?.[2] ?? ""
  }
  const read = (value: unknown) => spokenAt(value) || mistakesIn(value)
  return orUndefined(() => read(JSON.parse(answer))) ?? answer
}

/**
 * Returns a receiver's own words for a message: one line, without the sink's
 * secrets, addresses, or parts of the request (`sent`). Returns an empty text for an
 * answer without words.
 */
export const ownWords = (keep: Keep, text: string, sent: ReadonlyArray<string>): string => {
  const kept = keep(text)
  if (kept === undefined) return ""
  const parts = sent.filter((part) => part.length >= shortestSent).sort((one, other) => other.length - one.length)
  const shown = parts.reduce((words, part) => words.replaceAll(part, masked), Redacted.value(kept))
  return oneLine(shown.replace(/[^\s@<>"']+@[^\s@<>"']+/g, masked).replace(/\s+/g, " "))
}
