/**
 * The limits of an expression: its number of steps, and the characters of its texts
 * and results. JMESPath always ends, but nested projections over a long list, or a
 * text doubled twenty times, end too late.
 */
import { Predicate } from "effect"
import * as Numbers from "../../event/Numbers.ts"

/** Limits, as the reference states them. */
export const limits = {
  /** Characters of an expression. */
  length: 8_192,
  /** Levels of an expression. */
  depth: 200,
  /** Steps of one evaluation: a part of the expression at an element, an element copied, 16 characters. */
  steps: 200_000,
  /** Characters of a text that a function makes, and of the result as JSON. */
  result: 1_048_576,
  /** Levels of the result. */
  resultDepth: 1_000,
} as const

/** Why an expression has no result for an event; its message holds no part of the event. */
export class Failure extends Error {
  override readonly name = "Failure"
  /** Whether the message names its place, such as a function. */
  readonly isPlaced: boolean
  constructor(message: string, isPlaced = false) {
    super(message)
    this.isPlaced = isPlaced
  }
}

export type Kind = "null" | "boolean" | "number" | "string" | "array" | "object" | "expression"

/** An expression as a function's argument, with the variables that it sees. */
export class Reference {
  readonly at: (value: unknown) => unknown
  constructor(at: (value: unknown) => unknown) {
    this.at = at
  }
}

export const kindOf = (value: unknown): Kind => {
  if (value === null || value === undefined) return "null"
  if (typeof value === "string") return "string"
  if (typeof value === "boolean") return "boolean"
  if (Array.isArray(value)) return "array"
  if (value instanceof Reference) return "expression"
  return Numbers.isNumber(value) ? "number" : "object"
}

/** Reads a value of kind `object`. */
export const asObject = (value: unknown): Readonly<Record<string, unknown>> | undefined =>
  Predicate.isObject(value) && kindOf(value) === "object" ? (value as Record<string, unknown>) : undefined

/** JMESPath's false values: null, false, and empty values. */
export const isFalse = (value: unknown): boolean => {
  if (value === null || value === undefined || value === false || value === "") return true
  if (Array.isArray(value)) return value.length === 0
  const object = asObject(value)
  return object !== undefined && Object.keys(object).length === 0
}

/** One evaluation: its root, and the steps that it has left. */
export class Budget {
  #left: number = limits.steps
  readonly root: unknown
  readonly #given: (name: string) => unknown
  readonly #variables = new Map<string, unknown>()

  constructor(root: unknown, given: (name: string) => unknown) {
    this.root = root
    this.#given = given
  }

  /** A variable that is there without a `let`; it is made once. */
  variable(name: string): unknown {
    const before = this.#variables.get(name)
    if (before !== undefined) return before
    const value = this.#given(name) ?? null
    this.#variables.set(name, value)
    return value
  }

  spend(steps: number): void {
    this.#left -= steps
    if (this.#left < 0) throw new Failure(`takes more than ${limits.steps.toLocaleString("en")} steps`)
  }

  /** Pays for reading or making a text of this length. */
  text(length: number): void {
    if (length > limits.result) throw new Failure(`makes a text of more than ${limits.result} characters`)
    this.spend(length >> 4)
  }

  /** Pays for looking for a text in another: engines compare each place, one by one at worst. */
  find(within: string, text: string): void {
    this.spend((within.length >> 4) * (1 + (text.length >> 4)))
  }

  /** Pays for comparing two texts. */
  compare(one: string, other: string): void {
    this.spend(1 + (Math.min(one.length, other.length) >> 6))
  }

  isEqual(one: unknown, other: unknown, depth = 0): boolean {
    this.spend(1)
    if (depth > limits.resultDepth) throw new Failure(`compares values of more than ${limits.resultDepth} levels`)
    if (typeof one === "string" && typeof other === "string") {
      this.compare(one, other)
      return one === other
    }
    if (Array.isArray(one) && Array.isArray(other)) {
      return one.length === other.length && one.every((item, index) => this.isEqual(item, other[index], depth + 1))
    }
    const [mine, theirs] = [asObject(one), asObject(other)]
    if (mine !== undefined && theirs !== undefined) {
      const keys = Object.keys(mine)
      this.spend(keys.length)
      return (
        keys.length === Object.keys(theirs).length &&
        keys.every((key) => Object.hasOwn(theirs, key) && this.isEqual(mine[key], theirs[key], depth + 1))
      )
    }
    if (!Numbers.isLong(one) && !Numbers.isLong(other)) return one === other
    const [text, others] = [Numbers.textOf(one), Numbers.textOf(other)]
    if (text === undefined || others === undefined) return false
    this.compare(text, others)
    return text === others
  }

  /** Orders two numbers, and pays for reading their digits. */
  order(one: number | Numbers.Long, other: number | Numbers.Long): number {
    for (const number of [one, other]) if (typeof number === "object") this.spend(number.rawJSON.length >> 4)
    return Numbers.compare(one, other)
  }

  /** Pays for writing a value as JSON, before it is written: parts that occur twice are written twice. */
  #measure(value: unknown, depth: number): number {
    this.spend(1)
    if (depth > limits.resultDepth) throw new Failure(`makes a value of more than ${limits.resultDepth} levels`)
    if (typeof value === "string") {
      this.text(value.length)
      return value.length + 2
    }
    if (value instanceof Reference) throw new Failure("gives an expression: & is for the arguments of functions")
    let length = 2
    if (Array.isArray(value)) for (const item of value) length += this.#measure(item, depth + 1) + 1
    else {
      const object = asObject(value)
      if (object === undefined) return 5
      for (const key of Object.keys(object)) length += key.length + 4 + this.#measure(object[key], depth + 1)
    }
    if (length > limits.result) throw new Failure(`makes JSON of more than ${limits.result} characters`)
    return length
  }

  /** The value as JSON. */
  json(value: unknown): string {
    this.#measure(value, 0)
    const text = JSON.stringify(value ?? null)
    if (text.length > limits.result) throw new Failure(`makes JSON of more than ${limits.result} characters`)
    return text
  }
}

/** The words of an expression with their places, which the library's errors leave out. */

export interface Token {
  readonly text: string
  /** The position of its first character, from 0. */
  readonly start: number
}

/** Blanks, names, texts in three kinds of quotes, variables, numbers and signs. */
const token =
  /[\t\n\r ]+|[A-Za-z_][A-Za-z0-9_]*|(["'`])(?:(?!\1)[^\\]|\\.)*\1|\$(?:[A-Za-z_][A-Za-z0-9_]*)?|-?[0-9][0-9-]*|--[0-9-]*|&&|\|\||[<>=!]=|\[\?|\[\]|\/\/|[.*,:@{}()[\]?+\-%−×÷!<>=&|/]/sy

/** The words of a text, and the position of the first part that isn't a word. `undefined` if all are words. */
export const read = (text: string): { readonly tokens: ReadonlyArray<Token>; readonly odd: number | undefined } => {
  const tokens: Array<Token> = []
  token.lastIndex = 0
  let start = 0
  for (let found = token.exec(text); found !== null; found = token.exec(text)) {
    if (found[0].trim() !== "") tokens.push({ text: found[0], start })
    start = token.lastIndex
    if (start === text.length) break
  }
  return { tokens, odd: start === text.length ? undefined : start }
}

/** The first `=` that gives no variable a value. */
export const unnamed = (tokens: ReadonlyArray<Token>): Token | undefined =>
  tokens.find(({ text }, index) => text === "=" && !/^\$\w/.test(tokens[index - 1]?.text ?? ""))

/** The first word that follows another with no sign between them: the library takes some of these. */
export const unjoined = (tokens: ReadonlyArray<Token>): Token | undefined =>
  tokens.find(({ text }, index) => {
    const before = tokens[index - 1]?.text ?? "let"
    return (
      /^[A-Za-z_"'`@${]/.test(text) && /[\w"'`@$\])}]$/.test(before) && text !== "in" && !/^(?:let|in)$/.test(before)
    )
  })
