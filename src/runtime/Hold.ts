/**
 * Requests that wait for the next handler: while a restart hands the journal from
 * one process to the other, neither can answer a delivery.
 *
 * **Guarantee.** The bodies that wait have at most {@link maxBytes} together, and no
 * request waits longer than {@link patience}. A request beyond either gets 503.
 */
import * as Problem from "./Problem.ts"
import type { Handler } from "./RequestGuard.ts"

// Passes the requests of a port to the handler in force, or lets them wait for one.

interface Reception {
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

/** The largest sum of the bodies that wait, in bytes. */
export const maxBytes = 64 * 1024 * 1024
/** The longest wait of a request, in milliseconds. */
const holdTime = 10_000

const restarting: Problem.Problem = {
  status: 503,
  title: "Restarting",
  detail: "the relay is restarting; send the delivery again",
  headers: { ...Problem.closing, "retry-after": "1" },
}

/** Answers every request with 503. */
export const refuse: Handler = () => Problem.toResponse(restarting)

/** Requests that wait. */
interface Hold {
  readonly handle: Handler
  /** The number of requests that wait. */
  readonly size: () => number
  /** Passes all requests that wait to a handler. Later requests wait for the next call. */
  readonly passTo: (handler: Handler) => void
}

/** Reports whether there is room for more bytes, and counts them. */
type Take = (bytes: number) => boolean
type Late = Promise<undefined>

/** Reads a body whose length isn't known: unread, the runtime would keep any amount of it. */
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

/** Returns the request that the next handler gets, or `undefined` if the room or the time is used up. */
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
