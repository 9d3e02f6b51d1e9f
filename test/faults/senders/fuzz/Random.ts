/** Random draws for every fuzz: choices, counts, and text that causes trouble somewhere. */
import { seeded } from "../../../lib/seeded.ts"

export interface Random {
  /** A whole number from 0 to below `end`. */
  readonly below: (end: number) => number
  readonly chance: (probability: number) => boolean
  readonly pick: <A>(from: ReadonlyArray<A>) => A
  /** At most `most` results of `make`. */
  readonly some: <A>(most: number, make: () => A) => ReadonlyArray<A>
  /** Pieces that mean something to a parser, in a row. */
  readonly trouble: (most: number) => string
  /** `text` with a few characters taken out, put in, exchanged or doubled. */
  readonly hurt: (text: string, times: number) => string
}

const pieces = [
  ..."aZ09_-.*/\\:;,=+?#&%@!|~$<>()[]{}\"'` \t\r\n\0\x1b\x7f\x80\xa0\xff",
  ...[
    "{{",
    "}}",
    "{{type}}",
    "${",
    "}",
    "$${",
    "//",
    "/*",
    "..",
    "**",
    "%2e",
    "\r\n",
    "\ufeff",
    "\u2028",
    "é",
    "☃",
    "😀",
  ],
  ...["\ud800", "\udc00", "file:", "null", "true", "1e999", "-0", "__proto__", "constructor", "toString", "relay."],
]

const drawnFrom = (random: () => number): Random => {
  const below = (end: number): number => Math.floor(random() * end)
  const pick = <A>(from: ReadonlyArray<A>): A => from[below(from.length)] as A
  const some = <A>(most: number, make: () => A): ReadonlyArray<A> => Array.from({ length: below(most + 1) }, make)
  const trouble = (most: number): string => some(most, () => pick(pieces)).join("")
  const hurt = (text: string, times: number): string => {
    let hurt = text
    for (let time = 0; time < times; time++) {
      const at = below(hurt.length + 1)
      const end = at + below(4)
      const piece = pick([...[pick(pieces)], hurt.slice(at, at + below(40)), ""])
      hurt = hurt.slice(0, at) + piece + hurt.slice(end)
    }
    return hurt
  }
  return { below, chance: (probability) => random() < probability, pick, some, trouble, hurt }
}

export const make = (seed: number): Random => drawnFrom(seeded(seed))

/** Draws by the bytes of an input, two for each draw, and then from a seed. */
export const chosenBy = (input: Uint8Array): Random => {
  const rest = seeded(input.length)
  let at = 0
  return drawnFrom(() => {
    const [high, low] = [input[at], input[at + 1]]
    at += 2
    return high === undefined || low === undefined ? rest() : (high * 256 + low) / 65_536
  })
}

/** Result of one round. `side` is the way that it went: a fuzz that only ever goes one way tests nothing. */
export interface Found {
  readonly side: string
  readonly wrong?: string
}

export interface Fuzz {
  readonly name: string
  readonly fault: string
  /** All the ways that a round can go. */
  readonly sides: ReadonlyArray<string>
  /** Prepares shared state. Returns a function that plays a round. */
  readonly open: () => Promise<(random: Random) => Found | Promise<Found>>
}
