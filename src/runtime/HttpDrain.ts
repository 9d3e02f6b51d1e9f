/**
 * Reads a response to its end, so that the connection can be used again, or
 * aborts it where that would take too long.
 */

/** Bytes of a response that are read. */
export const maxResponse = 64 * 1024
/** Milliseconds after which a response is aborted: its status is known. */
const drainTimeout = 1_000

/**
 * The body as far as it was read: some services say there what the status does
 * not. `response.body` is touched last, because the stream costs as much as four
 * headers.
 */
export const drain = async (response: Response, abort: AbortController): Promise<ReadonlyArray<Uint8Array>> => {
  if (response.status === 204) return []
  const length = response.headers.get("content-length")
  if (length === "0") return []
  const chunks: Array<Uint8Array> = []
  const timer = setTimeout(() => abort.abort(), drainTimeout)
  try {
    if (length !== null && Number(length) <= maxResponse) chunks.push(new Uint8Array(await response.arrayBuffer()))
    else if (response.body !== null && !(await endsWithin(response.body, maxResponse, chunks))) abort.abort()
  } catch {
    // Cut off by either side: the status is known.
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
