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
