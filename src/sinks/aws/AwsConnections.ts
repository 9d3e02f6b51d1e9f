/**
 * The connections of a client to AWS.
 *
 * **Guarantee.** A connection that was idle for 15 seconds is not used again, and
 * after an attempt without an answer no idle one is. A NAT or a firewall may have
 * dropped it without a word: each one would cost a time-out.
 */
import { Agent as HttpAgent } from "node:http"
import { Agent as HttpsAgent } from "node:https"

/** Milliseconds. Firewalls drop connections after half a minute of silence and more. */
const longestIdle = 15_000

export interface AwsConnections {
  /** The SDK's option for a client. */
  readonly requestHandler: { readonly httpAgent: HttpAgent; readonly httpsAgent: HttpsAgent }
  /** Closes the connections without a request. */
  readonly closeIdle: () => void
  /** Closes all. */
  readonly close: () => void
}

export const make = (idle = longestIdle): AwsConnections => {
  // The lane limits the requests in flight.
  const options = { keepAlive: true, maxSockets: Number.POSITIVE_INFINITY, timeout: idle }
  const requestHandler = { httpAgent: new HttpAgent(options), httpsAgent: new HttpsAgent(options) }
  const closeIdle = (): void => {
    for (const agent of Object.values(requestHandler)) {
      for (const socket of Object.values(agent.freeSockets).flat()) socket?.destroy()
    }
  }
  const close = (): void => {
    for (const agent of Object.values(requestHandler)) agent.destroy()
  }
  return { requestHandler, closeIdle, close }
}
