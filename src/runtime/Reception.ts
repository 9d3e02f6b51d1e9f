/** Passes the requests of a port to the handler in force, or lets them wait for one. */
import * as Hold from "./Hold.ts"
import type { Handler } from "./RequestGuard.ts"

export interface Reception {
  readonly handle: Handler
  /** Passes the requests that wait, and all later ones, to a handler. */
  readonly passTo: (handler: Handler) => void
  /** Lets all later requests wait. */
  readonly hold: () => void
  /** Refuses the requests that wait, and all later ones, if they wait. */
  readonly giveUp: () => void
  /** The number of requests that wait. */
  readonly waiting: () => number
  /** Whether each answer closes its connection. */
  isLeaving: boolean
}

const closing = async (answer: Response | Promise<Response>): Promise<Response> => {
  const response = await answer
  response.headers.set("connection", "close")
  return response
}

/** Requests wait at first. `whileHeld` answers those that don't. */
export const make = (whileHeld: (request: Request) => Response | undefined): Reception => {
  const held = Hold.make()
  const wait: Handler = (request) => whileHeld(request) ?? held.handle(request)
  let handler = wait
  const passTo = (next: Handler): void => {
    handler = next
    held.passTo(next)
  }
  const reception: Reception = {
    handle: (request) => (reception.isLeaving ? closing(handler(request)) : handler(request)),
    passTo,
    hold: () => {
      handler = wait
    },
    giveUp: () => {
      if (handler === wait) passTo(Hold.refuse)
    },
    waiting: held.size,
    isLeaving: false,
  }
  return reception
}
