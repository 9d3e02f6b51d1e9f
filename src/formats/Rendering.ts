/**
 * Rendering values of an event as text. A value that can't be rendered throws
 * {@link Unrenderable}, which names its place and concerns that event alone;
 * {@link attempt} returns it as a value.
 */
import { Predicate, Result } from "effect"

/** A body may be nested deeper than JSON can be written (some 40,000 levels); few receivers accept a hundred. */
const deepest = 1_000

/** Its message holds no part of the event. */
export class Unrenderable extends Error {
  override readonly name = "Unrenderable"
}

const isDeeper = (value: unknown, levels: number): boolean => {
  let level = [value].filter(Predicate.isObjectOrArray)
  for (let depth = 0; level.length > 0; depth++) {
    if (depth >= levels) return true
    level = level.flatMap((one) => Object.values(one).filter(Predicate.isObjectOrArray))
  }
  return false
}

/** Whether it can be written as JSON. */
export const isFlat = (value: unknown): boolean => !isDeeper(value, deepest)

/** The value, if it can be written as JSON; `where` is its place in the config's notation. */
export const flat = (value: unknown, where: string): unknown => {
  if (isFlat(value)) return value
  throw new Unrenderable(`can't be rendered: what stands at ${where} is nested more than ${deepest} levels deep`)
}

/** The result of `make`, or why the event can't be rendered. Other errors are thrown. */
export const attempt = <A>(make: () => A): Result.Result<A, Unrenderable> => {
  try {
    return Result.succeed(make())
  } catch (error) {
    if (error instanceof Unrenderable) return Result.fail(error)
    throw error
  }
}
