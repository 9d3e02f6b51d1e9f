/** Work whose failure means only that there is no value. */

/** Returns the result of `work`, or `undefined` if it throws. */
export const orUndefined = <A>(work: () => A): A | undefined => {
  try {
    return work()
  } catch {
    return undefined
  }
}

/** Returns the value of a JSON text, or `undefined` if it isn't JSON. */
export const parsedJson = (text: string): unknown => orUndefined((): unknown => JSON.parse(text))
