/**
 * Parses JSON without rounding numbers that no double holds: an id of 64 bits,
 * `1e400`. Such a number becomes the object that `JSON.rawJSON` makes, which
 * `JSON.stringify` writes as the sender did; all others are numbers.
 */

/** Bun and Deno have these; TypeScript's libraries do not declare them yet. */
interface Raw {
  readonly rawJSON: (text: string) => unknown
  readonly isRawJSON: (value: unknown) => boolean
  readonly parse: (
    text: string,
    reviver: (key: string, value: unknown, context: { readonly source?: string }) => unknown,
  ) => unknown
}
const raw = JSON as unknown as Raw

/** Whether there may be such a number at all: looking costs less than a reviver. */
const mayBeLong = /[0-9]{16}|[eE]\+?[0-9]{2}/

const keep = (_: string, value: unknown, { source }: { readonly source?: string }): unknown =>
  typeof value !== "number" || source === undefined || Math.abs(value) <= Number.MAX_SAFE_INTEGER
    ? value
    : raw.rawJSON(source)

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
