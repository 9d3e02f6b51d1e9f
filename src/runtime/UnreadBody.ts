/**
 * Reads and discards the rest of a refused request's body before its response is
 * sent.
 *
 * **Gotcha.** If a connection closes while its client still sends a body, the
 * client gets a reset, often before it has read the response: Node and Python
 * report a broken pipe, and a proxy answers 502. Bun discards the rest by itself
 * only on connections that stay open.
 */

import { free } from "./Freeing.ts"

/** Bytes of a body that are discarded. */
export const maxDiscarded = 16 * 1024 * 1024
/** Milliseconds after which the response is sent in any case, and after which it is sent if no byte comes. */
const discardTimeout = 5_000
const stallTimeout = 1_000
/** Bodies that are discarded at the same time. Under a flood of 1 GiB a second they take 40 MiB. */
const maxAtOnce = 64

let discarding = 0

/** The body of a request, or `undefined` if it has none, was read, or can't be discarded within the limits. */
export const unreadBody = ({ body, headers }: Request): ReadableStream<Uint8Array> | undefined => {
  if (body === null || body.locked || discarding >= maxAtOnce) return undefined
  const length = headers.get("content-length")
  // Bun gives a CONNECT a body that never ends.
  if (length === null) return headers.has("transfer-encoding") ? body : undefined
  return Number(length) > maxDiscarded ? undefined : body
}

/** Discards a body within both limits. Reports whether it ended, or its connection did. */
export const discard = async (body: ReadableStream<Uint8Array>): Promise<boolean> => {
  const reader = body.getReader()
  let hasEnded = true
  const giveUp = () => {
    hasEnded = false
    reader.cancel().catch(() => {})
  }
  const timer = setTimeout(giveUp, discardTimeout)
  let stall = setTimeout(giveUp, stallTimeout)
  discarding += 1
  try {
    for (let bytes = 0; ; ) {
      const { done, value } = await reader.read()
      if (done) return hasEnded
      clearTimeout(stall)
      stall = setTimeout(giveUp, stallTimeout)
      bytes += value.byteLength
      free(value)
      if (bytes > maxDiscarded) giveUp()
    }
  } catch {
    return true
  } finally {
    clearTimeout(timer)
    clearTimeout(stall)
    discarding -= 1
  }
}
