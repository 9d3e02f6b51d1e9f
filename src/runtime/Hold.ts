/**
 * Holds requests until the next handler is ready. While a restart passes the journal
 * from one process to the other, neither can answer a delivery.
 *
 * **Guarantee.** Waiting bodies have at most {@link maxBytes} in total, and no
 * request waits longer than {@link holdTime}. A request beyond either limit gets a
 * 503.
 */
import * as Problem from "./Problem.ts"
import type { Handler } from "./RequestGuard.ts"

// Passes the requests of a port to the current handler, or lets them wait for one.

interface Reception {
  readonly handle: Handler
  /** Passes all waiting and later requests to a handler. */
  readonly passTo: (handler: Handler) => void
  /** Makes all later requests wait. */
  readonly hold: () => void
  /** Refuses all waiting and later requests, if requests wait now. */
  readonly giveUp: () => void
  /** The number of requests that wait. */
  readonly waiting: () => number
  /** If true, each answer closes its connection. */
  isLeaving: boolean
}

const closing = async (answer: Response | Promise<Response>): Promise<Response> => {
  const response = await answer
  response.headers.set("connection", "close")
  return response
}

/** Makes a reception whose requests wait at first. `whileHeld` may answer a request immediately. */
export const makeReception = (whileHeld: (request: Request) => Response | undefined): Reception => {
  const held = makeHold()
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
      if (handler === wait) passTo(refuse)
    },
    waiting: held.size,
    isLeaving: false,
  }
  return reception
}

/** Maximum bytes of all waiting bodies. */
export const maxBytes = 64 * 1024 * 1024
/** Maximum wait of a request, in milliseconds. */
const holdTime = 10_000

const restarting: Problem.Problem = {
  status: 503,
  title: "Restarting",
  detail: "the relay is restarting; send the delivery again",
  headers: { ...Problem.closing, "retry-after": "1" },
}

/** Answers every request with 503. */
export const refuse: Handler = () => Problem.toResponse(restarting)

/** The waiting requests. */
interface Hold {
  readonly handle: Handler
  /** The number of requests that wait. */
  readonly size: () => number
  /** Passes all waiting requests to a handler. Later requests wait for the next call. */
  readonly passTo: (handler: Handler) => void
}

/** Counts more bytes. Returns false if there is no space for them. */
type Take = (bytes: number) => boolean
type Late = Promise<undefined>

/** Reads a body of unknown length, because the runtime would buffer any amount of an unread body. */
const read = async (body: ReadableStream<Uint8Array>, take: Take, late: Late): Promise<Uint8Array | undefined> => {
  const reader = body.getReader()
  const chunks: Array<Uint8Array> = []
  for (;;) {
    const chunk = await Promise.race([reader.read(), late])
    if (chunk?.done === true) return Buffer.concat(chunks)
    if (chunk === undefined || !take(chunk.value.byteLength)) break
    chunks.push(chunk.value)
  }
  void reader.cancel().catch(() => {})
  return undefined
}

/** Returns the request for the next handler, or `undefined` if the space or the time is used up. */
const keep = async (request: Request, take: Take, late: Late): Promise<Request | undefined> => {
  const length = request.headers.get("content-length")
  if (length !== null || request.body === null) return take(Number(length ?? 0)) ? request : undefined
  const body = await read(request.body, take, late)
  if (body === undefined) return undefined
  const { url, method, headers } = request
  return new Request(url, { method, headers, body: new Uint8Array(body) })
}

export const makeHold = (longest = holdTime): Hold => {
  let bytes = 0
  let waiting = 0
  let next = Promise.withResolvers<Handler>()

  /** Returns the next handler and the request for it, or `undefined` if the request is refused. */
  const wait = async (request: Request): Promise<readonly [Handler, Request] | undefined> => {
    const handler = next.promise
    let taken = 0
    let timer: ReturnType<typeof setTimeout> | undefined
    const late = new Promise<undefined>((resolve) => {
      timer = setTimeout(resolve, longest, undefined)
    })
    const take: Take = (more) => {
      if (bytes + more > maxBytes) return false
      bytes += more
      taken += more
      return true
    }
    waiting += 1
    try {
      const kept = await keep(request, take, late)
      const found = kept && (await Promise.race([handler, late]))
      return kept && found && [found, kept]
    } finally {
      clearTimeout(timer)
      waiting -= 1
      bytes -= taken
    }
  }

  return {
    handle: async (request) => {
      const kept = await wait(request)
      return kept === undefined ? refuse(request) : kept[0](kept[1])
    },
    size: () => waiting,
    passTo: (handler) => {
      next.resolve(handler)
      next = Promise.withResolvers<Handler>()
    },
  }
}
