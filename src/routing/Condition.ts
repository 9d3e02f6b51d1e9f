/**
 * A condition that `where` sets on one field of an envelope. Compiled when the config loads,
 * so that an event costs a lookup or a few comparisons.
 */

import * as Numbers from "../event/Numbers.ts"

export type Scalar = string | number | Numbers.Long | boolean | null

/** All that is given must hold. A field that is absent is none of the values, and begins with nothing. */
export interface Tests {
  readonly oneOf?: ReadonlyArray<Scalar>
  readonly prefix?: ReadonlyArray<string>
  readonly exists?: boolean
}

/** A list of values is short for `oneOf`. */
export type Condition =
  | ReadonlyArray<Scalar>
  | (Tests & {
      /** None of this may hold. */
      readonly not?: ReadonlyArray<Scalar> | Tests
    })

/** Whether a value holds; `undefined` is an absent field. */
export type Holds = (value: unknown) => boolean

const isList = (condition: unknown): condition is ReadonlyArray<Scalar> => Array.isArray(condition)

const spelled = (tests: ReadonlyArray<Scalar> | Tests): Tests => (isList(tests) ? { oneOf: tests } : tests)

const among = (values: ReadonlyArray<Scalar>): Holds => {
  const set: ReadonlySet<unknown> = new Set(values.map(Numbers.simplest))
  const numbers = new Set(values.flatMap((value) => Numbers.textOf(value) ?? []))
  // Only a number that no double holds is an object here: all others are found as they are.
  return (value) =>
    set.has(value) || (numbers.size > 0 && typeof value === "object" && numbers.has(Numbers.textOf(value) ?? ""))
}

const each = ({ oneOf, prefix, exists }: Tests): ReadonlyArray<Holds> => [
  ...(oneOf === undefined ? [] : [among(oneOf)]),
  ...(prefix === undefined
    ? []
    : [(value: unknown) => typeof value === "string" && prefix.some((start) => value.startsWith(start))]),
  ...(exists === undefined ? [] : [(value: unknown) => (value !== undefined) === exists]),
]

export const make = (condition: Condition): Holds => {
  if (isList(condition)) return among(condition)
  const { not = {}, ...tests } = condition
  const all = [
    ...each(tests),
    ...each(spelled(not)).map(
      (holds): Holds =>
        (value) =>
          !holds(value),
    ),
  ]
  return (value) => all.every((holds) => holds(value))
}

/** Doubles that an event's number may have been rounded to before a condition on it: then its text decides. */
export const doublesOf = (condition: Condition): ReadonlySet<number> => {
  const { not = {}, ...tests } = isList(condition) ? { oneOf: condition } : condition
  const values = [...(tests.oneOf ?? []), ...(spelled(not).oneOf ?? [])]
  return new Set(values.flatMap((value) => (Numbers.isNumber(value) ? Number(Numbers.textOf(value)) : [])))
}

const most = { values: 5, characters: 60 } as const

const quoted = (value: Scalar): string => {
  const text = JSON.stringify(value)
  return text.length > most.characters ? `${text.slice(0, most.characters)}…` : text
}

const listed = (values: ReadonlyArray<Scalar>): string => {
  const more = values.length - most.values
  return [...values.slice(0, most.values).map(quoted), ...(more > 0 ? [`${more} more`] : [])].join(", ")
}

const saidEach = ({ oneOf, prefix, exists }: Tests, isNot: boolean): ReadonlyArray<string> => [
  ...(oneOf === undefined
    ? []
    : [`is ${oneOf.length === 1 ? (isNot ? "not " : "") : isNot ? "none of " : "one of "}${listed(oneOf)}`]),
  ...(prefix === undefined
    ? []
    : [`${isNot ? "does not begin" : "begins"} with ${prefix.length === 1 ? "" : "one of "}${listed(prefix)}`]),
  ...(exists === undefined ? [] : [exists === isNot ? "does not exist" : "exists"]),
]

/** In words, to follow the field's name: `is one of "acct_1", "acct_2"`. */
export const describe = (condition: Condition): string => {
  const { not = {}, ...tests } = isList(condition) ? { oneOf: condition } : condition
  return [...saidEach(tests, false), ...saidEach(spelled(not), true)].join(" and ")
}

/** A text, and a value of another kind, that no condition names. */
const unnamed = { text: "\u0000unnamed", object: {} }

/** A value of each sort that the condition tells apart: what holds for all of these holds for every value. */
export const witnesses = (condition: Condition): ReadonlyArray<unknown> => {
  const { not = {}, ...tests } = isList(condition) ? { oneOf: condition } : condition
  const { oneOf = [], prefix = [] } = tests
  const { oneOf: noneOf = [], prefix: notPrefix = [] } = spelled(not)
  const starts = [...prefix, ...notPrefix]
  const texts = [...starts, ...starts.map((start) => start + unnamed.text)]
  return [...oneOf, ...noneOf, ...texts, unnamed.text, unnamed.object, undefined]
}
