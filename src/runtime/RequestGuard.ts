/**
 * Checks every request before its handler for what no runtime checks: exactly
 * one well-formed Host (a broken one makes the URL wrong), which only GET and
 * HEAD may leave out, and at most one Content-Length (both runtimes accept an
 * identical pair). No exception reaches the runtime's own error page. It also
 * counts the requests in progress, which a drain waits for.
 *
 * **Gotcha.** Bun closes a connection on which a second request is pipelined
 * before the first is answered. The first was handled and its answer is lost; the
 * sender's retry is a duplicate, and answered 2xx.
 *
 * **Gotcha.** Bun takes a trailer for another request and answers that with 400,
 * which the sender reads before the response to its delivery. So a request that
 * announces a trailer is refused before its body is read, and nothing is stored.
 */
import { Effect, Latch } from "effect"
import * as Problem from "./Problem.ts"
import * as UnreadBody from "./UnreadBody.ts"

/** Handles a request. What it throws or rejects with is answered 500 and logged. */
export type Handler = (request: Request) => Response | Promise<Response>

/** A handler behind the checks, and its requests in progress. */
export interface Guard {
  readonly handle: Handler
  /** The number of requests since the start. */
  readonly total: () => number
  /** How many requests are in progress. */
  readonly inProgress: () => number
  /** Waits until the requests that are in progress now have ended. Later ones don't matter: refused clients send again and again. */
  readonly ended: Effect.Effect<void>
}

/** A name, an IPv4 address or a bracketed IPv6 address, with or without a port. Two Host headers arrive joined by a comma. */
const host = /^(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?$/
const length = /^[0-9]{1,15}$/

/** The last Host that was found good: most requests have the same, and parsing it costs more than comparing it. */
let good = ""

/** Reports whether a Host can be in a URL: a port of 99999, 1.2.3.999 or [:::1] can't. */
const isHost = (text: string): boolean => {
  if (text !== "" && text === good) return true
  if (!host.test(text) || !URL.canParse(`http://${text}`)) return false
  good = text
  return true
}

const probing: ReadonlySet<string> = new Set(["GET", "HEAD"])

/** Load balancers probe by HTTP/1.0 without a Host. Bun then gives the URL without one, too. */
const isHostless = ({ method, headers }: Request): boolean => probing.has(method) && (headers.get("host") ?? "") === ""
const withHost = (request: Request): Request =>
  request.url.startsWith("/") ? new Request(`http://localhost${request.url}`, request) : request

/** The guard answers these itself. */
export const problems = {
  badHost: Problem.badRequest("the Host header is missing, doubled or malformed"),
  badLength: Problem.badRequest("the Content-Length header is doubled or malformed"),
  trailer: {
    status: 411,
    title: "Deliveries have no trailer",
    detail: "send it without the Trailer header, or with a Content-Length",
    headers: Problem.closing,
  },
  bug: Problem.bug,
} satisfies Record<string, Problem.Problem>

/** Why the guard itself answers a request. */
export type Refusal = keyof typeof problems

/** Requests that came before a call of `ended`, and after the call before it. */
interface Era {
  inProgress: number
  readonly idle: Latch.Latch
}
const makeEra = (): Era => ({ inProgress: 0, idle: Latch.makeUnsafe(true) })

/** `report` logs a defect, `refused` notes each answer that is not the handler's, by the request id in the response. */
export const make = (
  handler: Handler,
  report: (requestId: string, defect: unknown) => void,
  refused: (refusal: Refusal, requestId: string, request: Request) => void = () => {},
  readsTrailers = true,
): Guard => {
  let total = 0
  let inProgress = 0
  let era = makeEra()

  const done = (own: Era) => {
    inProgress -= 1
    own.inProgress -= 1
    if (own.inProgress === 0) own.idle.openUnsafe()
  }
  const refuse = (refusal: Refusal, request: Request) => {
    const id = Problem.requestId()
    refused(refusal, id, request)
    return Problem.toResponse(problems[refusal], id)
  }
  /** Sends a refusal once the rest of the body has come, so that the client reads it. */
  const answered = (own: Era, request: Request, response: Response): Response | Promise<Response> => {
    const unread = response.status < 400 ? undefined : UnreadBody.unreadBody(request)
    if (unread === undefined) {
      done(own)
      return response
    }
    return UnreadBody.discard(unread).then((hasEnded) => {
      // The runtime drops the rest of a body whose length it knows, and of a chunked one for as long as it comes.
      if (!hasEnded && !request.headers.has("content-length")) response.headers.set("connection", "close")
      done(own)
      return response
    })
  }
  const crashed = (own: Era, request: Request, defect: unknown) => {
    const id = Problem.requestId()
    report(id, defect)
    refused("bug", id, request)
    return answered(own, request, Problem.toResponse(problems.bug, id))
  }

  return {
    handle: (received) => {
      const { headers } = received
      const own = era
      total += 1
      inProgress += 1
      own.inProgress += 1
      own.idle.closeUnsafe()
      const hasHost = isHost(headers.get("host") ?? "")
      if (!hasHost && !isHostless(received)) return answered(own, received, refuse("badHost", received))
      const request = hasHost ? received : withHost(received)
      const declared = headers.get("content-length")
      if (declared !== null && !length.test(declared)) return answered(own, request, refuse("badLength", received))
      // Only a body in chunks has one.
      if (declared === null && !readsTrailers && headers.has("trailer")) {
        done(own)
        return refuse("trailer", received)
      }
      try {
        const response = handler(request)
        if (!(response instanceof Promise)) return answered(own, request, response)
        return response.then(
          (response) => answered(own, request, response),
          (defect) => crashed(own, request, defect),
        )
      } catch (defect) {
        return crashed(own, request, defect)
      }
    },
    total: () => total,
    inProgress: () => inProgress,
    ended: Effect.suspend(() => {
      const { idle } = era
      era = makeEra()
      return idle.await
    }),
  }
}
