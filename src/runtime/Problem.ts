/** Error responses: one line of problem+json (RFC 9457) with a request id, and no content of the request. */

const start = Date.now().toString(36)
let requests = 0

/** Identifies a request in its response and in the log; unique within this process. */
export const requestId = (): string => {
  requests += 1
  return `${start}-${requests.toString(36)}`
}

/** The members of a problem (RFC 9457), and the headers of its response. */
export interface Problem {
  readonly status: number
  readonly title: string
  /** Advice for the sender's operator. Contains nothing of the request. */
  readonly detail?: string
  readonly headers?: Readonly<Record<string, string>>
}

/** Makes the response to a problem. `id` is in its body and in the log. */
export const toResponse = (problem: Problem, id: string = requestId()): Response => {
  const { headers, ...members } = problem
  return new Response(`${JSON.stringify({ ...members, requestId: id })}\n`, {
    status: problem.status,
    headers: { ...headers, "content-type": "application/problem+json" },
  })
}

/** A response before the body was read ends the connection, because the following bytes may not be a request. */
export const closing = { connection: "close" } as const

/** A malformed request. Its connection ends. */
export const badRequest = (detail: string): Problem => ({ status: 400, title: "Bad request", detail, headers: closing })

/** A bug in the relay. The log has its cause under the request id. */
export const bug: Problem = { status: 500, title: "Internal error" }
