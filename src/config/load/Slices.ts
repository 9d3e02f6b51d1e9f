/** Long work in slices: a config may have thousands of routes, and a relay that reloads it goes on meanwhile. */
import { Effect, Semaphore } from "effect"

/** Lets what waits run first. */
export const breath = Effect.callback<void>((resume) => {
  setImmediate(() => resume(Effect.void))
})

/** A turn of the event loop for each fiber that asks: many that do the same at once still let what waits run between them. */
export const turnstile = (): Effect.Effect<void> => Semaphore.makeUnsafe(1).withPermit(breath)

/** Each of many in turn, so many at a time. */
export const each = Effect.fnUntraced(function* <A, B>(
  items: ReadonlyArray<A>,
  size: number,
  work: (item: A, index: number) => B,
) {
  const results: Array<B> = []
  for (const [index, item] of items.entries()) {
    if (index % size === size - 1) yield* breath
    results.push(work(item, index))
  }
  return results
})
