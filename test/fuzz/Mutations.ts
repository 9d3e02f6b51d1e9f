/** Changes of an input: of bytes, of words and numbers, of bracketed parts, and of parts of other inputs. */
import { seeded } from "../lib/seeded.ts"

export type Input = Uint8Array

interface Source {
  readonly seed: number
  /** Texts that mean something to the target. */
  readonly words: ReadonlyArray<Input>
  /** Bytes of an input at most. */
  readonly longest: number
}

const odd = [0, 1, 0x0a, 0x0d, 0x20, 0x22, 0x5c, 0x7f, 0x80, 0xc0, 0xed, 0xfe, 0xff]
const numbers = [
  "0",
  "1",
  "-1",
  "255",
  "256",
  "65535",
  "2147483647",
  "-2147483648",
  "4294967296",
  "9007199254740993",
  "1e400",
  "0.1",
]
const brackets: Readonly<Record<string, string>> = { "{": "}", "[": "]", "(": ")", '"': '"', "'": "'", "`": "`" }

const concat = (...parts: ReadonlyArray<Input>): Input => Buffer.concat(parts)

/** The end of the bracketed or quoted part that begins at `start`, or `undefined` if it is not closed. */
const endOf = (input: Input, start: number): number | undefined => {
  const open = String.fromCharCode(input[start] ?? 0)
  const close = brackets[open]
  if (close === undefined) return undefined
  let depth = 0
  for (let at = start; at < input.length; at++) {
    const one = String.fromCharCode(input[at] ?? 0)
    if (one === "\\") at++
    else if (one === close && (open !== close || at > start)) depth -= 1
    else if (one === open) depth += 1
    if (depth === 0 && at > start) return at + 1
  }
  return undefined
}

export class Mutations {
  readonly #random: () => number
  readonly #source: Source
  readonly #words: Array<Input>

  constructor(source: Source) {
    this.#source = source
    this.#words = [...source.words]
    this.#random = seeded(source.seed)
  }

  below(end: number): number {
    return Math.floor(this.#random() * end)
  }

  pick<A>(from: ReadonlyArray<A>): A {
    return from[this.below(from.length)] as A
  }

  /** Returns an input with one to sixteen changes. `other` is another input, whose parts may be taken. */
  of(input: Input, other: Input): Input {
    let changed = input
    for (let left = this.pick([1, 1, 1, 2, 2, 4, 8, 16]); left > 0; left--) changed = this.#changed(changed, other)
    return changed.subarray(0, this.#source.longest)
  }

  #changed(input: Input, other: Input): Input {
    const at = this.below(input.length + 1)
    const size = 1 + this.below(this.pick([2, 4, 16, 64, 1_024]))
    const before = input.subarray(0, at)
    switch (this.below(12)) {
      case 0: {
        const flipped = Uint8Array.from(input)
        const place = at % Math.max(1, input.length)
        flipped[place] = (flipped[place] ?? 0) ^ (1 << this.below(8))
        return flipped
      }
      case 1: {
        const set = Uint8Array.from(input)
        if (input.length > 0) set[at % input.length] = this.pick([this.below(256), this.pick(odd)])
        return set
      }
      case 2:
        return concat(before, input.subarray(at + size))
      case 3:
        return concat(
          before,
          Uint8Array.from({ length: Math.min(size, 16) }, () => this.below(256)),
          input.subarray(at),
        )
      case 4:
        return this.#repeated(input, at, size)
      case 5: {
        const from = this.below(other.length + 1)
        return concat(before, other.subarray(from, from + size), input.subarray(at + this.pick([0, size])))
      }
      case 6:
      case 7:
        return this.#words.length === 0
          ? input
          : concat(before, this.pick(this.#words), input.subarray(at + this.pick([0, 0, size])))
      case 8:
        return this.#number(input, at)
      case 9:
        return this.#integer(input, at)
      default:
        return this.#bracketed(input, at, other)
    }
  }

  #repeated(input: Input, at: number, size: number): Input {
    const part = input.subarray(at, at + Math.min(size, 64))
    const times = this.pick([1, 1, 2, 8, 300])
    return concat(input.subarray(0, at), ...Array.from({ length: times }, () => part), input.subarray(at))
  }

  /** Exchanges the digits around a place. */
  #number(input: Input, at: number): Input {
    const isDigit = (index: number): boolean => (input[index] ?? 0) >= 0x30 && (input[index] ?? 0) <= 0x39
    let start = at
    while (start < input.length && !isDigit(start)) start++
    let end = start
    while (isDigit(end)) end++
    return concat(input.subarray(0, start), Buffer.from(this.pick(numbers)), input.subarray(end))
  }

  /** Writes an integer of the sizes that binary formats have. */
  #integer(input: Input, at: number): Input {
    const size = this.pick([2, 4, 8])
    const bytes = Buffer.alloc(size)
    const value = this.pick([0, 1, 2, 0x7f, 0x80, 0xff, 0x7fff, 0x7fffffff, 0xffffffff, this.below(1_000)])
    if (this.below(2) === 0) bytes.writeUIntBE(value % 2 ** (8 * Math.min(size, 6)), 0, Math.min(size, 6))
    else bytes.writeUIntLE(value % 2 ** (8 * Math.min(size, 6)), 0, Math.min(size, 6))
    return concat(input.subarray(0, at), bytes, input.subarray(at + size))
  }

  /** Deletes, doubles, nests or exchanges a part in brackets or quotes. */
  #bracketed(input: Input, at: number, other: Input): Input {
    const [start, end] = this.#part(input, at)
    const [from, to] = this.#part(other, this.below(other.length + 1))
    const part = input.subarray(start, end)
    const own = [input.subarray(0, start), input.subarray(end)] as const
    switch (this.below(4)) {
      case 0:
        return concat(...own)
      case 1:
        return concat(own[0], part, Buffer.from(this.pick([",", ".", " ", "\n", ""])), part, own[1])
      case 2:
        return concat(own[0], other.subarray(from, to), own[1])
      default: {
        const [open, close] = this.pick(Object.entries(brackets))
        return concat(own[0], Buffer.from(open), part, Buffer.from(close), own[1])
      }
    }
  }

  /** The next bracketed part from a place on. It is empty if there is none. */
  #part(input: Input, at: number): readonly [start: number, end: number] {
    for (let start = at; start < Math.min(input.length, at + 200); start++) {
      const end = endOf(input, start)
      if (end !== undefined) return [start, end]
    }
    return [at, at]
  }
}

/** Milliseconds to shorten an input. */
const shortenFor = 15_000

/** Returns a shorter input that still `fails`. Removes parts, from halves down to single bytes. */
export const shrunk = async (
  input: Input,
  fails: (input: Input) => Promise<boolean>,
  tries = 3_000,
): Promise<Input> => {
  const until = performance.now() + shortenFor
  let best = input
  let left = tries
  for (let size = Math.ceil(best.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
    for (let at = 0; at < best.length && left > 0 && performance.now() < until; left--) {
      const shorter = concat(best.subarray(0, at), best.subarray(at + size))
      if (await fails(shorter)) best = shorter
      else at += size
    }
  }
  return best
}
