/**
 * The text of an answer to a failed attempt, as it is kept with the attempt.
 *
 * **Guarantee.** It has at most {@link longest} bytes, and none of the sink's
 * own secrets: many receivers repeat in an answer what they were sent, headers
 * included. What they repeat of an event stays in it.
 */
import { Predicate, Redacted } from "effect"
import { masked } from "../Sink.ts"

/** Bytes of UTF-8. */
export const longest = 2_048

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

/** Cuts a text to its first bytes; what was cut ends in `…`. */
const cut = (text: string): string => {
  const bytes = Buffer.from(text)
  if (bytes.length <= longest) return text
  const mark = "…"
  // A decoder that expects more keeps a character that is cut in two to itself.
  return new TextDecoder().decode(bytes.subarray(0, longest - Buffer.byteLength(mark)), { stream: true }) + mark
}

export type Keep = (text: string, token?: Redacted.Redacted<string>) => Redacted.Redacted<string> | undefined

/** Keeps answers to a sink of this config, less the token that it was sent; `undefined` for one without any text. */
export const keeper = (config: unknown): Keep => {
  const hidden = [...new Set(secretsIn(config).flatMap(partsOf))].sort((one, other) => other.length - one.length)
  return (text, token) => {
    const own = secretsIn(token).filter((secret) => secret !== "")
    const shown = [...own, ...hidden].reduce((text, secret) => text.replaceAll(secret, masked), text)
    // NUL is what not every journal can store.
    return shown.trim() === "" ? undefined : Redacted.make(cut(shown.replaceAll("\u0000", "\ufffd")))
  }
}

/** Characters of a receiver's own words in a message. */
const longestWords = 500
/** Shorter parts of what was sent occur in any text. */
const shortestSent = 3

/** The parts of a text that stand alone in it: lines, and what follows a name. */
const partsIn = (text: string): ReadonlyArray<string> => [text, ...text.split(/\n|: +/)]

/** The texts and numbers of a body: the values of JSON, also without the backslashes of Markdown; else its lines. */
export const sentIn = (body: Uint8Array | undefined): ReadonlyArray<string> => {
  const text = body === undefined ? "" : Buffer.from(body).toString("utf8")
  const leaves = (value: unknown): ReadonlyArray<string> => {
    if (typeof value === "string") return [value, value.replace(/\\(.)/g, "$1")].flatMap(partsIn)
    if (typeof value === "number") return [String(value)]
    return Predicate.isObject(value) || Array.isArray(value) ? Object.values(value).flatMap(leaves) : []
  }
  try {
    return leaves(JSON.parse(text))
  } catch {
    return partsIn(text)
  }
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
  if (Array.isArray(value)) return spokenAt(value[0])
  if (!Predicate.isObject(value)) return ""
  const fields: Readonly<Record<string, unknown>> = { ...value }
  for (const key of wordsAt) {
    const spoken = spokenAt(fields[key])
    if (spoken !== "") return spoken
  }
  return ""
}

/** The words of an answer: a field of JSON, the title of a page, or all of a text. */
export const spokenIn = (answer: string): string => {
  if (/^\s*<(!doctype|html|\?xml)/i.test(answer)) {
    return /<(title|message)>([^<]*)/i.exec(answer)?.[2] ?? ""
  }
  try {
    return spokenAt(JSON.parse(answer))
  } catch {
    return answer
  }
}

/**
 * A receiver's own words, as a message shows them: one line, without the sink's secrets, without addresses, and
 * without `sent`, the parts of what it was sent that it may repeat. Empty if it said nothing.
 */
export const ownWords = (keep: Keep, text: string, sent: ReadonlyArray<string>): string => {
  const kept = keep(text)
  if (kept === undefined) return ""
  const parts = sent.filter((part) => part.length >= shortestSent).sort((one, other) => other.length - one.length)
  const shown = parts.reduce((words, part) => words.replaceAll(part, masked), Redacted.value(kept))
  const line = shown
    .replace(/[^\s@<>"']+@[^\s@<>"']+/g, masked)
    .replace(/\s+/g, " ")
    .replace(/\p{C}/gu, (one) => JSON.stringify(one).slice(1, -1))
    .trim()
  return line.length <= longestWords ? line : `${line.slice(0, longestWords - 1).toWellFormed()}…`
}
