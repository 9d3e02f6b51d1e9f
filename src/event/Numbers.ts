/**
 * Parses JSON without rounding numbers that no double holds: an id of 64 bits,
 * a decimal of twenty digits, `1e400`. Such a number becomes the object that
 * `JSON.rawJSON` makes, which `JSON.stringify` writes as the sender did; all
 * others are numbers.
 *
 * **Guarantee.** Numbers are compared by their decimal value, however they are
 * written: 1, 1.0 and 1e0 are equal.
 */

/** A number that no double holds. */
export interface Long {
  readonly rawJSON: string
}

/** Bun and Deno have these; TypeScript's libraries do not declare them yet. */
interface Raw {
  readonly rawJSON: (text: string) => Long
  readonly isRawJSON: (value: unknown) => value is Long
  readonly parse: (
    text: string,
    reviver: (key: string, value: unknown, context: { readonly source?: string }) => unknown,
  ) => unknown
}
const raw = JSON as unknown as Raw

const longNumber = /(?:^|[:[,])\s*-?[0-9](?:[0-9.]{15}|[0-9.]*[eE](?:\+?[0-9]{2}|-[0-9]{3}))/

/** The digits that count: without the sign, the point, the exponent, and zeros at either end. */
const significant = (text: string): string => {
  const digits = text.replace(/[eE].*$|[-.]/g, "").replace(/^0+/, "")
  // By a pattern this would take the square of a run of zeros in the middle.
  let end = digits.length
  while (digits[end - 1] === "0") end--
  return digits.slice(0, end)
}

/** Whether the double is written with the digits of its source, so that it is the same number. */
const isExact = (value: number, source: string): boolean =>
  Math.abs(value) <= Number.MAX_SAFE_INTEGER &&
  (String(value) === source || significant(String(value)) === significant(source))

const keep = (_: string, value: unknown, { source }: { readonly source?: string }): unknown =>
  typeof value !== "number" || source === undefined || isExact(value, source) ? value : raw.rawJSON(source)

/** Reports whether JSON text may hold such a number at all: looking costs less than a reviver. */
export const mayRound = (text: string): boolean => longNumber.test(text)

/** Parses like `JSON.parse`, but for numbers that it would round. */
export const parse = (text: string): unknown => {
  if (!mayRound(text)) return JSON.parse(text)
  try {
    return raw.parse(text, keep)
  } catch {
    // No JSON; or nested so deep that only a parse without a reviver gets through.
    return JSON.parse(text)
  }
}

/** The parts of a number as JSON writes it. */
const written = /^(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?$/

/** The number of a text that is one in JSON; of any other text, whatever `Number` makes of it. */
export const of = (source: string): number | Long => {
  const value = Number(source)
  return isExact(value, source) || !written.test(source) ? value : raw.rawJSON(source)
}

export const isLong = (value: unknown): value is Long => raw.isRawJSON(value)

export const isNumber = (value: unknown): value is number | Long => typeof value === "number" || isLong(value)

/** A number's value: 0.DIGITS times ten to the power of `point`. Zero has no digits. */
interface Decimal {
  readonly isNegative: boolean
  readonly digits: string
  readonly point: number
}

const decimalOf = (text: string): Decimal => {
  const [, sign, whole = "", fraction = "", exponent = "0"] = written.exec(text) ?? []
  const all = whole + fraction
  let start = 0
  while (all[start] === "0") start++
  const digits = significant(all)
  return { isNegative: sign === "-" && digits !== "", digits, point: whole.length - start + Number(exponent) }
}

/** Writes a decimal as JavaScript writes a double of that value. */
const textOfDecimal = ({ isNegative, digits, point }: Decimal): string => {
  const sign = isNegative ? "-" : ""
  const { length } = digits
  if (length === 0) return "0"
  if (point > 21 || point <= -6) {
    const power = point - 1
    return `${sign}${digits[0]}${length > 1 ? `.${digits.slice(1)}` : ""}e${power < 0 ? "" : "+"}${power}`
  }
  if (point <= 0) return `${sign}0.${"0".repeat(-point)}${digits}`
  if (length <= point) return sign + digits + "0".repeat(point - length)
  return `${sign}${digits.slice(0, point)}.${digits.slice(point)}`
}

/** Each is made once: a number may have a megabyte of digits, and be compared by each of a thousand routes. */
const texts = new WeakMap<Long, string>()

/** The text of a number: equal numbers have the same text, however they were written. `undefined` for other values. */
export const textOf = (value: unknown): string | undefined => {
  if (typeof value === "number") return String(value)
  if (!isLong(value)) return undefined
  let text = texts.get(value)
  if (text === undefined) {
    const decimal = decimalOf(value.rawJSON)
    // With an exponent of sixteen digits and more a number is equal to itself alone.
    text = decimal.digits === "" || Number.isSafeInteger(decimal.point) ? textOfDecimal(decimal) : value.rawJSON
    texts.set(value, text)
  }
  return text
}

/** The double of the same value if there is one; any other value as it is. */
export const simplest = (value: unknown): unknown => {
  if (!isLong(value)) return value
  const text = textOf(value)
  return String(Number(text)) === text ? Number(text) : value
}

/** Negative if `one` is less than `other`, positive if it is more, 0 if they are equal. */
export const compare = (one: number | Long, other: number | Long): number => {
  if (typeof one === "number" && typeof other === "number") return one - other
  const [text = "", others = ""] = [textOf(one), textOf(other)]
  if (text === others) return 0
  const [a, b] = [decimalOf(text), decimalOf(others)]
  const sign = a.isNegative ? -1 : 1
  if (a.isNegative !== b.isNegative) return sign
  if (a.digits === "") return -1
  if (b.digits === "") return sign
  if (a.point !== b.point) return a.point < b.point ? -sign : sign
  return a.digits < b.digits ? -sign : sign
}
