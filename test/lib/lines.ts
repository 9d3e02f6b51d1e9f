/** What the relay wrote as lines, read back: the signed bodies, base64 undone. */

const marked = '{"relay_base64":"'

/** The bodies of a file's lines; what stands behind the last line feed is no line. */
export const bodies = (bytes: Uint8Array): ReadonlyArray<Uint8Array> => {
  const buffer = Buffer.from(bytes)
  const all: Array<Uint8Array> = []
  let start = 0
  for (let end = buffer.indexOf(0x0a); end !== -1; end = buffer.indexOf(0x0a, start)) {
    const line = buffer.subarray(start, end)
    const text = line.subarray(0, marked.length).toString("latin1")
    all.push(text === marked ? Buffer.from(String(JSON.parse(line.toString()).relay_base64), "base64") : line)
    start = end + 1
  }
  return all
}
