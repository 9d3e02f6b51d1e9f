/**
 * The receiver as a sender and a stranger see it: every row of the table of answers, over real sockets, against the
 * whole relay. It is the compiled binary, or the source with RELAY_UNDER=bun or RELAY_UNDER=deno.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { resolve } from "node:path"
import { readPage } from "../../lib/docs.ts"
import {
  type Changes,
  chunk,
  envelope,
  headers,
  lastChunk,
  rawDelivery,
  signature,
  startTarget,
  type Target,
} from "./fixture.ts"
import * as Raw from "./Raw.ts"

let target: Target
beforeAll(async () => {
  target = await startTarget()
})
afterAll(() => target.stop())

const post = (body: string | Uint8Array<ArrayBuffer>, changes: Changes = {}, path?: string): Promise<Response> =>
  fetch(target.url(path), { method: "POST", body, headers: headers(body, changes) })

/** Checks a response against the format of every refusal. */
const expectRefusal = async (response: Response, status: number) => {
  expect(response.status).toBe(status)
  expect(response.headers.get("content-type")).toBe("application/problem+json")
  const text = await response.text()
  expect(text).toMatch(/^\{[^\n]*\}\n$/)
  expect(JSON.parse(text)).toMatchObject({ status, title: expect.any(String), requestId: expect.any(String) })
}

describe("accepted", () => {
  test("a signed delivery is answered 202 and reaches the sink byte by byte", async () => {
    const body = `{ "note" : "é \\u00e9 日本", ${envelope().slice(1)}`
    const response = await post(body)
    expect([response.status, await response.text()]).toEqual([202, ""])
    expect(await target.keeps(body)).toBe(true)
  })

  test("a duplicate is answered 202 and kept once", async () => {
    const body = envelope()
    expect((await post(body)).status).toBe(202)
    expect((await post(body)).status).toBe(202)
    const after = envelope()
    await post(after)
    expect(await target.keeps(after)).toBe(true)
    expect(target.kept().filter((_) => _ === body)).toHaveLength(1)
  })

  test("twenty concurrent duplicates are all answered 202 and kept once", async () => {
    const body = envelope()
    const responses = await Promise.all(Array.from({ length: 20 }, () => post(body)))
    expect(responses.map((_) => _.status)).toEqual(Array.from({ length: 20 }, () => 202))
    const after = envelope()
    await post(after)
    expect(await target.keeps(after)).toBe(true)
    expect(target.kept().filter((_) => _ === body)).toHaveLength(1)
  })

  test("the same id with other bytes is an event of its own", async () => {
    const body = envelope()
    const altered = body.replace("apt_1", "apt_2")
    expect((await post(body)).status).toBe(202)
    expect((await post(altered)).status).toBe(202)
    expect(await target.keeps(altered)).toBe(true)
    expect(await target.keeps(body)).toBe(true)
  })

  test("an unknown type is routed", async () => {
    const body = envelope("appointment.teleported")
    expect((await post(body)).status).toBe(202)
    expect(await target.keeps(body)).toBe(true)
  })

  test("a signed body with a byte order mark, and a body that isn't UTF-8, are verified by their bytes", async () => {
    expect((await post(`\uFEFF${envelope()}`)).status).toBe(202)
    expect((await post(Uint8Array.of(0x7b, 0xff, 0xfe, 0x7d))).status).toBe(202)
    expect((await post("")).status).toBe(202)
  })

  test("with the status that the config names", async () => {
    expect((await post(envelope(), {}, "/hooks/picky")).status).toBe(200)
  })

  test("a body in chunks, a slow body, and a body near the limit", async () => {
    const chunked = envelope()
    const inChunks = await Raw.open(target.port)
    inChunks.write(
      rawDelivery("", ["Host: relay.example", "Transfer-Encoding: chunked"], {
        "x-service-signature": signature(chunked),
      }),
    )
    for (const piece of [chunked.slice(0, 10), chunked.slice(10)]) {
      inChunks.write(chunk(piece))
      await target.hasRead()
    }
    inChunks.write(lastChunk)
    expect((await inChunks.answers(1)).statuses).toEqual([202])
    inChunks.destroy()
    expect(await target.keeps(chunked)).toBe(true)

    const slow = await Raw.open(target.port)
    const text = rawDelivery(envelope())
    for (let at = 0; at < text.length; at += 100) {
      slow.write(text.slice(at, at + 100))
      await target.hasRead()
    }
    expect((await slow.answers(1)).statuses).toEqual([202])
    slow.destroy()

    const large = envelope("client.created", { note: "n".repeat(255 * 1024) })
    expect((await post(large)).status).toBe(202)
    expect(await target.keeps(large)).toBe(true)
  })

  test("a body that waits for `100 Continue`", async () => {
    const body = envelope()
    const connection = await Raw.open(target.port)
    const framing = ["Host: a", `Content-Length: ${body.length}`, "Expect: 100-continue"]
    connection.write(rawDelivery("", framing, { "x-service-signature": signature(body) }))
    expect((await connection.answers(0)).text).toStartWith("HTTP/1.1 100 ")
    connection.write(body)
    expect((await connection.answers(1)).statuses).toEqual([202])
    connection.destroy()
    expect(await target.keeps(body)).toBe(true)
  })

  test("by HTTP/1.1, with an offer to change to HTTP/2, or refused if the runtime can't take it", async () => {
    const body = envelope()
    const offer = ["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAEAAEAAAAIAAAAB"]
    const framing = ["Host: a", `Content-Length: ${body.length}`, ...offer]
    // Deno's server refuses every body with such an offer, and passes nothing to the relay.
    const isDeno = process.env.RELAY_UNDER === "deno"
    expect((await Raw.send(target.port, rawDelivery(body, framing))).statuses).toEqual([isDeno ? 400 : 202])
    const after = envelope()
    expect((await post(after)).status).toBe(202)
    expect(await target.keeps(after)).toBe(true)
    expect(target.kept().filter((_) => _ === body)).toHaveLength(isDeno ? 0 : 1)
  })

  test("a signed body with 31,000 nested objects, and the relay continues", async () => {
    const body = `${'{"a":'.repeat(31_000)}1${"}".repeat(31_000)}`
    expect((await post(body)).status).toBe(202)
    const after = envelope()
    expect((await post(after)).status).toBe(202)
    expect(await target.keeps(after)).toBe(true)
  })

  test("one connection serves one delivery after another, refusals in between", async () => {
    const connection = await Raw.open(target.port)
    const expected: Array<number> = []
    for (const [text, status] of [
      [rawDelivery(envelope()), 202],
      [rawDelivery(envelope(), undefined, { "x-service-signature": "sha256=0" }), 401],
      [rawDelivery(envelope()), 202],
      ["GET /hooks/scheduling HTTP/1.1\r\nHost: a\r\n\r\n", 405],
      [rawDelivery(envelope()), 202],
    ] as const) {
      connection.write(text)
      expected.push(status)
      expect((await connection.answers(expected.length)).statuses).toEqual(expected)
      // An answer without a body ends with its header, so this waits until the header is complete.
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
    connection.destroy()
  })
})

describe("refused with 401", () => {
  const body = envelope()
  const right = signature(body)
  const cases: ReadonlyArray<readonly [string, string | undefined]> = [
    ["without a signature", undefined],
    ["with an empty one", ""],
    ["with a lowercase digest", `sha256=${right.slice(7).toLowerCase()}`],
    ["with an uppercase prefix", right.toUpperCase()],
    ["with a digit too few", right.slice(0, -1)],
    ["with a digit too many", `${right}0`],
    ["with another algorithm's name", right.replace("sha256", "sha512")],
    ["with one digit changed", right.slice(0, -1) + (right.endsWith("0") ? "1" : "0")],
    ["with that of another body", signature(`${body} `)],
    ["with itself twice in one header", `${right}, ${right}`],
  ]
  for (const [name, value] of cases) {
    test(name, async () => expectRefusal(await post(body, { "x-service-signature": value }), 401))
  }

  test("with two signature headers, both right", async () => {
    const text = rawDelivery(body).replace("\r\n\r\n", `\r\nX-Service-Signature: ${right}\r\n\r\n`)
    expect((await Raw.send(target.port, text)).statuses).toEqual([401])
  })
})

describe("refused", () => {
  test("with 404 on a path without a webhook, with or without a signature", async () => {
    for (const path of [
      "/",
      "/hooks",
      "/hooks/scheduling/",
      "/hooks/Scheduling",
      "/hooks/scheduling%2f",
      "/healthz",
      "/metrics",
    ]) {
      await expectRefusal(await post(envelope(), {}, path), 404)
      await expectRefusal(await fetch(target.url(path)), 404)
    }
  })

  test("with 404 for an unknown webhook id, if the webhook requires it", async () => {
    await expectRefusal(await post(envelope(), { "x-service-webhook-id": "wh_other" }, "/hooks/strict"), 404)
    await expectRefusal(await post(envelope(), { "x-service-webhook-id": undefined }, "/hooks/strict"), 404)
    expect((await post(envelope(), {}, "/hooks/strict")).status).toBe(202)
  })

  test("with 405 and Allow by any other method", async () => {
    for (const method of ["GET", "PUT", "PATCH", "DELETE", "OPTIONS"]) {
      const response = await fetch(target.url(), { method })
      expect(response.headers.get("allow")).toBe("POST")
      await expectRefusal(response, 405)
    }
    const head = await fetch(target.url(), { method: "HEAD" })
    expect([head.status, head.headers.get("allow"), await head.text()]).toEqual([405, "POST", ""])
  })

  test("with 415 when the content type is not JSON, or the body is encoded", async () => {
    for (const type of [
      "text/plain",
      "application/x-www-form-urlencoded",
      "multipart/form-data; boundary=x",
      undefined,
    ]) {
      const text = rawDelivery(envelope(), undefined, { "content-type": type })
      expect([type, (await Raw.send(target.port, text)).statuses]).toEqual([type, [415]])
    }
    for (const encoding of ["gzip", "br", "deflate", "gzip, identity"]) {
      const zipped = Uint8Array.from(Bun.gzipSync(envelope()))
      await expectRefusal(await post(zipped, { "content-encoding": encoding }), 415)
    }
    expect((await post(envelope(), { "content-type": "application/json; charset=utf-8" })).status).toBe(202)
  })

  test("with 413 a body over the limit, and the connection serves the next delivery", async () => {
    const large = envelope("client.created", { note: "n".repeat(257 * 1024) })
    for (const [framing, body] of [
      [`Content-Length: ${Buffer.byteLength(large)}`, large],
      ["Transfer-Encoding: chunked", chunk(large) + lastChunk],
    ] as const) {
      const connection = await Raw.open(target.port)
      connection.write(rawDelivery("", ["Host: a", framing]) + body)
      expect((await connection.answers(1)).statuses).toEqual([413])
      connection.write(rawDelivery(envelope()))
      expect((await connection.answers(2)).statuses).toEqual([413, 202])
      connection.destroy()
    }
  })

  test("with 422 for a delivery that the config rejects", async () => {
    await expectRefusal(await post(envelope("appointment.teleported"), {}, "/hooks/picky"), 422)
    await expectRefusal(await post("not json", {}, "/hooks/picky"), 422)
  })
})

describe("in quarantine, and answered 202", () => {
  test("are signed bodies that aren't envelopes, and types that the config keeps out", async () => {
    const undecodable = `not an envelope ${Math.random()}`
    const unknown = envelope("appointment.teleported")
    expect((await post(undecodable)).status).toBe(202)
    expect((await post(unknown, {}, "/hooks/careful")).status).toBe(202)
    const after = envelope()
    await post(after)
    expect(await target.keeps(after)).toBe(true)
    expect(target.kept()).not.toContain(undecodable)
    expect(target.kept()).not.toContain(unknown)
  })
})

describe("malformed HTTP is refused with 400, and nothing of it is kept", () => {
  const length = (body: string) => `Content-Length: ${Buffer.byteLength(body)}`
  const cases: ReadonlyArray<readonly [string, (body: string) => ReadonlyArray<string>]> = [
    ["two equal Content-Lengths", (body) => ["Host: a", length(body), length(body)]],
    ["two different Content-Lengths", (body) => ["Host: a", length(body), "Content-Length: 1"]],
    ["a Content-Length that is a list", (body) => ["Host: a", `${length(body)}, ${Buffer.byteLength(body)}`]],
    ["a negative Content-Length", () => ["Host: a", "Content-Length: -1"]],
    ["a Content-Length and chunks", (body) => ["Host: a", length(body), "Transfer-Encoding: chunked"]],
    ["two Hosts", (body) => ["Host: a", "Host: b", length(body)]],
    ["two equal Hosts", (body) => ["Host: a", "Host: a", length(body)]],
    ["no Host", (body) => [length(body)]],
    ["an empty Host", (body) => ["Host:", length(body)]],
    ["a Host with a path in it", (body) => ["Host: evil/x?y#", length(body)]],
    ["a Host with a user in it", (body) => ["Host: user@relay.example", length(body)]],
    ["a Host with a port that can't be", (body) => ["Host: localhost:99999", length(body)]],
    ["a Host with an address that can't be", (body) => ["Host: 1.2.3.999", length(body)]],
    ["a Host with white space in it", (body) => ["Host: relay example", length(body)]],
  ]
  for (const [name, framing] of cases) {
    test(name, async () => {
      const body = envelope()
      const exchange = await Raw.send(target.port, rawDelivery(body, framing(body)))
      expect(exchange.statuses).toEqual([400])
      const after = envelope()
      await post(after)
      expect(await target.keeps(after)).toBe(true)
      expect(target.kept()).not.toContain(body)
    })
  }

  test("a Host that is an address, bracketed or with a port, is accepted", async () => {
    for (const host of ["127.0.0.1:8080", "[::1]:8080", "relay.example.", "relay_1"]) {
      const body = envelope()
      const exchange = await Raw.send(target.port, rawDelivery(body, [`Host: ${host}`, length(body)]))
      expect([host, exchange.statuses]).toEqual([host, [202]])
    }
  })

  test("bytes that aren't HTTP, or a head without an end", async () => {
    expect((await Raw.send(target.port, "\x16\x03\x01\x02\r\n\r\n")).statuses).toEqual([400])
    const endless = await Raw.send(target.port, `GET / HTTP/1.1\r\nHost: a\r\nX: ${"x".repeat(1_000_000)}`)
    expect([400, 431, undefined]).toContain(endless.statuses[0])
    expect((await post(envelope())).status).toBe(202)
  })
})

describe("a connection that is not as it should be", () => {
  test("pipelined deliveries: those that get a 202 are kept, and the others may be sent again", async () => {
    const bodies = [envelope(), envelope(), envelope()]
    const pipelined = await Raw.send(target.port, bodies.map((body) => rawDelivery(body)).join(""), 3)
    expect(pipelined.statuses.every((status) => status === 202)).toBe(true)
    for (const body of bodies) expect((await post(body)).status).toBe(202)
    for (const body of bodies) expect(await target.keeps(body)).toBe(true)
    for (const body of bodies) expect(target.kept().filter((_) => _ === body)).toHaveLength(1)
  })

  test("a delivery that breaks off half way is forgotten, and may be sent again", async () => {
    const body = envelope()
    const broken = await Raw.open(target.port)
    broken.write(rawDelivery(body).slice(0, -20))
    await target.hasRead()
    broken.destroy()
    expect((await post(body)).status).toBe(202)
    expect(await target.keeps(body)).toBe(true)
  })

  test("the log and the status have the address of a refused request, or the one in the config's header", async () => {
    const lastFrom = async () => {
      const { refusals } = (await (await fetch(`http://127.0.0.1:${target.admin}/api/v1/status`)).json()) as {
        readonly refusals: ReadonlyArray<{ readonly reason: string; readonly lastFrom: string }>
      }
      return refusals.find(({ reason }) => reason === "unknownPath")?.lastFrom
    }
    for (const [forwarded, from] of [
      [undefined, "127.0.0.1"],
      ["canary, 198.51.100.7", "198.51.100.7"],
      ["canary", "127.0.0.1"],
    ] as const) {
      const response = await post("", { "x-forwarded-for": forwarded }, "/nowhere")
      expect(response.status).toBe(404)
      expect(await lastFrom()).toBe(from)
    }
    await target.relay.prints(/reason=unknownPath {2}requestId=\S+ {2}from=127\.0\.0\.1/)
  })

  test.skipIf(process.env.RELAY_UNDER === "deno")(
    "the runtime refuses what responses.md lists, and no more",
    async () => {
      const [, size, count] =
        /more than (\d+) KiB together, or more than (\d+) headers/.exec(readPage("docs/reference/responses.md")) ?? []
      const head = "GET /nowhere HTTP/1.1\r\nHost: a\r\n"
      const ofSize = (bytes: number) => `${head}X: ${"x".repeat(bytes - head.length - 7)}\r\n\r\n`
      const ofCount = (headers: number) => `${head}${"X: y\r\n".repeat(headers - 1)}\r\n`
      const most = Number(size) * 1024
      for (const [bytes, status] of [
        [ofSize(most), 404],
        [ofSize(most + 1), 431],
        [ofCount(Number(count)), 404],
        [ofCount(Number(count) + 1), 431],
        [`PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n${rawDelivery(envelope())}`, 400],
        [`\r\n\r\n\0\r\nQUIT\n!\x11\0\x0c${"\0".repeat(12)}${rawDelivery(envelope())}`, 400],
        ["PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400],
        [`\x16\x03\x01\0\xc8\x01\0\0\xc4\x03\x03${"\0".repeat(194)}`, 400],
      ] as const) {
        const { statuses } = await Raw.send(target.port, bytes)
        expect([bytes.slice(0, 40), statuses]).toEqual([bytes.slice(0, 40), [status]])
      }
    },
  )

  test("a delivery that announces a trailer is refused before it is stored, or is kept where trailers can be read", async () => {
    const isDeno = process.env.RELAY_UNDER === "deno"
    const body = envelope()
    const framing = ["Host: a", "Transfer-Encoding: chunked", "Trailer: x-note"]
    const head = rawDelivery("", framing, { "x-service-signature": signature(body) })
    const rest = `${chunk(body)}0\r\nx-note: y\r\n\r\n`
    for (const pieces of [[head + rest], [head, rest]]) {
      const connection = await Raw.open(target.port)
      for (const piece of pieces) {
        connection.write(piece)
        await target.hasRead()
      }
      const { statuses, text, closed } = isDeno ? await connection.answers(1) : await connection.ended()
      expect(statuses[0]).toBe(isDeno ? 202 : 411)
      expect([text.includes("Deliveries have no trailer"), closed]).toEqual([!isDeno, !isDeno])
      connection.destroy()
    }
    const after = envelope()
    expect((await post(after)).status).toBe(202)
    expect(await target.keeps(after)).toBe(true)
    expect(target.kept().filter((_) => _ === body)).toHaveLength(isDeno ? 1 : 0)
  })

  test.skipIf(process.env.RELAY_UNDER === "deno")(
    "a delivery with a trailer that was not announced is kept, and its connection closes",
    async () => {
      const body = envelope()
      const connection = await Raw.open(target.port)
      const framing = ["Host: a", "Transfer-Encoding: chunked"]
      connection.write(rawDelivery("", framing, { "x-service-signature": signature(body) }))
      connection.write(`${chunk(body)}0\r\nx-note: y\r\n\r\n`)
      expect((await connection.ended()).statuses.at(-1)).toBe(400)
      connection.destroy()
      expect((await post(body)).status).toBe(202)
      const after = envelope()
      await post(after)
      expect(await target.keeps(after)).toBe(true)
      expect(target.kept().filter((_) => _ === body)).toHaveLength(1)
    },
  )

  test.skipIf(process.env.RELAY_UNDER === "deno")(
    "a delivery whose sender ends its side at once may get no response, and is kept once if it comes again",
    async () => {
      const body = envelope()
      const connection = await Raw.open(target.port)
      connection.write(rawDelivery(body))
      connection.end()
      expect(["", "202"]).toContain((await connection.ended()).statuses.join())
      expect((await post(body)).status).toBe(202)
      const after = envelope()
      await post(after)
      expect(await target.keeps(after)).toBe(true)
      expect(target.kept().filter((_) => _ === body)).toHaveLength(1)
    },
  )

  test("a refused request's content is in no answer and not in the log", async () => {
    const canary = "canary-3141592653"
    const answers = [
      await post(canary, { "x-service-signature": canary }),
      await post(canary, {}, `/${canary}`),
      await post(canary, { "content-type": canary }),
      await post(canary, {}, "/hooks/picky"),
    ]
    for (const answer of answers) expect(await answer.text()).not.toContain("canary")
    const text = rawDelivery(canary, [`Host: ${canary}/`, `Content-Length: ${canary.length}`])
    expect((await Raw.send(target.port, text)).text).not.toContain("canary")
    expect(target.relay.stdout() + target.relay.stderr()).not.toContain("canary")
  })
})

describe("draining", () => {
  test("finishes requests in progress, refuses new ones, and keeps accepted events", async () => {
    const own = await startTarget()
    const body = envelope()
    const text = rawDelivery(body)
    const underWay = await Raw.open(own.port)
    const waiting = await Raw.open(own.port)
    underWay.write(text.slice(0, -30))
    await own.hasRead()
    own.relay.signal("SIGTERM")
    await own.relay.prints("draining")
    waiting.write(rawDelivery(envelope()))
    const refused = await waiting.answers(1)
    expect(refused.statuses).toEqual([503])
    expect(refused.text.toLowerCase()).toContain("retry-after: ")
    expect(refused.text.toLowerCase()).toContain("connection: close")
    underWay.write(text.slice(-30))
    expect((await underWay.answers(1)).statuses).toEqual([202])
    expect(await own.relay.exited).toBe(0)
    expect(own.kept()).toEqual([body])
    underWay.destroy()
    waiting.destroy()
    await own.stop()
  })

  test("is cut short by a second signal", async () => {
    const own = await startTarget()
    const stalled = await Raw.open(own.port)
    stalled.write(rawDelivery(envelope()).slice(0, -30))
    await own.hasRead()
    own.relay.signal("SIGTERM")
    await own.relay.prints(/waiting for 1 request under way on 127\.0\.0\.1:\d+, for 8s at most/)
    expect(await own.relay.kill("SIGTERM")).toBe(143)
    stalled.destroy()
    await own.stop()
  })
})

describe("TLS", () => {
  const certificate = resolve(import.meta.dir, "tls/localhost.pem")
  const key = resolve(import.meta.dir, "tls/localhost.key.pem")

  test("a delivery over TLS is accepted, and plain HTTP on that port is not", async () => {
    const own = await startTarget({ tls: { certificate, key } })
    const body = envelope()
    const response = await fetch(own.url(), {
      method: "POST",
      body,
      headers: headers(body),
      tls: { ca: readFileSync(certificate, "utf8") },
    })
    expect(response.status).toBe(202)
    expect(await own.keeps(body)).toBe(true)
    const plain = await Raw.open(own.port)
    plain.write(rawDelivery(envelope()))
    expect((await plain.ended()).statuses).not.toContain(202)
    plain.destroy()
    await own.stop()
  })
})
