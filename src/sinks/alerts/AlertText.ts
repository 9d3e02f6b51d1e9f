/**
 * Text for alert services: within a limit, and nothing in it that steers.
 *
 * **Counting.** Services say "characters" and mean code points or UTF-16 code
 * units. Here it is code units, after escaping: the larger number, so a text
 * fits whichever is meant. What is cut ends between characters as a person
 * sees them, with an ellipsis.
 */

/** Makes one character harmless to a service. It sees one at a time, so an escape is never cut in two. */
export type Escape = (text: string) => string

export const asItIs: Escape = (text) => text

/** Control characters, line and paragraph separators, and what reverses the text after it. */
const steering = /[\p{Cc}\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]+/gu

/** One line of whole characters. */
export const clean = (text: string): string => text.toWellFormed().replace(steering, " ").replace(/ {2,}/g, " ").trim()

const graphemes = new Intl.Segmenter("en", { granularity: "grapheme" })

/** Code units read beyond a limit: as much as a grapheme, or blanks that are dropped, may take. */
const beyond = 256

/** The first half of a character whose other half was sliced off. */
const halved = /[\ud800-\udbff]$/

const ellipsis = "…"

/** The text cleaned, escaped and cut to `limit` code units. No more of it is looked at than may be needed. */
export const fit = (text: string, limit: number, harmless: Escape = asItIs): string => {
  const isWhole = text.length <= limit + beyond
  const near = clean(isWhole ? text : text.slice(0, limit + beyond).replace(halved, ""))
  if (isWhole && near.length <= limit) {
    const escaped = harmless(near)
    if (escaped.length <= limit) return escaped
  }
  const characters = Array.from(graphemes.segment(near), ({ segment }) => segment)
  // Where the text goes on the last one may be half of what it was.
  if (!isWhole) characters.pop()
  // A letter under a pile of marks may be larger than the limit: then it is cut between its marks.
  return take(characters, limit, harmless) || take(near, limit, harmless)
}

/** As many of the characters as leave room for the ellipsis, and the ellipsis; empty when that is none. */
const take = (characters: Iterable<string>, limit: number, harmless: Escape): string => {
  let out = ""
  for (const character of characters) {
    const escaped = harmless(character)
    if (out.length + escaped.length > limit - ellipsis.length) break
    out += escaped
  }
  return out === "" ? "" : `${out}${ellipsis}`
}

/** A name and what it holds, both as they are: not yet cleaned, escaped or cut. */
export interface Fact {
  readonly name: string
  readonly value: string
}

/** How many facts a service has room for, and code units for each and for all. */
export interface Room {
  readonly facts: number
  readonly name: number
  readonly value: number
  readonly total: number
}

/** Code units kept free for saying that more was left out. */
const note = 24

/** The facts that there is room for, in their order; what is left out is counted in a last one. */
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
