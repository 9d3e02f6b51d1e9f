/**
 * JMESPath expressions over an event, for bodies, keys and conditions.
 *
 * **Guarantee.** An expression ends within the limits of `Budget.ts`, changes no
 * number, and fails by `Unrenderable` alone, whose message names the place.
 *
 * **Gotcha.** {@link load} loads the library that parses expressions. Loading a
 * config calls it if the config has an expression.
 */
import { Effect, Predicate } from "effect"
import * as Numbers from "../../event/Numbers.ts"
import { Unrenderable } from "../Rendering.ts"
import { Budget, Failure, isFalse, limits, read, type Token, unjoined, unnamed } from "./Budget.ts"
import { Evaluator, literals, noComparison, noJson, type Run, Wrong } from "./Evaluator.ts"

/** An expression as a config has it. */
export interface Shape {
  readonly jmespath: string
}

export const isShape = (value: unknown): value is Shape =>
  Predicate.isObject(value) &&
  Object.keys(value).length === 1 &&
  typeof (value as { jmespath?: unknown }).jmespath === "string"

type Parse = typeof import("@jmespath-community/jmespath").compile
let parser: Parse | undefined

/** Loads the library, once. */
export const load: Effect.Effect<void> = Effect.promise(async () => {
  parser ??= (await import("@jmespath-community/jmespath")).compile
})

const parse = (text: string): ReturnType<Parse> => {
  if (parser === undefined) throw new Error("JMESPath's parser is not loaded: `Jmespath.load` runs first")
  return parser(text)
}

/** Whether the library refuses a text only because it ends. */
const isShort = (text: string): boolean => {
  try {
    parse(text)
    return true
  } catch (error) {
    const message = error instanceof Error ? error.message : ""
    return error instanceof TypeError || /\(EOF\)|got: EOF|type: EOF/.test(message)
  }
}

/** Why the library refuses a text. It does not say where: that is the last word of the shortest beginning that it refuses. */
const refusal = (text: string, tokens: ReadonlyArray<Token>, cause: unknown): Wrong => {
  if (cause instanceof RangeError) return new Wrong(`the expression is nested more than ${limits.depth} levels deep`, 0)
  let [low, high] = [0, tokens.length]
  while (low < high) {
    const middle = (low + high) >>> 1
    const { text: word = "", start = 0 } = tokens[middle] ?? {}
    if (isShort(text.slice(0, start + word.length))) low = middle + 1
    else high = middle
  }
  const word = tokens[low]
  if (word === undefined) return new Wrong("the expression ends too early", text.length)
  if (word.text.startsWith("`")) return noJson(word)
  const hint = /^-?[0-9]/.test(word.text) ? literals : undefined
  return new Wrong(`the expression has ${shown(word.text)} where it can't be`, word.start, hint)
}

const shown = (word: string): string => JSON.stringify(word.length <= 40 ? word : `${word.slice(0, 39)}…`)

const compiled = (text: string, known: ReadonlySet<string>): Run => {
  if (text.length > limits.length)
    throw new Wrong(`the expression has more than ${limits.length} characters`, limits.length)
  if (text.trim() === "") throw new Wrong("the expression is empty", 0, "`@` is the whole event")
  const { tokens, odd } = read(text)
  if (odd !== undefined) {
    const isOpen = /["'`]/.test(text[odd] ?? "")
    throw new Wrong(
      isOpen ? "this quote is not closed" : `the expression has ${shown(text[odd] ?? "")} where it can't be`,
      odd,
    )
  }
  // The library takes `1-2` and `--1` for one number, which is none.
  const misplaced = unjoined(tokens) ?? tokens.find((token) => /^-?[0-9].*-|^--/.test(token.text))
  if (misplaced !== undefined) {
    throw new Wrong(`the expression has ${shown(misplaced.text)} where it can't be`, misplaced.start)
  }
  const equals = unnamed(tokens)
  if (equals !== undefined) throw new Wrong(noComparison, equals.start)
  let tree: ReturnType<Parse>
  try {
    tree = parse(text)
  } catch (cause) {
    throw refusal(text, tokens, cause)
  }
  return new Evaluator(tokens, known).make(tree)
}

/** A mistake in an expression. */
export interface Problem {
  readonly message: string
  /** The position of its character, from 0. */
  readonly offset: number
  readonly hint?: string
}

const none: ReadonlySet<string> = new Set()

/** Says what is wrong with an expression whose variables are `known`. Returns `undefined` if nothing is. */
export const problem = (text: string, known: ReadonlySet<string> = none): Problem | undefined => {
  try {
    compiled(text, known)
    return undefined
  } catch (error) {
    if (!(error instanceof Wrong)) throw error
    const { message, offset, hint } = error
    return { message: `${message}, at character ${offset + 1}`, offset, ...(hint !== undefined && { hint }) }
  }
}

type Search<A> = (root: unknown, variable?: (name: string) => unknown) => A

/** `variable` returns the known variables. All throw `Unrenderable`. */
export interface Expression {
  /** Whether the result is neither false nor empty. */
  readonly holds: Search<boolean>
  /** The result as JSON. */
  readonly json: Search<string>
  /** The result as text: a string as it is, null as none, and any other value as JSON. */
  readonly text: Search<string>
  /** The result as text in which equal numbers are the same, however they were written. */
  readonly key: Search<string>
}

const nothing = () => null

const textOf = (result: unknown, budget: Budget): string => {
  if (typeof result === "string") return result
  return result === null ? "" : budget.json(result)
}

/**
 * Compiles an expression. `place` is its key in the config. An expression with a {@link problem} compiles too, and
 * fails with each event.
 */
export const compile = (text: string, place: string, known: ReadonlySet<string> = none): Expression => {
  const wrong = problem(text, known)
  const run: Run = wrong === undefined ? compiled(text, known) : () => fail(new Failure(wrong.message, true))
  const within = <A>(
    root: unknown,
    variable: (name: string) => unknown,
    use: (result: unknown, budget: Budget) => A,
  ): A => {
    const budget = new Budget(root ?? null, variable)
    try {
      return use(run(budget.root, { budget }) ?? null, budget)
    } catch (error) {
      if (!(error instanceof Failure)) throw error
      throw new Unrenderable(`the expression at ${place} fails: ${error.isPlaced ? "" : "it "}${error.message}`)
    }
  }
  return {
    holds: (root, variable = nothing) => within(root, variable, (result) => !isFalse(result)),
    json: (root, variable = nothing) => within(root, variable, (result, budget) => budget.json(result)),
    text: (root, variable = nothing) => within(root, variable, textOf),
    key: (root, variable = nothing) =>
      within(root, variable, (result, budget) => Numbers.textOf(result) ?? textOf(result, budget)),
  }
}

const fail = (error: Error): never => {
  throw error
}
