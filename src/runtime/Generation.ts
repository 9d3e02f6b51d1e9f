/**
 * The requests that come by one listener. Once it is retired, because another
 * has taken over its address, each answer asks the client to connect anew.
 */
import type { Handler } from "./RequestGuard.ts"

export interface Generation {
  readonly handle: Handler
  readonly retire: () => void
  /** Whether none of the requests since it was retired is in progress. */
  readonly isIdle: () => boolean
}

export const make = (handler: Handler): Generation => {
  let isRetired = false
  let inProgress = 0
  const handleLast = async (request: Request): Promise<Response> => {
    inProgress += 1
    try {
      const response = await handler(request)
      response.headers.set("connection", "close")
      return response
    } finally {
      inProgress -= 1
    }
  }
  return {
    handle: (request) => (isRetired ? handleLast(request) : handler(request)),
    retire: () => {
      isRetired = true
    },
    isIdle: () => inProgress === 0,
  }
}
