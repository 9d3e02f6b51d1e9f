/**
 * Texts for alert services: within a limit, and without control characters.
 *
 * **Gotcha.** A service's "characters" are code points or UTF-16 code units. Here
 * code units after escaping are counted, which is the larger number. A text is
 * cut between graphemes, and ends with an ellipsis.
 */

/** Escapes one character for a service. One at a time, so that no escape is cut in two. */
export type Escape = (text: string) => string

export const asItIs: Escape = (text) => text

/** Control characters, line and paragraph separators, and marks that change the direction of text. */
const steering = /[\p{Cc}\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]+/gu

/** The text as one line, without control characters and lone surrogates. */
export const clean = (text: string): string => text.toWellFormed().replace(steering, " ").replace(/ {2,}/g, " ").trim()

const graphemes = new Intl.Segmenter("en", { granularity: "grapheme" })

/** Code units read beyond a limit: room for a grapheme, and for blanks that are dropped. */
const beyond = 256

/** A lone surrogate at the end of a slice. */
const halved = /[\ud800-\udbff]$/

const ellipsis = "…"

/** The text cleaned, escaped and cut to `limit` code units. Only as much of it is read as may be needed. */
export const fit = (text: string, limit: number, harmless: Escape = asItIs): string => {
  const isWhole = text.length <= limit + beyond
  const near = clean(isWhole ? text : text.slice(0, limit + beyond).replace(halved, ""))
  if (isWhole && near.length <= limit) {
    const escaped = harmless(near)
    if (escaped.length <= limit) return escaped
  }
  const characters = Array.from(graphemes.segment(near), ({ segment }) => segment)
  // The last one may be incomplete.
  if (!isWhole) characters.pop()
  // A single grapheme may exceed the limit: then it is cut within.
  return take(characters, limit, harmless) || take(near, limit, harmless)
}

/** The characters that fit before the ellipsis, and the ellipsis; empty if none fits. */
const take = (characters: Iterable<string>, limit: number, harmless: Escape): string => {
  let out = ""
  for (const character of characters) {
    const escaped = harmless(character)
    if (out.length + escaped.length > limit - ellipsis.length) break
    out += escaped
  }
  return out === "" ? "" : `${out}${ellipsis}`
}

/** A name and a value, not yet cleaned, escaped or cut. */
export interface Fact {
  readonly name: string
  readonly value: string
}

/** A service's limits: the number of facts, and code units of each part and in total. */
export interface Room {
  readonly facts: number
  readonly name: number
  readonly value: number
  readonly total: number
}

/** Code units reserved for the note that facts were left out. */
const note = 24

/** The facts that fit, in order; a last one counts those that don't. */
export const arrange = (facts: ReadonlyArray<Fact>, room: Room, harmless: Escape = asItIs): ReadonlyArray<Fact> => {
  const kept: Array<Fact> = []
  let left = room.total - note
  for (const [index, fact] of facts.entries()) {
    const name = fit(fact.name, room.name, harmless) || ellipsis
    const value = fit(fact.value, room.value, harmless) || ellipsis
    left -= name.length + value.length
    const isLast = index === facts.length - 1
    if (left < 0 || kept.length === room.facts - (isLast ? 0 : 1)) {
      return [...kept, { name: ellipsis, value: `${facts.length - index} more` }]
    }
    kept.push({ name, value })
  }
  return kept
}
