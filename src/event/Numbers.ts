/**
 * Parses JSON without rounding numbers that a double can't hold, such as a 64-bit
 * id, a decimal of twenty digits, or `1e400`. Such a number becomes a `JSON.rawJSON`
 * object, which `JSON.stringify` writes as the sender did. All other numbers are
 * doubles.
 *
 * **Guarantee.** Numbers are compared by their decimal value, however they are
 * written. So 1, 1.0 and 1e0 are equal.
 */

/** A number that a double can't hold. */
export interface Long {
  readonly rawJSON: string
}

/** Functions that Bun and Deno have and TypeScript's libraries do not declare yet. */
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

/** Returns the significant digits, without the sign, the point, the exponent, and zeros at either end. */
const significant = (text: string): string => {
  const digits = text.replace(/[eE].*$|[-.]/g, "").replace(/^0+/, "")
  // A regular expression would take quadratic time for a run of zeros in the middle.
  let end = digits.length
  while (digits[end - 1] === "0") end--
  return digits.slice(0, end)
}

/** Reports whether the double has the same digits as its source, so that it is the same number. */
const isExact = (value: number, source: string): boolean =>
  Math.abs(value) <= Number.MAX_SAFE_INTEGER &&
  (String(value) === source || significant(String(value)) === significant(source))

const keep = (_: string, value: unknown, { source }: { readonly source?: string }): unknown =>
  typeof value !== "number" || source === undefined || isExact(value, source) ? value : raw.rawJSON(source)

/** Reports whether JSON text may hold such a number. This check is cheaper than a reviver. */
export const mayRound = (text: string): boolean => longNumber.test(text)

/** Parses like `JSON.parse`, except for numbers that it would round. */
export const parse = (text: string): unknown => {
  if (!mayRound(text)) return JSON.parse(text)
  try {
    return raw.parse(text, keep)
  } catch {
    // Either it is not JSON, or it is nested too deep for a parse with a reviver.
    return JSON.parse(text)
  }
}

/** The parts of a number as JSON writes it. */
const written = /^(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?$/

/** Returns the number of a JSON number's text. For any other text, returns the result of `Number`. */
export const of = (source: string): number | Long => {
  const value = Number(source)
  return isExact(value, source) || !written.test(source) ? value : raw.rawJSON(source)
}

export const isLong = (value: unknown): value is Long => raw.isRawJSON(value)

export const isNumber = (value: unknown): value is number | Long => typeof value === "number" || isLong(value)

/** The value of a number: 0.DIGITS times ten to the power of `point`. Zero has no digits. */
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

/** Cached, because a number may have a megabyte of digits, and each of a thousand routes may compare it. */
const texts = new WeakMap<Long, string>()

/**
 * Returns the text of a number, or `undefined` for other values. Equal numbers have
 * the same text, however they were written.
 */
export const textOf = (value: unknown): string | undefined => {
  if (typeof value === "number") return String(value)
  if (!isLong(value)) return undefined
  let text = texts.get(value)
  if (text === undefined) {
    const decimal = decimalOf(value.rawJSON)
    // A number with an exponent of sixteen or more digits equals only the same text.
    text = decimal.digits === "" || Number.isSafeInteger(decimal.point) ? textOfDecimal(decimal) : value.rawJSON
    texts.set(value, text)
  }
  return text
}

/** Returns the double of the same value if there is one. Otherwise returns the value unchanged. */
export const simplest = (value: unknown): unknown => {
  if (!isLong(value)) return value
  const text = textOf(value)
  return String(Number(text)) === text ? Number(text) : value
}

/**
 * Returns a negative number if `one` is less than `other`, a positive number if it
 * is greater, and 0 if they are equal.
 */
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
