/**
 * Reading an answer to its end, so that its connection can be used again; and
 * giving it up where that would take too much.
 */

/** Bytes of an answer that are read: enough for the connection to be used again, never an endless one. */
const maxAnswer = 64 * 1024
/** An answer whose end is not there after so many milliseconds is cut off: its status is all that counts. */
const maxDrain = 1_000

/**
 * What came of an answer's body: some services say there what the status does
 * not. `body` is touched last: a stream that nobody needs costs as much as a
 * header or four.
 */
export const drain = async (response: Response, abort: AbortController): Promise<ReadonlyArray<Uint8Array>> => {
  if (response.status === 204) return []
  const length = response.headers.get("content-length")
  if (length === "0") return []
  const chunks: Array<Uint8Array> = []
  const timer = setTimeout(() => abort.abort(), maxDrain)
  try {
    if (length !== null && Number(length) <= maxAnswer) chunks.push(new Uint8Array(await response.arrayBuffer()))
    else if (response.body !== null && !(await endsWithin(response.body, maxAnswer, chunks))) abort.abort()
  } catch {
    // Cut off by us or by the receiver: the answer had come.
  } finally {
    clearTimeout(timer)
  }
  return chunks
}

const endsWithin = async (
  body: ReadableStream<Uint8Array>,
  limit: number,
  chunks: Array<Uint8Array>,
): Promise<boolean> => {
  const reader = body.getReader()
  for (let bytes = 0; bytes < limit; ) {
    const { done, value } = await reader.read()
    if (done) return true
    chunks.push(value)
    bytes += value.byteLength
  }
  return false
}
