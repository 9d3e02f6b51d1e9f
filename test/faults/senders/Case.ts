/**
 * A hostile request and its required result.
 *
 * **Guarantee.** A case states every answer that it gets and every body that may be stored. A body that is answered 2xx
 * is signed, and is in the journal byte for byte. Nothing else is stored.
 */
import { type Changes, headers } from "../../e2e/http/fixture.ts"

export type Runtime = "bun" | "deno"

/** Statuses in their order. Empty if the connection ends, or waits for more, without an answer. */
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
  /** Answers may be missing at the end: requests that were handled behind the cut may be sent again. */
  readonly mayBeCut: boolean
  /** Its connection can't carry another request behind it. */
  readonly isLast: boolean
  /** The place of its accepted bodies: the sink, or quarantine if they aren't envelopes. */
  readonly at: "sink" | "quarantine"
}

/** One status, several, or a pair if the runtimes differ. */
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

/** Differences between Bun and Deno, stated once for all cases that meet them. */
export const differences = {
  chunk: { bun: 400, deno: nothing, why: "Deno ends the connection of a broken chunk without an answer" },
  size: { bun: 400, deno: nothing, why: "Deno waits for as much as the chunk says, up to the limit and the deadline" },
  blank: { bun: 400, deno: 202, why: "Deno allows blanks around a chunk's size" },
  version: { bun: 505, deno: 400, why: "Bun takes a line that does not end in HTTP/1.0 or 1.1 for another version" },
  head: { bun: 431, deno: 400, why: "Deno says 400 to a head that it does not hold" },
  dots: { bun: 202, deno: 404, why: "Bun resolves dots and backslashes of a path before anybody sees it" },
  upgrade: { bun: 202, deno: 400, why: "Deno leaves the body of an upgrade to the other protocol" },
} as const satisfies Record<string, Expected>

/**
 * Makes a request from the lines of its head, as they are, and a body. The head is latin1, so that any byte can be
 * written.
 */
export const request = (head: ReadonlyArray<string>, body: string | Uint8Array = ""): Uint8Array =>
  Buffer.concat([Buffer.from(`${head.join("\r\n")}\r\n\r\n`, "latin1"), bytes(body)])

export const length = (body: string | Uint8Array): string => `Content-Length: ${bytes(body).byteLength}`
export const host = "Host: relay.example"
export const chunked = "Transfer-Encoding: chunked"

export interface Parts {
  readonly line?: string
  /** Host, and the lines that mark the end of the body. */
  readonly framing?: ReadonlyArray<string>
  /** Headers of the sender that differ from the usual ones; `undefined` omits a header. */
  readonly changes?: Changes
  /** Further lines, as they are. */
  readonly more?: ReadonlyArray<string>
  /** Bytes behind the head, if they aren't the plain body. */
  readonly payload?: string | Uint8Array
}

export const receive = "POST /hooks/scheduling HTTP/1.1"

/** A delivery with a correct signature, unless the parts change it. */
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
