/**
 * Checks every request before its handler for what no runtime checks: exactly
 * one well-formed Host (a broken one makes the URL wrong) and at most one
 * Content-Length (both runtimes accept an identical pair). No exception reaches
 * the runtime's own error page. It also counts the requests in progress, which a
 * drain waits for.
 *
 * **Gotcha.** Bun closes a connection on which a second request is pipelined
 * before the first is answered. The first was handled and its answer is lost; the
 * sender's retry is a duplicate, and answered 2xx.
 */
import { Effect } from "effect"
import * as Problem from "./Problem.ts"

export type Handler = (request: Request) => Response | Promise<Response>

export interface Guard {
  readonly handle: Handler
  /** Waits until no request is in progress. */
  readonly idle: Effect.Effect<void>
}

/** A name, an IPv4 address or a bracketed IPv6 address, with or without a port. Two Host headers arrive joined by a comma. */
const host = /^(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?$/
const length = /^[0-9]{1,15}$/

const badHost = Problem.badRequest("the Host header is missing, doubled or malformed")
const badLength = Problem.badRequest("the Content-Length header is doubled or malformed")

/** `report` logs a defect with the request id of the response; `refused` is called with every status that is not the handler's. */
export const make = (
  handler: Handler,
  report: (id: string, defect: unknown) => void,
  refused: (status: number) => void = () => {},
): Guard => {
  let inProgress = 0
  let waiting: Array<() => void> = []

  const done = () => {
    inProgress -= 1
    if (inProgress > 0 || waiting.length === 0) return
    const resume = waiting
    waiting = []
    for (const wake of resume) wake()
  }
  const refuse = (problem: Problem.Problem) => {
    refused(problem.status)
    return Problem.toResponse(problem)
  }
  const answered = (response: Response) => {
    done()
    return response
  }
  const crashed = (defect: unknown) => {
    done()
    refused(Problem.bug.status)
    const id = Problem.requestId()
    report(id, defect)
    return Problem.toResponse(Problem.bug, id)
  }

  return {
    handle: (request) => {
      const { headers } = request
      if (!host.test(headers.get("host") ?? "")) return refuse(badHost)
      const declared = headers.get("content-length")
      if (declared !== null && !length.test(declared)) return refuse(badLength)
      inProgress += 1
      try {
        const response = handler(request)
        return response instanceof Promise ? response.then(answered, crashed) : answered(response)
      } catch (defect) {
        return crashed(defect)
      }
    },
    idle: Effect.callback<void>((resume) => {
      if (inProgress === 0) return resume(Effect.void)
      const wake = () => resume(Effect.void)
      waiting.push(wake)
      return Effect.sync(() => {
        waiting = waiting.filter((_) => _ !== wake)
      })
    }),
  }
}
