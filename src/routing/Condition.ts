/**
 * A condition that `where` sets on one field of an envelope. It is compiled when the
 * config loads, so that each event needs only a lookup or a few comparisons.
 */

import * as Numbers from "../event/Numbers.ts"

export type Scalar = string | number | Numbers.Long | boolean | null

/** All given tests must hold. An absent field equals no value and has no prefix. */
export interface Tests {
  readonly oneOf?: ReadonlyArray<Scalar>
  readonly prefix?: ReadonlyArray<string>
  readonly exists?: boolean
}

/** A list of values is an abbreviation of `oneOf`. */
export type Condition =
  | ReadonlyArray<Scalar>
  | (Tests & {
      /** Tests that must not hold. */
      readonly not?: ReadonlyArray<Scalar> | Tests
    })

/** Reports whether the condition holds for a value; `undefined` is an absent field. */
export type Holds = (value: unknown) => boolean

const isList = (condition: unknown): condition is ReadonlyArray<Scalar> => Array.isArray(condition)

const spelled = (tests: ReadonlyArray<Scalar> | Tests): Tests => (isList(tests) ? { oneOf: tests } : tests)

const among = (values: ReadonlyArray<Scalar>): Holds => {
  const set: ReadonlySet<unknown> = new Set(values.map(Numbers.simplest))
  const numbers = new Set(values.flatMap((value) => Numbers.textOf(value) ?? []))
  // Only a number that a double can't hold is an object here. The set finds all other values directly.
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

/**
 * Returns the doubles of the condition's numbers. If an event's number equals one,
 * it may have been rounded to it, so its text decides.
 */
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

const describeEach = ({ oneOf, prefix, exists }: Tests, isNot: boolean): ReadonlyArray<string> => [
  ...(oneOf === undefined
    ? []
    : [`is ${oneOf.length === 1 ? (isNot ? "not " : "") : isNot ? "none of " : "one of "}${listed(oneOf)}`]),
  ...(prefix === undefined
    ? []
    : [`${isNot ? "does not begin" : "begins"} with ${prefix.length === 1 ? "" : "one of "}${listed(prefix)}`]),
  ...(exists === undefined ? [] : [exists === isNot ? "does not exist" : "exists"]),
]

/** Describes the condition in words that follow the field's name, such as `is one of "acct_1", "acct_2"`. */
export const describe = (condition: Condition): string => {
  const { not = {}, ...tests } = isList(condition) ? { oneOf: condition } : condition
  return [...describeEach(tests, false), ...describeEach(spelled(not), true)].join(" and ")
}

/** A string and an object that no condition names. */
const unnamed = { text: "\u0000unnamed", object: {} }

/**
 * Returns one value of each kind that the condition distinguishes. If the condition
 * holds for all of these, it holds for every value.
 */
export const witnesses = (condition: Condition): ReadonlyArray<unknown> => {
  const { not = {}, ...tests } = isList(condition) ? { oneOf: condition } : condition
  const { oneOf = [], prefix = [] } = tests
  const { oneOf: noneOf = [], prefix: notPrefix = [] } = spelled(not)
  const starts = [...prefix, ...notPrefix]
  const texts = [...starts, ...starts.map((start) => start + unnamed.text)]
  return [...oneOf, ...noneOf, ...texts, unnamed.text, unnamed.object, undefined]
}
