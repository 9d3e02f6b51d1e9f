/** Reads back the lines that the relay wrote, as the bodies that were signed. */

const marked = '{"relay_base64":"'

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })

/**
 * Returns the bodies of a file's lines, with base64 undone. Bytes after the last line feed are not a line. Throws if a
 * line isn't JSON.
 */
export const bodies = (bytes: Uint8Array): ReadonlyArray<Uint8Array> => {
  const buffer = Buffer.from(bytes)
  const all: Array<Uint8Array> = []
  let start = 0
  for (let end = buffer.indexOf(0x0a); end !== -1; end = buffer.indexOf(0x0a, start)) {
    const line = buffer.subarray(start, end)
    const text = utf8.decode(line)
    const value = JSON.parse(text)
    all.push(text.startsWith(marked) ? Buffer.from(value.relay_base64, "base64") : line)
    start = end + 1
  }
  return all
}
