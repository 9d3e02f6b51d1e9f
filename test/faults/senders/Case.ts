/**
 * A hostile request and what must come of it.
 *
 * **Guarantee.** A case says every answer that it gets and every body that may be
 * kept: one that is answered 2xx is one of its signed bodies, and stands in the
 * journal byte for byte; of everything else nothing does.
 */
import { type Changes, headers } from "../../e2e/http/fixture.ts"

export type Runtime = "bun" | "deno"

/** Statuses in their order; none where the connection ends, or waits for more, without an answer. */
export type Statuses = ReadonlyArray<number>

export interface Case {
  readonly kind: string
  readonly name: string
  readonly bytes: Uint8Array
  /** Bodies in it whose signature is right, smuggled ones too: nothing else of it may ever be kept. */
  readonly signed: ReadonlyArray<Uint8Array>
  readonly answers: Readonly<Record<Runtime, Statuses>>
  /** Why the runtimes differ. */
  readonly why?: string
  /** Answers may be cut off from the end: what was handled behind the cut may be sent again. */
  readonly mayBeCut: boolean
  /** Nothing that follows on its connection would be a request of its own. */
  readonly isLast: boolean
  /** Where what it was accepted for ends: at the sink, or in quarantine because it is no envelope. */
  readonly at: "sink" | "quarantine"
}

/** One status, several, or a pair where the runtimes differ. */
export type Expected =
  | number
  | Statuses
  | { readonly bun: number | Statuses; readonly deno: number | Statuses; readonly why: string }

/** No answer: the connection ends, or waits for more. */
export const nothing: Statuses = []

export interface Options {
  readonly mayBeCut?: boolean
  readonly isLast?: boolean
  readonly at?: Case["at"]
}

const list = (statuses: number | Statuses): Statuses => (typeof statuses === "number" ? [statuses] : statuses)

export const bytes = (body: string | Uint8Array): Uint8Array =>
  typeof body === "string" ? Buffer.from(body, "utf8") : body

/** Makes the cases of one kind. */
export const kind =
  (kind: string) =>
  (
    name: string,
    request: Uint8Array,
    signed: ReadonlyArray<string | Uint8Array>,
    expected: Expected,
    { mayBeCut = false, isLast = false, at = "sink" }: Options = {},
  ): Case => {
    const differs = typeof expected === "object" && "bun" in expected
    const answers = differs
      ? { bun: list(expected.bun), deno: list(expected.deno) }
      : { bun: list(expected), deno: list(expected) }
    const why = differs ? { why: expected.why } : {}
    return { kind, name, bytes: request, signed: signed.map(bytes), answers, ...why, mayBeCut, isLast, at }
  }

/** Where Bun and Deno part, once for all that meet it. */
export const differences = {
  chunk: { bun: 400, deno: nothing, why: "Deno ends the connection of a broken chunk without an answer" },
  size: { bun: 400, deno: nothing, why: "Deno waits for as much as the chunk says, up to the limit and the deadline" },
  blank: { bun: 400, deno: 202, why: "Deno allows blanks around a chunk's size" },
  version: { bun: 505, deno: 400, why: "Bun takes a line that does not end in HTTP/1.0 or 1.1 for another version" },
  head: { bun: 431, deno: 400, why: "Deno says 400 to a head that it does not hold" },
  dots: { bun: 202, deno: 404, why: "Bun resolves dots and backslashes of a path before anybody sees it" },
  upgrade: { bun: 202, deno: 400, why: "Deno leaves the body of an upgrade to the other protocol" },
} as const satisfies Record<string, Expected>

/** A head of lines as they are (latin1, so that any byte can be written), and what follows it. */
export const request = (head: ReadonlyArray<string>, body: string | Uint8Array = ""): Uint8Array =>
  Buffer.concat([Buffer.from(`${head.join("\r\n")}\r\n\r\n`, "latin1"), bytes(body)])

export const length = (body: string | Uint8Array): string => `Content-Length: ${bytes(body).byteLength}`
export const host = "Host: relay.example"
export const chunked = "Transfer-Encoding: chunked"

export interface Parts {
  readonly line?: string
  /** Host and the lines that say where the body ends. */
  readonly framing?: ReadonlyArray<string>
  /** The sender's headers that are other than usual; `undefined` leaves one out. */
  readonly changes?: Changes
  /** Further lines, as they are. */
  readonly more?: ReadonlyArray<string>
  /** What follows the head where it is not the body as it is. */
  readonly payload?: string | Uint8Array
}

export const receive = "POST /hooks/scheduling HTTP/1.1"

/** A delivery, correctly signed but for what is told. */
export const delivery = (body: string | Uint8Array, parts: Parts = {}): Uint8Array => {
  const { line = receive, framing = [host, length(body)], changes, more = [], payload = body } = parts
  const usual = Object.entries(headers(body, changes)).map(([name, value]) => `${name}: ${value}`)
  return request([line, ...framing, ...usual, ...more], payload)
}

/** A body as one chunk and the end. */
export const inChunk = (body: string | Uint8Array): Uint8Array =>
  Buffer.concat([Buffer.from(`${bytes(body).byteLength.toString(16)}\r\n`), bytes(body), Buffer.from("\r\n0\r\n\r\n")])

export const concat = (...parts: ReadonlyArray<string | Uint8Array>): Uint8Array =>
  Buffer.concat(parts.map((part) => (typeof part === "string" ? Buffer.from(part, "latin1") : part)))
