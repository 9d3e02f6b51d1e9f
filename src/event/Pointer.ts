/** JSON Pointers (RFC 6901) into a decoded body, for `where`, templates, keys and searches. */

export type Pointer = ReadonlyArray<string>

/** Parses a pointer such as `/data/object/id`. Returns `undefined` if the text is not a pointer. */
export const parsePointer = (text: string): Pointer | undefined => {
  if (text === "") return []
  if (!text.startsWith("/")) return undefined
  const tokens = text.slice(1).split("/")
  if (tokens.some((token) => /~(?![01])/.test(token))) return undefined
  return tokens.map((token) => token.replaceAll("~1", "/").replaceAll("~0", "~"))
}

/** Returns the value at a pointer, or `undefined` if there is none. Only own properties count. */
export const get = (pointer: Pointer, root: unknown): unknown => {
  let value = root
  for (const token of pointer) {
    if (Array.isArray(value)) {
      if (!/^(0|[1-9][0-9]*)$/.test(token)) return undefined
      value = value[Number(token)]
    } else if (typeof value === "object" && value !== null && Object.hasOwn(value, token)) {
      value = (value as Record<string, unknown>)[token]
    } else {
      return undefined
    }
  }
  return value
}
