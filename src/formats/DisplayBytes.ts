/**
 * Bytes as a person reviews them: JSON as JSON where that loses nothing, text
 * as text, and the rest as base64.
 */
import { isFlat } from "./Rendering.ts"

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

export const show = (bytes: Uint8Array): unknown => {
  let text: string
  try {
    text = utf8.decode(bytes)
  } catch {
    return { base64: Buffer.from(bytes).toString("base64") }
  }
  const value = parsed(text)
  // Blanks, numbers such as 1.0 and keys that come twice would be lost: such a body is shown as it is written.
  return value !== undefined && isFlat(value) && JSON.stringify(value) === text ? value : text
}
