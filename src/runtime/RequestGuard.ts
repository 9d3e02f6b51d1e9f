/**
 * Checks parts of every request that no runtime checks, before its handler: exactly
 * one well-formed Host (a broken one makes the URL wrong), which only GET and HEAD
 * may leave out, and at most one Content-Length (both runtimes accept an identical
 * pair). No exception reaches the runtime's own error page. It also counts the
 * requests in progress, which a drain waits for.
 *
 * **Gotcha.** Bun closes a connection if a second request is pipelined before the
 * first is answered. The first was handled, but its answer is lost. The sender's
 * retry is a duplicate and gets a 2xx.
 *
 * **Gotcha.** Bun treats a trailer as another request and answers it with 400, which
 * the sender reads before the response to its delivery. So a request that announces
 * a trailer is refused before its body is read, and nothing is stored.
 */
import { readFile } from "node:fs/promises"
import { Duration, Effect, Latch } from "effect"
import { rounds } from "../event/Rounds.ts"
import * as Problem from "./Problem.ts"

// Frees memory without the garbage collector, which lags by hundreds of megabytes under a flood of bodies.

/** Frees the buffer of `bytes` now, unless other code uses a part of it. `bytes` is empty afterwards. */
export const free = (bytes: Uint8Array): void => {
  if (bytes.buffer instanceof ArrayBuffer && bytes.byteLength === bytes.buffer.byteLength) bytes.buffer.transfer(0)
}

/** The runtime's limit for request headers, if it can't be changed. */
export const headerLimit =
  "Deno" in globalThis ? "Deno takes 64 KiB and 128 headers, and has no other limit" : undefined

// Reads and discards the rest of a refused request's body before its response is sent.
// **Gotcha.** If a connection closes while its client still sends a body, the client gets a reset, often before it has
// read the response. Node and Python then report a broken pipe, and a proxy answers 502. Bun discards the rest by
// itself only on connections that stay open.

/** Maximum bytes of a body that are discarded. */
export const maxDiscarded = 16 * 1024 * 1024
/** Milliseconds after which the response is always sent, and milliseconds without a byte after which it is sent. */
const discardTimeout = 5_000
const stallTimeout = 1_000
/** Maximum bodies that are discarded at the same time. Under a flood of 1 GiB a second they take 40 MiB. */
const maxAtOnce = 64

let discarding = 0

/** Returns the body of a request, or `undefined` if it has none, was read, or can't be discarded within the limits. */
const unreadBody = ({ body, headers }: Request): ReadableStream<Uint8Array> | undefined => {
  if (body === null || body.locked || discarding >= maxAtOnce) return undefined
  const length = headers.get("content-length")
  // Bun gives a CONNECT a body that never ends.
  if (length === null) return headers.has("transfer-encoding") ? body : undefined
  return Number(length) > maxDiscarded ? undefined : body
}

/** Discards a body within both limits. Returns whether the body or its connection ended. */
const discard = async (body: ReadableStream<Uint8Array>): Promise<boolean> => {
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

/** Handles a request. An error that it throws or rejects with is answered 500 and logged. */
export type Handler = (request: Request) => Response | Promise<Response>

/** A handler behind the checks, and its requests in progress. */
export interface Guard {
  readonly handle: Handler
  /** The number of requests since the start. */
  readonly total: () => number
  /** The number of requests in progress. */
  readonly inProgress: () => number
  /**
   * Waits until the requests that are in progress now have ended. Later requests don't count, because refused clients
   * retry again and again.
   */
  readonly ended: Effect.Effect<void>
}

/** A name, an IPv4 address or a bracketed IPv6 address, with or without a port. Two Host headers arrive joined by a comma. */
const host = /^(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?$/
const length = /^[0-9]{1,15}$/

/** The last valid Host. Most requests have the same one, and comparing is cheaper than parsing. */
let good = ""

/** Reports whether a Host can be in a URL: a port of 99999, 1.2.3.999 or [:::1] can't. */
const isHost = (text: string): boolean => {
  if (text !== "" && text === good) return true
  if (!host.test(text) || !URL.canParse(`http://${text}`)) return false
  good = text
  return true
}

const probing: ReadonlySet<string> = new Set(["GET", "HEAD"])

/** Load balancers probe over HTTP/1.0 without a Host. Bun's URL then has no host either. */
const isHostless = ({ method, headers }: Request): boolean => probing.has(method) && (headers.get("host") ?? "") === ""
const withHost = (request: Request): Request =>
  request.url.startsWith("/") ? new Request(`http://localhost${request.url}`, request) : request

/** The problems that the guard answers itself. */
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

/** The requests between two calls of `ended`. */
interface Era {
  inProgress: number
  readonly idle: Latch.Latch
}
const makeEra = (): Era => ({ inProgress: 0, idle: Latch.makeUnsafe(true) })

/**
 * Makes a guard. `report` logs a defect. `refused` is called for each answer that is
 * not the handler's, with the request id in the response.
 */
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
  /** Sends a refusal after the rest of the body has arrived, so that the client reads it. */
  const answered = (own: Era, request: Request, response: Response): Response | Promise<Response> => {
    const unread = response.status < 400 ? undefined : unreadBody(request)
    if (unread === undefined) {
      done(own)
      return response
    }
    return discard(unread).then((hasEnded) => {
      // The runtime discards the rest of a body of known length, and of a chunked body as long as it arrives.
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
      // Only a chunked body has a trailer.
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

// Counts connections that ended because the runtime could not read a request, which neither Bun nor Deno reports. For a
// minute, Linux remembers each connection that this side closed first (TIME_WAIT). If the port has had no request for
// longer than a connection may be idle, each of these connections ended without a request. So a proxy with another
// protocol is detected within a few minutes. It costs nothing per request, and counts nothing while requests arrive.

/** How long Linux remembers a connection. */
const remembered = Duration.minutes(1)
/** The runtime may close idle connections this much later. */
const margin = Duration.seconds(5)

const tableOf = (name: string): Promise<string> => readFile(`/proc/self/net/${name}`, "utf8").catch(() => "")

/** Counts the connections of a port that this side closed first in the last minute. Returns 0 without `/proc`. */
export const closedAt = async (port: number): Promise<number> => {
  const hex = port.toString(16).toUpperCase().padStart(4, "0")
  const line = new RegExp(`^ *\\d+: [0-9A-F]+:${hex} \\S+ 06 `, "gm")
  const tables = await Promise.all([tableOf("tcp"), tableOf("tcp6")])
  return tables.reduce((sum, table) => sum + (table.match(line)?.length ?? 0), 0)
}

interface Watched {
  readonly port: number
  /** The number of requests since the start, of any kind. */
  readonly requests: () => number
  readonly idleTimeout: Duration.Duration
  readonly closed?: (port: number) => Promise<number>
}

/** Calls `note` after each minute in which connections ended without a request. */
export const watchUnreadable = (
  { port, requests, idleTimeout, closed = closedAt }: Watched,
  note: (count: number) => void,
): Effect.Effect<never> => {
  const needed = Duration.sum(Duration.sum(idleTimeout, margin), remembered)
  let seen = requests()
  let quiet = Duration.zero
  const look = Effect.gen(function* () {
    const now = requests()
    quiet = now === seen ? Duration.sum(quiet, remembered) : Duration.zero
    seen = now
    if (Duration.isLessThan(quiet, needed)) return
    const count = yield* Effect.promise(() => closed(port))
    if (count > 0 && requests() === seen) note(count)
  })
  return Effect.delay(rounds("looking for unreadable requests", look, remembered), remembered)
}
