/**
 * Values of an event put into text. What can't be is an {@link Unrenderable},
 * with the place that it stands at, and the end of that one event: whoever
 * renders takes it as a value, by {@link attempt}.
 */
import { Predicate, Result } from "effect"

/** A signed body may be nested so deep that JSON can be read and not written (some 40,000 levels); few receivers take a hundred. */
export const deepest = 1_000

/** Its message holds nothing of the event. */
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

/** Whether JSON can be written of it. */
export const isFlat = (value: unknown): boolean => !isDeeper(value, deepest)

/** The value, of which JSON can be written; `where` is how the config names its place. */
export const flat = (value: unknown, where: string): unknown => {
  if (isFlat(value)) return value
  throw new Unrenderable(`can't be rendered: what stands at ${where} is nested more than ${deepest} levels deep`)
}

/** What `make` makes of an event, or why it can't be made. A bug is thrown on. */
export const attempt = <A>(make: () => A): Result.Result<A, Unrenderable> => {
  try {
    return Result.succeed(make())
  } catch (error) {
    if (error instanceof Unrenderable) return Result.fail(error)
    throw error
  }
}
