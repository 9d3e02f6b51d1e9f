/** The address of a request's sender, for the log, `relay status`, and which bodies are cut off last. It is not authenticated. */
import * as Runtime from "../runtime/Runtime.ts"

/** An IPv4 or IPv6 address, with or without a port. Anything else in the header is a stranger's text. */
const address = /^(?:\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?|\[?[\da-f:.]{2,45}\]?(?::\d{1,5})?)$/i

/**
 * The last address in `header`, which the nearest proxy has added, or else the
 * address of the connection. Empty if neither is known.
 */
export const of = (request: Request, header: string | undefined): string => {
  const named = header === undefined ? undefined : request.headers.get(header)?.split(",").at(-1)?.trim()
  return named !== undefined && address.test(named) ? named : Runtime.peerOf(request)
}
