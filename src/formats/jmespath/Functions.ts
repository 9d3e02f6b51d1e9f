/**
 * The functions of JMESPath's community edition, with their arguments.
 *
 * The library's own are not used: `sort` orders numbers by their digits, `trim`
 * takes a time that grows with the square of its text, `pad_left` makes a text of
 * any length, and objects of the event pass for expressions.
 */
import * as Numbers from "../../event/Numbers.ts"
import { type Budget, Failure, type Kind, kindOf, type Reference } from "./Budget.ts"

type Spec = Kind | "any" | "strings" | "numbers" | "sortable" | "arrays"

/** Names the allowed kinds of an argument. */
const words: Readonly<Record<Spec, string>> = {
  any: "anything",
  null: "null",
  boolean: "a boolean",
  number: "a number",
  string: "a string",
  array: "an array",
  object: "an object",
  expression: "an expression such as &name",
  strings: "an array of strings",
  numbers: "an array of numbers",
  sortable: "an array of strings, or one of numbers",
  arrays: "an array of arrays",
}

interface Function {
  /** The kinds that each argument may be. */
  readonly takes: ReadonlyArray<ReadonlyArray<Spec>>
  /** Arguments at the end that may be left out. */
  readonly optional: number
  /** The last argument may be repeated. */
  readonly repeats: boolean
  // biome-ignore lint/suspicious/noExplicitAny: the arguments were checked against `takes`.
  readonly call: (args: Array<any>, budget: Budget) => unknown
}

const define = (takes: string, call: Function["call"]): Function => {
  const all = takes === "" ? [] : takes.split(" ")
  return {
    takes: all.map((one) => one.replace(/[?+]$/, "").split("|") as Array<Spec>),
    optional: all.filter((one) => one.endsWith("?")).length,
    repeats: takes.endsWith("+"),
    call,
  }
}

const are = (value: unknown, kinds: ReadonlyArray<Kind>, budget: Budget): boolean => {
  if (!Array.isArray(value)) return false
  budget.spend(value.length)
  return value.every((item) => kinds.includes(kindOf(item)))
}

const fits = (value: unknown, spec: Spec, budget: Budget): boolean => {
  switch (spec) {
    case "any":
      return kindOf(value) !== "expression"
    case "strings":
      return are(value, ["string"], budget)
    case "numbers":
      return are(value, ["number"], budget)
    case "arrays":
      return are(value, ["array"], budget)
    case "sortable":
      return are(value, ["string"], budget) || are(value, ["number"], budget)
    default:
      return kindOf(value) === spec
  }
}

/** A number to calculate with. Fails for a number that no double holds, because it would be rounded. */
export const exact = (value: unknown): number => {
  if (typeof value === "number") return value
  throw new Failure("would round a number: one of more than 15 digits can be passed on and compared, and no more")
}

export const finite = (value: number): number => {
  if (Number.isFinite(value)) return value
  throw new Failure("gives no number: it divides by zero, or is too large")
}

const whole = (value: unknown, least = 0): number => {
  const number = exact(value)
  if (Number.isInteger(number) && number >= least) return number
  throw new Failure(least === 0 ? "takes a whole number that is not negative" : "takes a whole number")
}

const orderOf = (one: unknown, other: unknown, budget: Budget): number => {
  if (typeof one === "string" && typeof other === "string") {
    budget.compare(one, other)
    return one < other ? -1 : one > other ? 1 : 0
  }
  budget.spend(1)
  return Numbers.isNumber(one) && Numbers.isNumber(other) ? budget.order(one, other) : Number.NaN
}

/** The items with the expression's result for each: all strings, or all numbers. */
const keyed = (items: ReadonlyArray<unknown>, by: Reference): ReadonlyArray<readonly [item: unknown, key: unknown]> => {
  const all = items.map((item) => [item, by.at(item)] as const)
  const kinds = new Set(all.map(([, key]) => kindOf(key)))
  const [kind = "string"] = kinds
  if (kinds.size <= 1 && (kind === "string" || kind === "number")) return all
  throw new Failure(`orders by strings or by numbers, and the expression gives ${[...kinds].join(" and ")}`)
}

/** The first item that comes before all others, or `undefined`. */
const first = <A>(items: ReadonlyArray<A>, isBefore: (one: A, other: A) => boolean): A | undefined =>
  items.reduce<A | undefined>((best, one) => (best === undefined || isBefore(one, best) ? one : best), undefined)

const least = (budget: Budget, sign: number) => (items: ReadonlyArray<unknown>) =>
  first(items, (one, other) => sign * orderOf(one, other, budget) < 0) ?? null
const leastBy = (items: ReadonlyArray<unknown>, by: Reference, budget: Budget, sign: number) =>
  first(keyed(items, by), ([, one], [, other]) => sign * orderOf(one, other, budget) < 0)?.[0] ?? null

/** Sets a property of any name: `__proto__` is one like the others. */
export const put = (object: Record<string, unknown>, name: string, value: unknown): void => {
  if (name !== "__proto__") object[name] = value
  else Object.defineProperty(object, name, { value, enumerable: true, configurable: true, writable: true })
}

const characters = (text: string, budget: Budget): Array<string> => {
  budget.spend(text.length)
  return [...text]
}

const trimmed = (text: string, chars: string | undefined, ends: { start: boolean; end: boolean }, budget: Budget) => {
  const all = characters(text, budget)
  const set = new Set(chars === undefined || chars === "" ? undefined : characters(chars, budget))
  const goes = (one = "x") => (set.size === 0 ? /[\s\x85]/.test(one) : set.has(one))
  let [from, to] = [0, all.length]
  while (ends.start && from < to && goes(all[from])) from++
  while (ends.end && to > from && goes(all[to - 1])) to--
  return all.slice(from, to).join("")
}

const padded = (text: string, width: number, pad: string | undefined, budget: Budget): string => {
  const char = pad ?? " "
  if ([...char.slice(0, 3)].length !== 1) throw new Failure("pads with one character")
  const missing = whole(width) - characters(text, budget).length
  budget.text(text.length + Math.max(0, missing) * char.length)
  return char.repeat(Math.max(0, missing))
}

const joined = (parts: ReadonlyArray<string>, by: string, budget: Budget): string => {
  budget.spend(parts.length)
  budget.text(parts.reduce((sum, part) => sum + part.length + by.length, 0))
  return parts.join(by)
}

/** The parts of a text that another text separates. After the first `most` parts, the rest is one part. */
const parts = (text: string, by: string, most: number | undefined, budget: Budget): ReadonlyArray<string> => {
  budget.find(text, by)
  const all = by === "" ? characters(text, budget) : text.split(by)
  budget.spend(all.length)
  const count = most === undefined ? all.length : whole(most)
  return count >= all.length ? all : [...all.slice(0, count), joined(all.slice(count), by, budget)]
}

/** Finds the place of a text in another, in the part from `from` to `to`. */
const found = (
  text: string,
  sought: string,
  [from = 0, to]: ReadonlyArray<unknown>,
  budget: Budget,
  isLast: boolean,
) => {
  const start = Math.max(0, whole(from, Number.NEGATIVE_INFINITY))
  const end = to === undefined ? text.length : whole(to, Number.NEGATIVE_INFINITY)
  if (text === "" || sought === "") return null
  budget.find(text, sought)
  const part = text.slice(start, Math.max(start, end))
  const at = isLast ? part.lastIndexOf(sought) : part.indexOf(sought)
  return at === -1 ? null : at + start
}

const total = (numbers: ReadonlyArray<unknown>): number =>
  finite(numbers.reduce<number>((sum, one) => sum + exact(one), 0))

const jsonNumber = /^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$/

const entriesOf = (object: object, budget: Budget): ReadonlyArray<readonly [string, unknown]> => {
  const entries = Object.entries(object)
  budget.spend(entries.length)
  return entries
}

const objectOf = (entries: Iterable<readonly [string, unknown]>): Record<string, unknown> => Object.fromEntries(entries)

const aboutNumbers: Readonly<Record<string, Function>> = {
  abs: define("number", ([number]) => Math.abs(exact(number))),
  avg: define("numbers", ([numbers]) => (numbers.length === 0 ? null : total(numbers) / numbers.length)),
  ceil: define("number", ([number]) => Math.ceil(exact(number))),
  floor: define("number", ([number]) => Math.floor(exact(number))),
  sum: define("numbers", ([numbers]) => total(numbers)),
  to_number: define("any", ([value]) => {
    if (kindOf(value) === "number") return value
    return typeof value === "string" && value.length < 1_000 && jsonNumber.test(value) ? Numbers.parse(value) : null
  }),
}

const aboutStrings: Readonly<Record<string, Function>> = {
  ends_with: define("string string", ([text, end]) => text.endsWith(end)),
  find_first: define("string string number? number?", ([text, sought, ...range], budget) =>
    found(text, sought, range, budget, false),
  ),
  find_last: define("string string number? number?", ([text, sought, ...range], budget) =>
    found(text, sought, range, budget, true),
  ),
  join: define("string strings", ([by, parts], budget) => joined(parts, by, budget)),
  lower: define("string", ([text], budget) => {
    budget.text(text.length)
    return text.toLowerCase()
  }),
  pad_left: define("string number string?", ([text, width, pad], budget) => padded(text, width, pad, budget) + text),
  pad_right: define("string number string?", ([text, width, pad], budget) => text + padded(text, width, pad, budget)),
  replace: define("string string string number?", ([text, sought, by, most], budget) =>
    joined(parts(text, sought, most, budget), by, budget),
  ),
  split: define("string string number?", ([text, by, most], budget) => parts(text, by, most, budget)),
  starts_with: define("string string", ([text, start]) => text.startsWith(start)),
  to_string: define("any", ([value], budget) => (typeof value === "string" ? value : budget.json(value))),
  trim: define("string string?", ([text, chars], budget) => trimmed(text, chars, { start: true, end: true }, budget)),
  trim_left: define("string string?", ([text, chars], budget) =>
    trimmed(text, chars, { start: true, end: false }, budget),
  ),
  trim_right: define("string string?", ([text, chars], budget) =>
    trimmed(text, chars, { start: false, end: true }, budget),
  ),
  upper: define("string", ([text], budget) => {
    budget.text(text.length)
    return text.toUpperCase()
  }),
}

const aboutArrays: Readonly<Record<string, Function>> = {
  contains: define("string|array any", ([where, what], budget) => {
    if (Array.isArray(where)) return where.some((item) => budget.isEqual(item, what))
    if (typeof what !== "string") return null
    budget.find(where, what)
    return where.includes(what)
  }),
  group_by: define("array expression", ([items, by]) => {
    const groups = Map.groupBy(keyed(items, by), ([, key]) => key)
    if (items.length > 0 && typeof [...groups.keys()][0] !== "string") throw new Failure("groups by strings")
    return objectOf([...groups].map(([key, all]) => [key as string, all.map(([item]) => item)] as const))
  }),
  length: define("string|array|object", ([value], budget) => {
    if (typeof value === "string") return characters(value, budget).length
    return Array.isArray(value) ? value.length : entriesOf(value, budget).length
  }),
  map: define("expression array", ([make, items]) => items.map((item: unknown) => make.at(item))),
  max: define("sortable", ([items], budget) => least(budget, -1)(items)),
  max_by: define("array expression", ([items, by], budget) => leastBy(items, by, budget, -1)),
  min: define("sortable", ([items], budget) => least(budget, 1)(items)),
  min_by: define("array expression", ([items, by], budget) => leastBy(items, by, budget, 1)),
  reverse: define("string|array", ([value], budget) => {
    if (typeof value === "string") return characters(value, budget).reverse().join("")
    budget.spend(value.length)
    return value.toReversed()
  }),
  sort: define("sortable", ([items], budget) =>
    items.toSorted((one: unknown, other: unknown) => orderOf(one, other, budget)),
  ),
  sort_by: define("array expression", ([items, by], budget) =>
    keyed(items, by)
      .toSorted(([, one], [, other]) => orderOf(one, other, budget))
      .map(([item]) => item),
  ),
  to_array: define("any", ([value]) => (Array.isArray(value) ? value : [value])),
  zip: define("array+", (arrays: ReadonlyArray<ReadonlyArray<unknown>>, budget) => {
    const length = Math.min(...arrays.map((array) => array.length))
    budget.spend(length * arrays.length)
    return Array.from({ length }, (_, index) => arrays.map((array) => array[index]))
  }),
}

const aboutObjects: Readonly<Record<string, Function>> = {
  from_items: define("arrays", ([pairs]) => {
    const isPair = ([key, , more]: ReadonlyArray<unknown>, length: number) =>
      typeof key === "string" && length === 2 && more === undefined
    if (!pairs.every((pair: ReadonlyArray<unknown>) => isPair(pair, pair.length))) {
      throw new Failure("takes pairs, each an array of a string and a value")
    }
    return objectOf(pairs)
  }),
  items: define("object", ([object], budget) => entriesOf(object, budget).map(([key, value]) => [key, value])),
  keys: define("object", ([object], budget) => entriesOf(object, budget).map(([key]) => key)),
  merge: define("object+", (objects: ReadonlyArray<object>, budget) =>
    objectOf(objects.flatMap((object) => entriesOf(object, budget))),
  ),
  not_null: define(
    "any+",
    (values: ReadonlyArray<unknown>) => values.find((value) => kindOf(value) !== "null") ?? null,
  ),
  type: define("any", ([value]) => kindOf(value)),
  values: define("object", ([object], budget) => entriesOf(object, budget).map(([, value]) => value)),
}

const all: Readonly<Record<string, Function>> = { ...aboutNumbers, ...aboutStrings, ...aboutArrays, ...aboutObjects }

/** The names of all functions. */
export const names: ReadonlyArray<string> = Object.keys(all).sort()

/** A function by its name, if there is one. */
export const named = (name: string): Function | undefined => (Object.hasOwn(all, name) ? all[name] : undefined)

const counted = (count: number): string => `${count} argument${count === 1 ? "" : "s"}`

/** Why a call can't be right, whatever the event; `isReference` says of each argument whether it is written with `&`. */
export const callProblem = (name: string, isReference: ReadonlyArray<boolean>): string | undefined => {
  const { takes, optional, repeats } = named(name) ?? define("", () => null)
  const [least, most] = [takes.length - optional, repeats ? Number.POSITIVE_INFINITY : takes.length]
  const given = isReference.length
  if (given < least) return `${name}() takes ${most > least ? "at least " : ""}${counted(least)}, and has ${given}`
  if (given > most) return `${name}() takes ${optional > 0 ? "at most " : ""}${counted(most)}, and has ${given}`
  const wrong = isReference.findIndex(
    (is, index) => is !== takes[Math.min(index, takes.length - 1)]?.includes("expression"),
  )
  if (wrong === -1) return undefined
  return isReference[wrong] === true
    ? `argument ${wrong + 1} of ${name}() is a value: it has no &`
    : `argument ${wrong + 1} of ${name}() is an expression: it begins with &`
}

/** Calls a function that {@link callProblem} finds nothing wrong with. */
export const call = ({ takes, call }: Function, args: Array<unknown>, budget: Budget): unknown => {
  for (const [index, value] of args.entries()) {
    const specs = takes[Math.min(index, takes.length - 1)] ?? []
    if (specs.some((spec) => fits(value, spec, budget))) continue
    const may = specs.map((spec) => words[spec]).join(" or ")
    const inside = Array.isArray(value)
      ? ` of ${[...new Set(value.slice(0, 100).map(kindOf))].join(", ") || "nothing"}`
      : ""
    throw new Failure(`takes ${may} as argument ${index + 1}, and got ${kindOf(value)}${inside}`)
  }
  return call(args, budget)
}
