/**
 * Two opinions about the end of a body. Each case has a second delivery, also signed, at the place that the other
 * opinion expects.
 */
import { envelope } from "../../../e2e/http/fixture.ts"
import * as Case from "../Case.ts"

const smuggling = Case.kind("smuggling")
const { chunked, concat, delivery, host, inChunk, length } = Case

/** A delivery of declared `framing` whose payload is chunks that end at once, and a second delivery behind them. */
const hidden = (name: string, framing: (all: Uint8Array) => ReadonlyArray<string>, expected: Case.Expected) => {
  const [outer, inner] = [envelope(), envelope()]
  const payload = concat(inChunk(outer), delivery(inner))
  return smuggling(name, delivery(outer, { framing: [host, ...framing(payload)], payload }), [outer, inner], expected)
}

/** A plain delivery under `framing`, and a second one behind it. */
const behind = (name: string, framing: (body: string) => ReadonlyArray<string>, expected: Case.Expected) => {
  const [outer, inner] = [envelope(), envelope()]
  const both = concat(delivery(outer, { framing: [host, ...framing(outer)] }), delivery(inner))
  return smuggling(name, both, [outer, inner], expected)
}

/** Both agree about the end of the body, so the rest is another delivery. */
const readsOn = { bun: 400, deno: [400, 202], why: "Deno does not close by `connection: close`" } as const

export const cases: ReadonlyArray<Case.Case> = [
  hidden("a length and chunks", (all) => [length(all), chunked], 400),
  hidden("chunks and a length", (all) => [chunked, length(all)], 400),
  hidden("chunks and a length of nothing", () => [chunked, "Content-Length: 0"], 400),
  hidden("chunks and a short length", () => [chunked, "Content-Length: 4"], 400),
  hidden("chunks named twice", () => [chunked, chunked], 400),
  hidden("chunks named twice in one header", () => ["Transfer-Encoding: chunked, chunked"], 400),
  hidden("chunks, then identity", () => ["Transfer-Encoding: chunked, identity"], 400),
  hidden("identity, then chunks", () => ["Transfer-Encoding: identity, chunked"], 400),
  hidden("identity alone", () => ["Transfer-Encoding: identity"], 400),
  hidden("gzip, then chunks", () => ["Transfer-Encoding: gzip, chunked"], {
    bun: 400,
    deno: [202, 202],
    why: "Deno looks at the last coding only, which frames the body; the signature is that of the bytes as they came",
  }),
  hidden("an encoding that nobody knows", () => ["Transfer-Encoding: xchunked"], 400),
  hidden("an encoding with a parameter", () => ["Transfer-Encoding: chunked;q=0.5"], 400),
  hidden("an empty transfer encoding, and a length", (all) => ["Transfer-Encoding:", length(all)], 400),
  hidden("quoted chunks", () => ['Transfer-Encoding: "chunked"'], 400),
  hidden("chunks and a length, the name in capitals", (all) => ["TRANSFER-ENCODING: chunked", length(all)], 400),
  hidden("chunks in capitals and a length", (all) => ["Transfer-Encoding: CHUNKED", length(all)], 400),
  hidden("a blank before the colon", (all) => ["Transfer-Encoding : chunked", length(all)], 400),
  hidden("a tab before the colon", (all) => ["Transfer-Encoding\t: chunked", length(all)], 400),
  hidden("a vertical tab before chunks", (all) => ["Transfer-Encoding: \x0bchunked", length(all)], 400),
  hidden("a form feed behind chunks", (all) => ["Transfer-Encoding: chunked\x0c", length(all)], 400),
  hidden("a NUL behind chunks", (all) => ["Transfer-Encoding: chunked\0", length(all)], 400),
  hidden("chunks on a folded line", (all) => ["Transfer-Encoding:\r\n chunked", length(all)], 400),
  hidden("chunks behind a bare line feed", (all) => ["X-A: b\nTransfer-Encoding: chunked", length(all)], 400),
  hidden("chunks behind a bare carriage return", (all) => ["X-A: b\rTransfer-Encoding: chunked", length(all)], 400),
  hidden("an underscore for the dash", () => ["Transfer_Encoding: chunked", "Content-Length: 0"], [401, 400]),
  behind("two equal lengths", (body) => [length(body), length(body)], readsOn),
  behind("two lengths, the first right", (body) => [length(body), "Content-Length: 0"], 400),
  behind("two lengths, the second right", (body) => ["Content-Length: 0", length(body)], 400),
  behind("three equal lengths", (body) => [length(body), length(body), length(body)], readsOn),
  behind("a list of equal lengths", (body) => [`${length(body)}, ${body.length}`], 400),
  behind("a list of lengths", (body) => [`${length(body)}, 0`], 400),
  behind("a length with a plus", (body) => [`Content-Length: +${body.length}`], 400),
  behind("a length below nothing", () => ["Content-Length: -1"], 400),
  behind("a length of minus nothing", () => ["Content-Length: -0"], 400),
  behind("a hexadecimal length", (body) => [`Content-Length: 0x${body.length.toString(16)}`], 400),
  behind("a length with an exponent", () => ["Content-Length: 1e2"], 400),
  behind("a length with a fraction", (body) => [`${length(body)}.0`], 400),
  behind("a length with a blank in it", () => ["Content-Length: 1 0"], 400),
  behind("a length with an underscore", () => ["Content-Length: 1_0"], 400),
  behind("an empty length", () => ["Content-Length:"], 400),
  behind("a length in words", () => ["Content-Length: chunked"], 400),
  behind("a length in other digits", () => ["Content-Length: \xb2"], 400),
  behind("a length over 2^64", () => ["Content-Length: 18446744073709551617"], 400),
  behind("a length of 2^63", () => ["Content-Length: 9223372036854775808"], 400),
  behind("a blank before the length's colon", (body) => [`Content-Length : ${body.length}`], 400),
  behind("a length on a folded line", (body) => [`Content-Length:\r\n ${body.length}`], 400),
  behind("a length behind a bare line feed", (body) => [`X-A: b\n${length(body)}`], {
    bun: 400,
    deno: [202, 202],
    why: "Deno takes a bare line feed for the end of a line, as RFC 9112 (2.2) allows",
  }),
]
