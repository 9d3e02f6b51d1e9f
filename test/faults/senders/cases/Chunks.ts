/** Malformed chunks. */
import { envelope } from "../../../e2e/http/fixture.ts"
import * as Case from "../Case.ts"

const chunks = Case.kind("chunks")
const { chunked, concat, delivery, differences, host } = Case

/** A delivery whose chunks are written by `payload`. */
const written = (
  name: string,
  payload: (body: string, hex: string) => string,
  expected: Case.Expected,
  options: Case.Options = {},
) => {
  const body = envelope()
  const text = payload(body, Buffer.byteLength(body).toString(16))
  return chunks(name, delivery(body, { framing: [host, chunked], payload: concat(text) }), [body], expected, options)
}

/** Kept, but its answer is lost: the sender repeats it, and it is a duplicate. */
const trailer = { bun: 400, deno: 202, why: "Bun takes trailers for another request" } as const
const trailing: Case.Options = { mayBeCut: true }
const end = "0\r\n\r\n"

export const cases: ReadonlyArray<Case.Case> = [
  written("one chunk", (body, hex) => `${hex}\r\n${body}\r\n${end}`, 202),
  written("a byte a chunk", (body) => `${[...body].map((one) => `1\r\n${one}\r\n`).join("")}${end}`, 202),
  written("a size in capitals", (body, hex) => `${hex.toUpperCase()}\r\n${body}\r\n${end}`, 202),
  written("a size with zeros in front", (body, hex) => `0000${hex}\r\n${body}\r\n${end}`, 202),
  written(
    "a size with a thousand zeros in front",
    (body, hex) => `${"0".repeat(1000)}${hex}\r\n${body}\r\n${end}`,
    202,
  ),
  written("an extension", (body, hex) => `${hex};a=b\r\n${body}\r\n${end}`, 202),
  written("a quoted extension", (body, hex) => `${hex};a="b;c"\r\n${body}\r\n${end}`, 202),
  written("an extension whose quotes stay open", (body, hex) => `${hex};a="b\r\n${body}\r\n${end}`, 202),
  written("an extension with a bare line feed", (body, hex) => `${hex};a\nb\r\n${body}\r\n${end}`, differences.chunk),
  written("an extension of a megabyte", (body, hex) => `${hex};${"x".repeat(1 << 20)}\r\n${body}\r\n${end}`, {
    bun: 413,
    deno: 400,
    why: "Bun counts it among the body",
  }),
  written("a trailer", (body, hex) => `${hex}\r\n${body}\r\n0\r\nx-a: b\r\n\r\n`, trailer, trailing),
  written(
    "a trailer that names a length",
    (body, hex) => `${hex}\r\n${body}\r\n0\r\nContent-Length: 5\r\n\r\n`,
    trailer,
    trailing,
  ),
  written("a size with a plus", (body, hex) => `+${hex}\r\n${body}\r\n${end}`, differences.chunk),
  written("a size below nothing", (body) => `-1\r\n${body}\r\n${end}`, differences.chunk),
  written("a size with 0x", (body, hex) => `0x${hex}\r\n${body}\r\n${end}`, differences.chunk),
  written("a size with a blank in front", (body, hex) => ` ${hex}\r\n${body}\r\n${end}`, differences.blank),
  written("a size with a blank behind", (body, hex) => `${hex} \r\n${body}\r\n${end}`, differences.blank),
  written("a size with a tab behind", (body, hex) => `${hex}\t\r\n${body}\r\n${end}`, differences.chunk),
  written("an empty size", (body) => `\r\n${body}\r\n${end}`, differences.chunk),
  written("a size in words", (body) => `size\r\n${body}\r\n${end}`, differences.chunk),
  written(
    "a size with an underscore",
    (body, hex) => `${hex[0]}_${hex.slice(1)}\r\n${body}\r\n${end}`,
    differences.chunk,
  ),
  written(
    "a size of 2^64 and the right one",
    (body, hex) => `10000000000000${hex.padStart(3, "0")}\r\n${body}\r\n${end}`,
    differences.chunk,
  ),
  written("a size of sixteen f", (body) => `ffffffffffffffff\r\n${body}\r\n${end}`, differences.size),
  written("a size of 2^63", (body) => `8000000000000000\r\n${body}\r\n${end}`, differences.size),
  written(
    "a size that is a byte short",
    (body) => `${(body.length - 1).toString(16)}\r\n${body}\r\n${end}`,
    differences.chunk,
  ),
  written(
    "a size that is a byte long",
    (body) => `${(body.length + 1).toString(16)}\r\n${body}\r\n${end}`,
    differences.chunk,
  ),
  written("a bare line feed behind the size", (body, hex) => `${hex}\n${body}\r\n${end}`, differences.chunk),
  written("a bare carriage return behind the size", (body, hex) => `${hex}\r${body}\r\n${end}`, differences.chunk),
  written("a bare line feed behind the data", (body, hex) => `${hex}\r\n${body}\n${end}`, differences.chunk),
  written("nothing behind the data", (body, hex) => `${hex}\r\n${body}${end}`, differences.chunk),
  written("two bytes of anything behind the data", (body, hex) => `${hex}\r\n${body}XX${end}`, differences.chunk),
  written("a NUL behind the size", (body, hex) => `${hex}\0\r\n${body}\r\n${end}`, differences.chunk),
  written("a last chunk of many zeros", (body, hex) => `${hex}\r\n${body}\r\n0000000\r\n\r\n`, 202),
  written("no last chunk", (body, hex) => `${hex}\r\n${body}\r\n`, Case.nothing),
  written(
    "a last chunk without its end",
    (body, hex) => `${hex}\r\n${body}\r\n0\r\n`,
    {
      bun: 202,
      deno: Case.nothing,
      why: "Bun takes the last chunk for the end",
    },
    { isLast: true },
  ),
  written("no chunks but the body as it is", (body) => body, differences.size),
  written("a broken trailer", (body, hex) => `${hex}\r\n${body}\r\n0\r\nno colon\r\n\r\n`, differences.chunk, trailing),
  // The signature is in the head, or it is not there.
  (() => {
    const body = envelope()
    const hex = Buffer.byteLength(body).toString(16)
    const usual = delivery(body, {
      framing: [host, chunked, "Trailer: x-service-signature"],
      changes: { "x-service-signature": undefined },
      payload: `${hex}\r\n${body}\r\n0\r\nx-service-signature: sha256=0\r\n\r\n`,
    })
    return chunks("a signature in the trailer", usual, [], { bun: [411, 400], deno: 401, why: trailer.why })
  })(),
]
