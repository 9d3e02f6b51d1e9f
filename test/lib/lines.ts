/** What the relay wrote as lines, read back: the signed bodies, base64 undone. */

const marked = '{"relay_base64":"'

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })

/** The bodies of a file's lines; what stands behind the last line feed is no line. Throws where one is no JSON. */
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
