/**
 * Parses JSON without rounding numbers that no double holds: an id of 64 bits,
 * a decimal of twenty digits, `1e400`. Such a number becomes the object that
 * `JSON.rawJSON` makes, which `JSON.stringify` writes as the sender did; all
 * others are numbers.
 */

/** Bun and Deno have these; TypeScript's libraries do not declare them yet. */
interface Raw {
  readonly rawJSON: (text: string) => { readonly rawJSON: string }
  readonly isRawJSON: (value: unknown) => boolean
  readonly parse: (
    text: string,
    reviver: (key: string, value: unknown, context: { readonly source?: string }) => unknown,
  ) => unknown
}
const raw = JSON as unknown as Raw

/** Whether there may be such a number at all, outside of texts: looking costs less than a reviver. */
const mayBeLong = /(?:^|[:[,])\s*-?[0-9](?:[0-9.]{15}|[0-9.]*[eE](?:\+?[0-9]{2}|-[0-9]{3}))/

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

/** Parses like `JSON.parse`, but for numbers that it would round. */
export const parse = (text: string): unknown => {
  if (!mayBeLong.test(text)) return JSON.parse(text)
  try {
    return raw.parse(text, keep)
  } catch {
    // No JSON; or nested so deep that only a parse without a reviver gets through.
    return JSON.parse(text)
  }
}

export const isNumber = (value: unknown): boolean => typeof value === "number" || raw.isRawJSON(value)

/** The digits of a number that no double holds; `undefined` for every other value. */
export const digitsOf = (value: unknown): string | undefined =>
  raw.isRawJSON(value) ? (value as { readonly rawJSON: string }).rawJSON : undefined
