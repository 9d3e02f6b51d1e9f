/** Local stand-ins for the alert services. They check and answer requests as each service's documentation says. */
import type { ServerResponse } from "node:http"
import { type Received, serve } from "../receiver.ts"

type Json = Readonly<Record<string, unknown>>

export const fields = (value: unknown): Json => (typeof value === "object" && value !== null ? (value as Json) : {})
export const list = (value: unknown): ReadonlyArray<unknown> => (Array.isArray(value) ? value : [])

/**
 * Whether a value is a text within a limit. The limit is in UTF-16 code units, so it also holds in code points, which
 * some services count.
 */
export const isText = (value: unknown, most: number): value is string =>
  typeof value === "string" && value.trim() !== "" && value.length <= most

export const isTime = (value: unknown): boolean =>
  typeof value === "string" && /^\d{4}-\d\d-\d\dT/.test(value) && !Number.isNaN(Date.parse(value))

/** All texts in a value, including its keys. */
const textsOf = (value: unknown): ReadonlyArray<string> => {
  if (typeof value === "string") return [value]
  if (Array.isArray(value)) return value.flatMap(textsOf)
  return Object.entries(fields(value)).flatMap(([key, item]) => [key, ...textsOf(item)])
}

/** Reports texts that no service should get: half characters and control characters other than our line breaks. */
export const common = (value: unknown): ReadonlyArray<string> =>
  textsOf(value).flatMap((text) => [
    ...(text.isWellFormed() ? [] : ["half a character"]),
    ...(/(?!\n)[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/u.test(text) ? ["a control character"] : []),
  ])

export const problem = (isRight: boolean, what: string): ReadonlyArray<string> => (isRight ? [] : [what])

export interface Service {
  /** The faults of a request's body by the service's documentation, or an empty list if it is valid. */
  readonly problems: (body: Uint8Array) => ReadonlyArray<string>
  /** The body without the parts that depend on the time of the attempt. Absent if there are none. */
  readonly steady?: (body: Uint8Array) => Uint8Array
  /** The answers to a valid request and to an invalid one. */
  readonly accept: (response: ServerResponse) => void
  readonly refuse: (response: ServerResponse, problems: ReadonlyArray<string>) => void
}

export const parse = (body: Uint8Array): unknown => {
  try {
    return JSON.parse(Buffer.from(body).toString("utf8"))
  } catch {
    return undefined
  }
}

export const json = (response: ServerResponse, status: number, value: unknown) =>
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value))

/** A service on this machine. `accepted` is called with each valid request. */
export const local = ({ problems, accept, refuse }: Service, accepted: (request: Received) => void = () => {}) =>
  serve((request, response) => {
    const found = problems(request.body)
    if (request.method !== "POST") response.writeHead(405).end()
    else if (found.length > 0) refuse(response, found)
    else {
      accepted(request)
      accept(response)
    }
  })
