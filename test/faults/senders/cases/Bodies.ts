/** Signed bodies: harmful JSON, text that is invalid, content types, encodings, and too much of everything. */
import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib"
import { type Changes, envelope } from "../../../e2e/http/fixture.ts"
import * as Case from "../Case.ts"

const { delivery, host } = Case
const picky = "POST /hooks/picky HTTP/1.1"

/** Makes bodies differ that would otherwise be the same. */
let serial = 0
const mark = (): string => {
  serial += 1
  return `evt_odd_${serial}`
}

const json = Case.kind("JSON")
const text = Case.kind("text")
type Make = (id: string) => string | Uint8Array

/** Makes two cases: a webhook that quarantines bodies without an envelope, and a webhook that refuses them. */
const both =
  (kind: typeof json, accepted: boolean) =>
  (name: string, make: Make): ReadonlyArray<Case.Case> => {
    const [lax, strict] = [make(mark()), make(mark())]
    return [
      kind(name, delivery(lax), [lax], 202, { at: accepted ? "sink" : "quarantine" }),
      kind(
        `${name}, where only envelopes are taken`,
        delivery(strict, { line: picky }),
        [strict],
        accepted ? 200 : 422,
      ),
    ]
  }
const fits = both(json, true)
const unfit = both(json, false)
const noText = both(text, false)

/** An envelope's text with parts of it exchanged. */
const whole = (id: string, object = '{"id":"apt_1"}', more = "", type = '"appointment.created"'): string =>
  `{"id":"${id}","account_id":"acct_1","version":"1","created_at":"2026-11-21T00:00:00Z",${more}"data":{"type":${type},"object":${object}}}`

const nested = (depth: number, open: string, close: string): string => open.repeat(depth) + close.repeat(depth)

const types = Case.kind("content types")
const typed = (value: string | undefined, expected: Case.Expected, more: ReadonlyArray<string> = []) => {
  const body = envelope()
  const name = [value ?? "none", ...more].join(" and ").slice(0, 80)
  return types(name, delivery(body, { changes: { "content-type": value }, more }), [body], expected)
}

const encodings = Case.kind("content encodings")
const encoded = (
  encoding: string,
  pack: (body: string) => string | Uint8Array,
  expected: Case.Expected,
  more: ReadonlyArray<string> = [],
) => {
  const body = pack(envelope())
  const changes: Changes = { "content-encoding": encoding }
  return encodings([encoding, ...more].join(" and "), delivery(body, { changes, more }), [body], expected)
}
const same = (body: string): string => body

const sizes = Case.kind("sizes")
const limit = 256 * 1024
const sized = (name: string, size: number, expected: Case.Expected) => {
  const empty = envelope("client.created", { note: "" })
  const body = empty.replace('"note":""', `"note":"${"n".repeat(size - empty.length)}"`)
  return sizes(name, delivery(body), [body], expected)
}
const declared = (name: string, bytes: string, expected: Case.Expected) =>
  sizes(name, delivery("", { framing: [host, `Content-Length: ${bytes}`] }), [], expected)

/** Bun checks a length before the relay sees the request. */
const malformed = { bun: 413, deno: 400, why: "Bun has a limit of its own" } as const

const utf8 = (...codes: ReadonlyArray<number>): Uint8Array => Uint8Array.from(codes)
const around = (id: string, odd: Uint8Array): Uint8Array => {
  const [before = "", after = ""] = whole(id, '{"note":"|"}').split("|")
  return Case.concat(before, odd, after)
}

export const cases: ReadonlyArray<Case.Case> = [
  ...fits("nesting of 500", (id) => whole(id, `{"a":${nested(500, "[", "]")}}`)),
  ...fits("nesting of 5,000", (id) => whole(id, `{"a":${nested(5_000, "[", "]")}}`)),
  ...fits("objects 5,000 deep", (id) => whole(id, `{"a":${nested(5_000, '{"a":', "}").replace('"a":}', '"a":1}')}}`)),
  ...fits("100,000 brackets", (id) => whole(id, `{"a":${nested(100_000, "[", "]")}}`)),
  ...unfit("100,000 open brackets", (id) => `${id}${"[".repeat(100_000)}`),
  ...fits("a number of 10,000 digits", (id) => whole(id, `{"n":${"9".repeat(10_000)}}`)),
  ...fits("an exponent without end", (id) => whole(id, `{"n":1e${"9".repeat(1_000)}}`)),
  ...fits("minus nothing and tiny", (id) => whole(id, '{"n":-0,"m":1e-9999}')),
  ...fits("10,000 keys", (id) => whole(id, `{${Array.from({ length: 10_000 }, (_, n) => `"k${n}":0`).join(",")}}`)),
  ...fits("a key of 100 KB", (id) => whole(id, `{"${"k".repeat(100_000)}":0}`)),
  ...fits("an empty key", (id) => whole(id, '{"":0}')),
  ...fits("a key that comes twice", (id) => whole(id, '{"id":"a","id":"b"}')),
  ...fits("a type that comes twice", (id) => whole(id, "{}", '"x":1,', '"x","type":"appointment.created"')),
  ...fits("an id that comes twice", (id) => whole("other", "{}", `"id":"${id}",`)),
  ...fits("__proto__", (id) => whole(id, '{"__proto__":{"polluted":true}}', '"__proto__":{"admin":true},')),
  ...fits("constructor and prototype", (id) => whole(id, '{"constructor":{"prototype":{"polluted":true}}}')),
  ...fits("toString and hasOwnProperty", (id) => whole(id, '{"toString":null,"hasOwnProperty":1,"toJSON":"x"}')),
  ...fits("a NUL as an escape", (id) => whole(id, '{"note":"\\u0000"}')),
  ...fits("a half of a character as an escape", (id) => whole(id, '{"note":"\\ud800"}')),
  ...fits("line breaks between its parts", (id) => whole(id).replaceAll(",", ",\r\n")),
  ...fits("a template in it", (id) => whole(id, '{"note":"{{/data/object/id}}$(id)%0d%0a"}')),
  ...fits("an empty text for all but the type", (id) => whole(id).replace('"acct_1"', '""').replace('"1"', '""')),
  ...unfit("an envelope with no id", (id) => whole(id).replace('"id"', '"ID"')),
  ...unfit("an id that is a number", (id) => whole(id).replace(/"evt_odd_(\d+)"/, "$1")),
  ...unfit("an id that is null", (id) => whole(id).replace(`"${id}"`, `null,"mark":"${id}"`)),
  ...unfit("an empty type", (id) => whole(id, "{}", "", '""')),
  ...unfit("a type that is a list", (id) => whole(id, "{}", "", '["appointment.created"]')),
  ...unfit("an object that is a list", (id) => whole(id, "[]")),
  ...unfit("an object that is null", (id) => whole(id, "null")),
  ...unfit("data in the prototype", (id) => `{"id":"${id}","__proto__":${whole(id)}}`),
  ...unfit("a type of the relay's own", (id) => whole(id, "{}", "", '"relay.dead_letter"')),
  ...unfit("a list of envelopes", (id) => `[${whole(id)}]`),
  ...unfit("a text", (id) => `"${id}"`),
  ...unfit("a comment", (id) => `/* ${id} */ ${whole(id)}`),
  ...unfit("a trailing comma", (id) => whole(id).replace(/\}$/, ",}")),
  ...unfit("single quotes", (id) => whole(id).replaceAll('"', "'")),
  ...unfit("keys without quotes", (id) => `{id:"${id}"}`),
  ...unfit("NaN", (id) => whole(id, '{"n":NaN}')),
  ...unfit("a number in hexadecimal", (id) => whole(id, '{"n":0x10}')),
  ...unfit("a number with zeros in front", (id) => whole(id, '{"n":007}')),
  ...unfit("two documents", (id) => `${whole(id)}${whole(id)}`),
  ...unfit("something behind its end", (id) => `${whole(id)}\0`),
  ...unfit("XML", (id) => `<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>${id}&b;</a>`),
  ...unfit("a form", (id) => `id=${id}&account_id=acct_1`),
  ...unfit("half of an envelope", (id) => whole(id).slice(0, -20)),

  ...noText("a byte order mark", (id) => `\ufeff${whole(id)}`),
  ...noText("UTF-16", (id) => Buffer.from(`\ufeff${whole(id)}`, "utf16le")),
  ...noText("UTF-16 without a mark", (id) => Buffer.from(whole(id), "utf16le")),
  ...noText("latin1", (id) => around(id, utf8(0xe4))),
  ...noText("a lone continuation", (id) => around(id, utf8(0x80))),
  ...noText("an overlong slash", (id) => around(id, utf8(0xc0, 0xaf))),
  ...noText("an overlong NUL", (id) => around(id, utf8(0xc0, 0x80))),
  ...noText("a surrogate", (id) => around(id, utf8(0xed, 0xa0, 0x80))),
  ...noText("a character above the last", (id) => around(id, utf8(0xf4, 0x90, 0x80, 0x80))),
  ...noText("a character that breaks off", (id) => around(id, utf8(0xe2, 0x82))),
  ...noText("a byte that UTF-8 never has", (id) => around(id, utf8(0xfe, 0xff))),
  ...noText("a bare NUL in a text", (id) => around(id, utf8(0))),
  ...noText("a bare line feed in a text", (id) => around(id, utf8(0x0a))),
  ...noText("a bare escape in a text", (id) => around(id, utf8(0x1b))),
  ...noText("a byte order mark in the middle", (id) => whole(id).replace(",", ",\ufeff")),
  ...noText("random bytes", (id) =>
    Case.concat(
      id,
      Uint8Array.from({ length: 300 }, (_, n) => (n * 73) & 0xff),
    ),
  ),
  ...noText("a line that looks like one of the sink's", (id) => `{"relay_base64":"e30=","event_id":"${id}"}`),
  ...both(text, true)("a line separator and an emoji", (id) => whole(id, '{"note":"\u2028😀"}')),

  typed("application/json", 202),
  typed("application/json; charset=utf-8", 202),
  typed("application/json;charset=utf-16", 202),
  typed("APPLICATION/JSON", 202),
  typed("application/cloudevents+json", 202),
  typed("application/json ; a=b", 202),
  typed(undefined, 415),
  typed("", 415),
  typed("text/plain", 415),
  typed("text/json", 415),
  typed("application/jsonp", 415),
  typed("application/json5", 415),
  typed("application/xjson", 415),
  typed("application/x-ndjson", 415),
  typed("xapplication/json", 415),
  typed("application/json/x", 415),
  typed("application /json", 415),
  typed("application/octet-stream", 415),
  typed("application/x-www-form-urlencoded", 415),
  typed("multipart/form-data; boundary=application/json", 415),
  typed("text/html; application/json", 415),
  typed("application/json, text/plain", 415),
  typed("text/plain", 415, ["Content-Type: application/json"]),
  typed("application/json", 415, ["Content-Type: application/json"]),
  typed("application/\xe4+json", 415),
  typed(`application/${"a".repeat(4_000)}+json`, 202),
  typed(`application/${"a+".repeat(2_000)}`, 415),
  typed("__proto__", 415),

  encoded("identity", same, 202),
  encoded("IDENTITY", same, 202),
  encoded("gzip", gzipSync, 415),
  encoded("x-gzip", gzipSync, 415),
  encoded("deflate", deflateSync, 415),
  encoded("br", brotliCompressSync, 415),
  encoded("zstd", same, 415),
  encoded("gzip, identity", gzipSync, 415),
  encoded("identity, gzip", gzipSync, 415),
  encoded("identity, identity", same, 415),
  encoded("", same, 415),
  encoded("chunked", same, 415),
  encoded("*", same, 415),
  encoded("identity", gzipSync, 415, ["Content-Encoding: gzip"]),
  encoded("aes128gcm", same, 415),

  sized("of the limit", limit, 202),
  sized("a byte below", limit - 1, 202),
  sized("a byte above", limit + 1, 413),
  sized("of twice the limit", 2 * limit, 413),
  sized("of a small read", 64 * 1024, 202),
  sized("a byte above a small read", 64 * 1024 + 1, 202),
  declared("a length of a gigabyte", String(2 ** 30), 413),
  declared("a length of 2^53", "9007199254740993", malformed),
  declared("a length of sixteen digits", "1000000000000000", malformed),
  declared("a length of fifteen digits", "999999999999999", 413),
  sizes("a body that breaks off", delivery(envelope(), { framing: [host, "Content-Length: 5000"] }), [], Case.nothing),
  sizes("a body that never comes", delivery("", { framing: [host, "Content-Length: 100"] }), [], Case.nothing),
  sizes(
    "no length and no chunks, and a body",
    delivery(envelope(), { framing: [host], payload: `${envelope()}\r\n\r\n` }),
    [],
    [401, 400],
  ),
  sizes("nothing at all, signed", delivery(""), [""], 202, { at: "quarantine" }),
  sizes("nothing at all, without a length", delivery("", { framing: [host] }), [""], 202, { at: "quarantine" }),
  sizes(
    "a chunk over the limit",
    delivery("", { framing: [host, Case.chunked], payload: `100000\r\n${"x".repeat(0x100000)}\r\n0\r\n\r\n` }),
    [],
    413,
  ),
  sizes(
    "many chunks over the limit",
    delivery("", { framing: [host, Case.chunked], payload: `1000\r\n${"x".repeat(0x1000)}\r\n`.repeat(100) }),
    [],
    413,
  ),
]
