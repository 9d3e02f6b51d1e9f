/**
 * Compiles the library's syntax tree to functions. The evaluation is ours, because
 * the library's has no bound, reads inherited properties of an object, and rounds
 * numbers (see also `Functions.ts`).
 *
 * **Guarantee.** Each part that is evaluated costs a step, so that a `Budget` ends.
 */
import type { compile } from "@jmespath-community/jmespath"
import { nearest } from "../../event/Nearest.ts"
import * as Numbers from "../../event/Numbers.ts"
import { asObject, type Budget, Failure, isFalse, kindOf, limits, Reference, type Token } from "./Budget.ts"
import * as Functions from "./Functions.ts"

type Node = ReturnType<typeof compile>
type Having<N, T> = N extends { readonly type: infer U } ? (T extends U ? N : never) : never
type Of<T extends Node["type"]> = T extends unknown ? Having<Node, T> : never

/** A mistake in an expression, and its first character, from 0. */
export class Wrong extends Error {
  readonly offset: number
  readonly hint: string | undefined
  constructor(message: string, offset: number, hint?: string) {
    super(message)
    this.offset = offset
    this.hint = hint
  }
}

/** How a literal is written: a hint. */
export const literals = "a number is written `5`, and a text 'five'"

export const noJson = ({ start }: Token): Wrong =>
  new Wrong("there is no JSON between these backticks", start, literals)

/** The value between backticks. The library allows blanks that JSON does not, and rounds numbers. */
const jsonOf = (token: Token): unknown => {
  try {
    return Numbers.parse(token.text.slice(1, -1).replaceAll("\\`", "`"))
  } catch {
    throw noJson(token)
  }
}

/** The message if `=` gives no name. */
export const noComparison = "`=` only gives names in a `let`: to compare, write `==`"

/** The values that `let` gives to names, the inner ones first, and the state shared by an evaluation. */
export interface Scope {
  readonly budget: Budget
  readonly name?: string
  readonly value?: unknown
  readonly outer?: Scope
}

export type Run = (value: unknown, scope: Scope) => unknown

const variable = (name: string, scope: Scope): unknown => {
  for (let at: Scope | undefined = scope; at !== undefined; at = at.outer) if (at.name === name) return at.value
  return scope.budget.variable(name)
}

/** The items of a projection: what gives null is left out. */
const project = (items: ReadonlyArray<unknown>, each: Run, scope: Scope, holds?: Run): ReadonlyArray<unknown> => {
  const all: Array<unknown> = []
  for (const item of items) {
    scope.budget.spend(1)
    if (holds !== undefined && isFalse(holds(item, scope))) continue
    const made = each(item, scope)
    if (made !== null && made !== undefined) all.push(made)
  }
  return all
}

/** The items of a slice, as Python has them. */
const slice = <A>(all: ReadonlyArray<A>, { start, stop, step }: Of<"Slice">, budget: Budget): ReadonlyArray<A> => {
  const by = step ?? 1
  const bound = (given: number | null, usual: number): number => {
    if (given === null) return usual
    const at = given < 0 ? given + all.length : given
    return by > 0 ? Math.min(Math.max(at, 0), all.length) : Math.min(Math.max(at, -1), all.length - 1)
  }
  const [from, to] =
    by > 0 ? [bound(start, 0), bound(stop, all.length)] : [bound(start, all.length - 1), bound(stop, -1)]
  const items: Array<A> = []
  for (let at = from; by > 0 ? at < to : at > to; at += by) items.push(all[at] as A)
  budget.spend(items.length)
  return items
}

const arithmetic: Readonly<Record<string, (one: number, other: number) => number>> = {
  Plus: (one, other) => one + other,
  Minus: (one, other) => one - other,
  Multiply: (one, other) => one * other,
  Star: (one, other) => one * other,
  Divide: (one, other) => one / other,
  Div: (one, other) => Math.floor(one / other),
  Modulo: (one, other) => one % other,
}

const orders: Readonly<Record<string, (order: number) => boolean>> = {
  GT: (order) => order > 0,
  GTE: (order) => order >= 0,
  LT: (order) => order < 0,
  LTE: (order) => order <= 0,
}

const calculated = (value: unknown, what: string): number => {
  if (Numbers.isNumber(value)) return Functions.exact(value)
  throw new Failure(`calculates with ${what} that is no number: ${kindOf(value)}`)
}

/** Compiles the tree of one expression. */
export class Evaluator {
  readonly #tokens: ReadonlyArray<Token>
  readonly #known: ReadonlySet<string>
  /** Names that the `let`s around the part have. */
  readonly #names: Array<string> = []
  #call = 0
  #literal = 0
  #depth = 0

  /** `known` are the variables that are there without a `let`. */
  constructor(tokens: ReadonlyArray<Token>, known: ReadonlySet<string>) {
    this.#tokens = tokens
    this.#known = known
  }

  /** The parts are made in the order in which they are written: tokens are found again by that. */
  make(node: Node): Run {
    if (++this.#depth > limits.depth)
      throw new Wrong(`the expression is nested more than ${limits.depth} levels deep`, 0)
    const run = this.#made(node)
    this.#depth--
    return (value, scope) => {
      scope.budget.spend(1)
      return run(value, scope)
    }
  }

  #made(node: Node): Run {
    switch (node.type) {
      case "Identity":
      case "Current":
        return (value) => value
      case "Root":
        return (_, { budget }) => budget.root
      case "Field":
        return field(node.name)
      case "Literal":
        return this.#literalOf(node)
      case "Index":
        return (value) => (Array.isArray(value) ? (value.at(node.value) ?? null) : null)
      case "Slice":
        return this.#slice(node)
      case "Subexpression":
      case "IndexExpression":
      case "Pipe":
        return this.#chain(node)
      case "Projection":
      case "ValueProjection":
      case "FilterProjection":
      case "Flatten":
        return this.#projection(node)
      case "MultiSelectList":
      case "MultiSelectHash":
        return this.#selection(node)
      case "OrExpression":
      case "AndExpression":
      case "NotExpression":
      case "Ternary":
        return this.#logic(node)
      case "Comparator":
      case "Arithmetic":
      case "Unary":
        return this.#calculation(node)
      case "Function":
        return this.#function(node)
      case "ExpressionReference": {
        const run = this.make(node.child)
        return (_, scope) => new Reference((value) => run(value, scope))
      }
      case "Variable":
        return this.#variable(node)
      case "LetExpression":
        return this.#let(node)
      case "Binding":
        throw new Wrong(noComparison, this.#offsetOf("="))
    }
  }

  #offsetOf(text: string): number {
    return this.#tokens.find((token) => token.text === text)?.start ?? 0
  }

  #literalOf(node: Of<"Literal">): Run {
    const quoted = this.#tokens.filter(({ text }) => text.startsWith("`") || text.startsWith("'"))
    const token = quoted[this.#literal++]
    const value = token?.text.startsWith("`") ? jsonOf(token) : node.value
    return () => value
  }

  #slice(node: Of<"Slice">): Run {
    if (node.step === 0) throw new Wrong("a slice's step is not 0", this.#offsetOf(":"))
    return (value, { budget }) => {
      if (typeof value !== "string") return Array.isArray(value) ? slice(value, node, budget) : null
      budget.spend(value.length)
      return slice([...value], node, budget).join("")
    }
  }

  #chain(node: Of<"Subexpression"> | Of<"IndexExpression"> | Of<"Pipe">): Run {
    const [left, right] = [this.make(node.left), this.make(node.right)]
    if (node.type !== "Subexpression") return (value, scope) => right(left(value, scope), scope)
    return (value, scope) => {
      const found = left(value, scope)
      return found === null || found === undefined ? null : right(found, scope)
    }
  }

  #projection(node: Of<"Projection"> | Of<"ValueProjection"> | Of<"FilterProjection"> | Of<"Flatten">): Run {
    if ("child" in node) {
      const child = this.make(node.child)
      return (value, scope) => {
        const all = child(value, scope)
        if (!Array.isArray(all)) return null
        const flat = all.flat()
        scope.budget.spend(flat.length)
        return flat
      }
    }
    const left = this.make(node.left)
    const holds = node.type === "FilterProjection" ? this.make(node.condition) : undefined
    const right = this.make(node.right)
    if (node.type === "ValueProjection") {
      return (value, scope) => {
        const object = asObject(left(value, scope))
        return object === undefined ? null : project(Object.values(object), right, scope)
      }
    }
    const isSlice = node.left.type === "IndexExpression" && node.left.right.type === "Slice"
    return (value, scope) => {
      const all = left(value, scope)
      if (isSlice && typeof all === "string") return right(all, scope)
      return Array.isArray(all) ? project(all, right, scope, holds) : null
    }
  }

  #selection(node: Of<"MultiSelectList"> | Of<"MultiSelectHash">): Run {
    if (node.type === "MultiSelectList") {
      const runs = node.children.map((child) => this.make(child))
      return (value, scope) => runs.map((run) => run(value, scope))
    }
    const runs = node.children.map(({ name, value }) => [name, this.make(value)] as const)
    return (value, scope) => {
      const object: Record<string, unknown> = {}
      for (const [name, run] of runs) Functions.put(object, name, run(value, scope))
      return object
    }
  }

  #logic(node: Of<"OrExpression"> | Of<"AndExpression"> | Of<"NotExpression"> | Of<"Ternary">): Run {
    if ("child" in node) {
      const child = this.make(node.child)
      return (value, scope) => isFalse(child(value, scope))
    }
    if (node.type === "Ternary") {
      const [is, one, other] = [this.make(node.condition), this.make(node.trueExpr), this.make(node.falseExpr)]
      return (value, scope) => (isFalse(is(value, scope)) ? other : one)(value, scope)
    }
    const [left, right] = [this.make(node.left), this.make(node.right)]
    const goesOn = node.type === "OrExpression"
    return (value, scope) => {
      const found = left(value, scope)
      return isFalse(found) === goesOn ? right(value, scope) : found
    }
  }

  #calculation(node: Of<"Comparator"> | Of<"Arithmetic"> | Of<"Unary">): Run {
    if (node.type === "Unary") {
      const operand = this.make(node.operand)
      const sign = node.operator === "Minus" ? -1 : 1
      return (value, scope) => sign * calculated(operand(value, scope), "a value")
    }
    const [left, right] = [this.make(node.left), this.make(node.right)]
    if (node.type === "Arithmetic") {
      const calculate = arithmetic[node.operator]
      return (value, scope) => {
        const [one, other] = [left(value, scope), right(value, scope)]
        return Functions.finite(calculate?.(calculated(one, "a left side"), calculated(other, "a right side")) ?? 0)
      }
    }
    const order = orders[node.name]
    if (order === undefined) {
      const isEqual = node.name === "EQ"
      return (value, scope) => scope.budget.isEqual(left(value, scope), right(value, scope)) === isEqual
    }
    return (value, scope) => {
      const [one, other] = [left(value, scope), right(value, scope)]
      return Numbers.isNumber(one) && Numbers.isNumber(other) ? order(scope.budget.order(one, other)) : null
    }
  }

  #function({ name, children }: Of<"Function">): Run {
    while (this.#call < this.#tokens.length) {
      if (this.#tokens[this.#call]?.text === name && this.#tokens[this.#call + 1]?.text === "(") break
      this.#call++
    }
    const offset = this.#tokens[this.#call++]?.start ?? 0
    const called = Functions.named(name)
    if (called === undefined) {
      const near = nearest(name, Functions.names)
      const hint = near === undefined ? `the functions are ${Functions.names.join(", ")}` : `did you mean ${near}()?`
      throw new Wrong(`there is no function ${name}()`, offset, hint)
    }
    const problem = Functions.callProblem(
      name,
      children.map(({ type }) => type === "ExpressionReference"),
    )
    if (problem !== undefined) throw new Wrong(problem, offset)
    const args = children.map((child) => this.make(child))
    return (value, scope) => {
      const given = args.map((arg) => arg(value, scope))
      try {
        return Functions.call(called, given, scope.budget) ?? null
      } catch (error) {
        // If functions are nested, the inner one failed.
        if (!(error instanceof Failure) || error.isPlaced) throw error
        throw new Failure(`${name}() at character ${offset + 1} ${error.message}`, true)
      }
    }
  }

  #variable({ name }: Of<"Variable">): Run {
    if (!this.#names.includes(name) && !this.#known.has(name)) {
      const all = [...this.#names, ...this.#known]
      const near = nearest(name, all)
      const others =
        all.length === 0 ? "`let` gives names" : `the variables are ${all.map((one) => `$${one}`).join(", ")}`
      throw new Wrong(
        `there is no variable $${name}`,
        this.#offsetOf(`$${name}`),
        near === undefined ? others : `did you mean $${near}?`,
      )
    }
    return (_, scope) => variable(name, scope)
  }

  #let({ bindings, expression }: Of<"LetExpression">): Run {
    const all = bindings.map((binding) => {
      // The library accepts anything before the `=`, which then has no name.
      if (binding.type !== "Binding" || typeof binding.variable !== "string") {
        throw new Wrong("`let` is followed by `$name = value`", this.#offsetOf("let"))
      }
      return [binding.variable, this.make(binding.reference)] as const
    })
    this.#names.push(...all.map(([name]) => name))
    const inner = this.make(expression)
    this.#names.splice(this.#names.length - all.length)
    return (value, scope) => {
      const { budget } = scope
      const within = all.reduce<Scope>(
        (outer, [name, run]) => ({ budget, name, value: run(value, scope), outer }),
        scope,
      )
      return inner(value, within)
    }
  }
}

/** Own properties only: inherited ones aren't part of the event. */
const field =
  (name: string): Run =>
  (value) => {
    const object = asObject(value)
    return object !== undefined && Object.hasOwn(object, name) ? (object[name] ?? null) : null
  }
