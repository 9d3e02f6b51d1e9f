/**
 * Several requests in one write. Bun ends the connection if a request arrives behind an unfinished answer. Requests
 * that were handled before are kept without an answer, and may be sent again.
 */
import { envelope } from "../../../e2e/http/fixture.ts"
import * as Case from "../Case.ts"

const { chunked, concat, delivery, host, inChunk, length, request } = Case

const pipelines = Case.kind("pipelining")

/** A request, its answer, and the body that it may leave in the journal. */
interface Piece {
  readonly bytes: Uint8Array
  readonly status: number
  readonly body?: string
}

const right = (make: (body: string) => Uint8Array = (body) => delivery(body)): Piece => {
  const body = envelope()
  return { bytes: make(body), status: 202, body }
}
const rights = (count: number, make?: (body: string) => Uint8Array) => Array.from({ length: count }, () => right(make))
const wrong = (status: number, parts: Case.Parts): Piece => ({ bytes: delivery(envelope(), parts), status })
const forged: Case.Parts = { changes: { "x-service-signature": `sha256=${"0".repeat(64)}` } }
const get = (path: string, status: number, body = ""): Piece => ({
  bytes: request([`GET ${path} HTTP/1.1`, host, length(body)], body),
  status,
})

const piped = (name: string, pieces: ReadonlyArray<Piece>, expected: Case.Expected = pieces.map((_) => _.status)) =>
  pipelines(
    name,
    concat(...pieces.map((_) => _.bytes)),
    pieces.flatMap(({ body }) => (body === undefined ? [] : [body])),
    expected,
    { mayBeCut: true },
  )

const twice = right()

export const cases: ReadonlyArray<Case.Case> = [
  piped("two deliveries", rights(2)),
  piped("ten deliveries", rights(10)),
  piped("a hundred deliveries", rights(100)),
  piped(
    "three in chunks",
    rights(3, (body) => delivery(body, { framing: [host, chunked], payload: inChunk(body) })),
  ),
  piped(
    "three, each behind an empty line",
    rights(3, (body) => concat("\r\n", delivery(body))),
    { bun: [400], deno: [202, 202, 202], why: "Bun takes an empty line for a request" },
  ),
  piped("right, forged, right", [right(), wrong(401, forged), right()]),
  piped("forged, right", [wrong(401, forged), right()]),
  piped("forged a hundred times, right", [...Array.from({ length: 100 }, () => wrong(401, forged)), right()]),
  piped("nowhere, right", [get("/nowhere", 404), right()]),
  piped("right, nowhere, forged, right", [right(), get("/nowhere", 404), wrong(401, forged), right()]),
  piped("the same delivery twice", [twice, twice]),
  piped("right behind a GET with a body", [get("/hooks/scheduling", 405, "abc"), right()]),
  piped("right behind another content type", [wrong(415, { changes: { "content-type": "text/plain" } }), right()]),
  piped(
    "right behind a bad host",
    [wrong(400, { framing: ["Host: a/b", "Content-Length: 0"], payload: "" }), right()],
    {
      bun: [400],
      deno: [400, 202],
      why: "Deno does not close by `connection: close`",
    },
  ),
  piped(
    "right in the body of one that is too large",
    [wrong(413, { framing: [host, "Content-Length: 300000"] }), right()],
    [413],
  ),
  piped("right behind a close", [wrong(401, { ...forged, more: ["Connection: close"] }), right()], [401]),
  piped("no HTTP behind right", [right(), { bytes: Buffer.from("\0\0\0\0\r\n\r\n"), status: 400 }]),
]
