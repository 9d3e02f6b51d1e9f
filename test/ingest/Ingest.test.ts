/** Ingest by its table of answers, over requests made here and a journal in memory. */
import { describe, expect } from "bun:test"
import { Effect, Exit, Fiber, Logger, Redacted, References } from "effect"
import { TestClock } from "effect/testing"
import * as Bodies from "../../src/ingest/Bodies.ts"
import {
  type AppendExit,
  JournalBroken,
  JournalError,
  JournalFull,
  JournalUnavailable,
} from "../../src/journal/Journal.ts"
import * as Guard from "../../src/runtime/RequestGuard.ts"
import { it } from "../lib/effect.ts"
import { hour, settable } from "../lib/wallClock.ts"
import { type Delivery, delivery, envelope, secretValue, signature, start, webhook } from "./fixture.ts"

const status = (responses: ReadonlyArray<Response>) => responses.map((_) => _.status)
const text = (response: Response) => Effect.promise(() => response.text())

describe("a delivery is accepted", () => {
  it.effect("only with 202, once the journal has exactly its bytes", function* () {
    const { send, entries } = yield* start()
    const body = `  ${envelope()}\r\n`
    const response = yield* send(delivery(body))
    expect(response.status).toBe(202)
    expect(yield* text(response)).toBe("")
    const [entry] = yield* entries
    expect(Buffer.from(entry?.event.body ?? []).toString()).toBe(body)
    expect(entry?.event).toMatchObject({
      type: "appointment.created",
      accountId: "acct_1",
      webhook: "scheduling",
      webhookId: "wh_1",
      signature: signature(body),
      secret: "main",
      receivedAt: 0,
    })
    expect(entry?.sinks).toEqual(["lake"])
  })

  it.effect("with the status that the config names", function* () {
    const { send } = yield* start({ webhooks: [webhook({ respond: 204 })] })
    expect((yield* send(delivery(envelope()))).status).toBe(204)
  })

  it.effect("when it is a duplicate, and kept once", function* () {
    const { send, entries } = yield* start()
    const body = envelope()
    const responses = yield* Effect.all([send(delivery(body)), send(delivery(body)), send(delivery(body))], {
      concurrency: "unbounded",
    })
    expect(status(responses)).toEqual([202, 202, 202])
    expect(yield* entries).toHaveLength(1)
  })

  it.effect("when no route matches it: it is kept, and counted as unrouted", function* () {
    const { send, entries, counters } = yield* start()
    expect((yield* send(delivery(envelope("block.created")))).status).toBe(202)
    expect((yield* entries).map((_) => _.sinks)).toEqual([[]])
    expect(counters.unrouted).toBe(1)
    expect(counters.unroutedAt).toBe((yield* entries)[0]?.event.receivedAt ?? 0)
  })

  it.effect("with a query, and with parameters or a suffix in its content type", function* () {
    const { send } = yield* start()
    expect((yield* send(delivery(envelope(), { path: "/hooks/scheduling?attempt=2" }))).status).toBe(202)
    for (const type of ["application/json; charset=utf-8", "Application/JSON", "application/cloudevents+json"]) {
      expect((yield* send(delivery(envelope(), { headers: { "content-type": type } }))).status).toBe(202)
    }
    expect((yield* send(delivery(envelope(), { headers: { "content-encoding": "identity" } }))).status).toBe(202)
  })

  it.effect("without a Content-Length, and larger than one read", function* () {
    const { send, entries } = yield* start()
    const body = envelope("client.created", { note: "n".repeat(90_000) })
    expect((yield* send(delivery(body, { headers: { "content-length": null } }))).status).toBe(202)
    const large = envelope("client.created", { note: "m".repeat(90_000) })
    expect((yield* send(delivery(large))).status).toBe(202)
    expect((yield* entries).map((_) => Buffer.from(_.event.body).toString())).toEqual([body, large])
  })
})

describe("a request is refused", () => {
  const cases: ReadonlyArray<
    readonly [name: string, status: number, Delivery, headers?: Record<string, string | null>]
  > = [
    ["to an unknown path", 404, { path: "/hooks/schedulin" }],
    ["to a path below a webhook's", 404, { path: "/hooks/scheduling/" }],
    ["by GET", 405, { method: "GET" }, { allow: "POST" }],
    ["by HEAD", 405, { method: "HEAD" }, { allow: "POST" }],
    ["by PUT", 405, { method: "PUT" }, { allow: "POST" }],
    ["by OPTIONS", 405, { method: "OPTIONS" }, { allow: "POST" }],
    ["without a content type", 415, { headers: { "content-type": null } }],
    ["with a form", 415, { headers: { "content-type": "application/x-www-form-urlencoded" } }],
    ["with text that only looks like JSON", 415, { headers: { "content-type": "text/json" } }],
    ["with a type that begins like JSON", 415, { headers: { "content-type": "application/jsonp" } }],
    ["with gzip", 415, { headers: { "content-encoding": "gzip" } }],
    ["without a signature", 401, { headers: { "x-service-signature": null } }],
    ["with an empty signature", 401, { headers: { "x-service-signature": "" } }],
    ["with a malformed signature", 401, { headers: { "x-service-signature": "sha256=0" } }],
    ["with another secret's signature", 401, { secret: "whsec_other" }],
    ["with a body over the limit, declared", 413, { headers: { "content-length": "100001" } }, { connection: null }],
  ]
  for (const [name, expected, options, headers] of cases) {
    it.effect(`${name} with ${expected}`, function* () {
      const { send, entries, counters } = yield* start()
      const response = yield* send(delivery(envelope(), options))
      expect(response.status).toBe(expected)
      for (const [header, value] of Object.entries(headers ?? {})) expect(response.headers.get(header)).toBe(value)
      expect(response.headers.get("content-type")).toBe("application/problem+json")
      const line = yield* text(response)
      expect(line.trimEnd()).not.toContain("\n")
      expect(JSON.parse(line)).toMatchObject({ status: expected, requestId: expect.any(String) })
      expect(yield* entries).toEqual([])
      expect(counters.bytesInFlight).toBe(0)
      expect([...counters.webhooks.values()].flatMap((_) => [..._.answers])).toEqual([[expected, 1]])
    })
  }

  it.effect("with 401 when its signature is lowercase or came twice, and the reason is counted", function* () {
    const { send, counters } = yield* start()
    const body = envelope()
    const right = signature(body)
    const values = [
      `sha256=${right.slice(7).toLowerCase()}`,
      `${right}, ${right}`,
      "sha256=0",
      right.replace(/.$/, "g"),
    ]
    for (const value of values) {
      expect((yield* send(delivery(body, { headers: { "x-service-signature": value } }))).status).toBe(401)
    }
    expect((yield* send(delivery(`${body} `, { headers: { "x-service-signature": right } }))).status).toBe(401)
    expect((yield* send(delivery(body, { headers: { "x-service-signature": null } }))).status).toBe(401)
    expect(counters.webhooks.get("scheduling")?.signatureFailures).toEqual(
      new Map([
        ["lowercase", 1],
        ["doubled", 1],
        ["malformed", 2],
        ["mismatch", 1],
        ["missing", 1],
      ]),
    )
  })

  it.effect("with 413 when more arrives than the limit, without a declared length", function* () {
    const { send, counters } = yield* start()
    const exactly = delivery("x".repeat(100_000), { headers: { "content-length": null } })
    expect((yield* send(exactly)).status).toBe(202)
    const over = delivery("x".repeat(100_001), { headers: { "content-length": null } })
    const response = yield* send(over)
    expect(response.status).toBe(413)
    expect(response.headers.get("connection")).toBe(null)
    expect(counters.bytesInFlight).toBe(0)
  })

  it.effect("with 413 without reading an endless body to its end", function* () {
    const { send } = yield* start()
    let pulled = 0
    const endless = new ReadableStream<Uint8Array<ArrayBuffer>>({
      pull: (controller) => {
        pulled += 1
        controller.enqueue(new Uint8Array(10_000))
      },
    })
    const { url, headers } = delivery("", { headers: { "content-length": null } })
    expect((yield* send(new Request(url, { method: "POST", headers, body: endless }))).status).toBe(413)
    expect(pulled).toBeLessThan(20)
  })

  it.effect("a large body counts with its received bytes, so nobody can reserve memory without sending", function* () {
    const { send, counters } = yield* start()
    const started = new ReadableStream<Uint8Array<ArrayBuffer>>({ start: (_) => _.enqueue(new Uint8Array(3)) })
    const { url, headers } = delivery("", { headers: { "content-length": "90000" } })
    const answer = yield* Effect.forkChild(send(new Request(url, { method: "POST", headers, body: started })), {
      startImmediately: true,
    })
    yield* TestClock.adjust("1 second")
    expect(counters.bytesInFlight).toBe(16 * 1024)
    yield* Fiber.interrupt(answer)
  })

  it.effect("with 408 when its body stalls, whatever length it declared", function* () {
    const { send, counters } = yield* start()
    for (const length of ["10", "90000", null]) {
      const stalled = new ReadableStream<Uint8Array<ArrayBuffer>>({ start: (_) => _.enqueue(new Uint8Array(3)) })
      const { url, headers } = delivery("", { headers: { "content-length": length } })
      const answer = yield* Effect.forkChild(send(new Request(url, { method: "POST", headers, body: stalled })), {
        startImmediately: true,
      })
      yield* TestClock.adjust("29 seconds")
      expect(answer.pollUnsafe()).toBeUndefined()
      yield* TestClock.adjust("5 seconds")
      const response = yield* Fiber.join(answer)
      expect(response.status).toBe(408)
      expect(response.headers.get("connection")).toBe("close")
      expect(counters.bytesInFlight).toBe(0)
    }
  })
})

describe("a body that does not come", () => {
  /** Starts a delivery that announces `announced` bytes, sends `sent` bytes, and then nothing. */
  const begin = (
    send: (request: Request) => Effect.Effect<Response>,
    announced: number,
    sent: number,
    more: Record<string, string> = {},
  ) => {
    const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
      start: (_) => {
        if (sent > 0) _.enqueue(new Uint8Array(sent))
      },
    })
    const { url, headers } = delivery("", { headers: { "content-length": String(announced), ...more } })
    return Effect.forkChild(send(new Request(url, { method: "POST", headers, body })), { startImmediately: true })
  }

  it.effect("takes no room by announcing it, and is given up when its first byte is late", function* () {
    const { send, counters } = yield* start()
    const claims = yield* Effect.forEach(Array.from({ length: 1_000 }), () => begin(send, 100_000, 0))
    expect(counters.bytesInFlight).toBe(0)
    expect((yield* send(delivery(envelope()))).status).toBe(202)
    expect((yield* send(delivery("x".repeat(99_000)))).status).toBe(202)
    yield* TestClock.adjust("9 seconds")
    expect(claims.some((claim) => claim.pollUnsafe() !== undefined)).toBe(false)
    yield* TestClock.adjust("2 seconds")
    expect(new Set(status(yield* Effect.forEach(claims, Fiber.join)))).toEqual(new Set([408]))
  })

  for (const by of [-hour, hour]) {
    it.effect(`gets its time and no more if the wall clock is set by ${by / 60_000} minutes`, function* () {
      const { wall, withWall } = yield* settable
      yield* Effect.gen(function* () {
        const { send } = yield* start()
        const bodies = [yield* begin(send, 100_000, 0), yield* begin(send, 100_000, 9), yield* begin(send, 100, 9)]
        wall.ahead = by
        const ended = () => bodies.map((body) => body.pollUnsafe() !== undefined)
        yield* TestClock.adjust("9 seconds")
        expect(ended()).toEqual([false, false, false])
        yield* TestClock.adjust("3 seconds")
        expect(ended()).toEqual([true, false, false])
        yield* TestClock.adjust("16 seconds")
        expect(ended()).toEqual([true, false, false])
        yield* TestClock.adjust("4 seconds")
        expect(status(yield* Effect.forEach(bodies, Fiber.join))).toEqual([408, 408, 408])
      }).pipe(withWall)
    })
  }

  it.effect("gives way, the oldest first, where bodies that came in part have used up the room", function* () {
    const { send, counters } = yield* start()
    /** The memory that 99,000 bytes take. */
    const held = 7 * 16 * 1024
    const fit = Math.floor(Bodies.maxArriving / held)
    const slow = yield* Effect.forEach(Array.from({ length: fit + 10 }), () => begin(send, 100_000, 99_000))
    yield* TestClock.adjust("1 second")
    expect((yield* send(delivery("x".repeat(99_000)))).status).toBe(202)
    yield* TestClock.adjust("1 second")
    const ended = slow.map((one) => one.pollUnsafe() !== undefined)
    expect(ended.indexOf(false)).toBe(ended.filter(Boolean).length)
    expect(ended.filter(Boolean).length).toBe(11)
    expect(status(yield* Effect.forEach(slow.slice(0, 11), Fiber.join))).toEqual(Array.from({ length: 11 }, () => 503))
    expect(counters.bytesInFlight).toBe(held * (fit - 1))
  })

  it.effect("gives way after all others if the last large body of its sender was verified", function* () {
    const { send } = yield* start({ addressHeader: "x-forwarded-for" })
    const sender = { "x-forwarded-for": "198.51.100.7" }
    const stranger = { "x-forwarded-for": "203.0.113.9" }
    const fit = Math.floor(Bodies.maxArriving / (7 * 16 * 1024))
    const large = (secret: string) =>
      delivery(envelope("client.created", { note: "n".repeat(20_000) }), { headers: sender, secret })
    for (const [secret, status, first] of [
      [secretValue, 202, false],
      ["whsec_other", 401, true],
    ] as const) {
      expect((yield* send(large(secret))).status).toBe(status)
      const bodies = [yield* begin(send, 100_000, 99_000, sender)]
      for (let count = 0; count < fit; count += 1) bodies.push(yield* begin(send, 100_000, 99_000, stranger))
      yield* TestClock.adjust("1 second")
      const ended = bodies.map((body) => body.pollUnsafe() !== undefined)
      expect(ended.slice(0, 3)).toEqual([first, !first, false])
      yield* TestClock.adjust("31 seconds")
    }
  })

  it.effect("gives way, the oldest first, where too many small ones are on their way", function* () {
    const { send, counters } = yield* start()
    const fit = Bodies.maxSmall / (16 * 1024)
    const slow = yield* Effect.forEach(Array.from({ length: fit }), () => begin(send, 16 * 1024, 1))
    expect((yield* send(delivery(envelope()))).status).toBe(202)
    yield* TestClock.adjust("1 second")
    expect(slow.map((one) => one.pollUnsafe() !== undefined).indexOf(false)).toBe(1)
    expect(counters.bytesInFlight).toBe(0)
  })

  it.effect(
    "leaves nothing to the collector: its chunks and the body are freed when they are no longer needed",
    function* () {
      const { send, counters } = yield* start()
      for (const [length, secret] of [
        [90_000, "whsec_other"],
        [90_000, undefined],
        [200_000, undefined],
      ] as const) {
        const bytes = new Uint8Array(length).fill(0x20)
        const chunks = [bytes.slice(0, 50_000), bytes.slice(50_000)]
        const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
          pull: (_) => {
            const chunk = chunks[counted]
            counted += 1
            if (chunk === undefined) _.close()
            else _.enqueue(chunk)
          },
        })
        let counted = 0
        const { url, headers } = delivery(bytes, { headers: { "content-length": null }, ...(secret && { secret }) })
        yield* send(new Request(url, { method: "POST", headers, body }))
        expect(chunks.map((chunk) => chunk.byteLength)).toEqual([0, 0])
        expect(counters.bytesInFlight).toBe(0)
      }
    },
  )

  it.effect("is accepted if it arrives byte by byte", function* () {
    const { send, entries } = yield* start()
    const text = envelope()
    const bytes = new TextEncoder().encode(text)
    let at = 0
    const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
      pull: (_) => (at === bytes.length ? _.close() : _.enqueue(bytes.slice(at, ++at))),
    })
    const { url, headers } = delivery(text, { headers: { "content-length": null } })
    expect((yield* send(new Request(url, { method: "POST", headers, body }))).status).toBe(202)
    expect((yield* entries).map(({ event }) => new TextDecoder().decode(event.body))).toEqual([text])
  })
})

describe("what is signed is not lost", () => {
  it.effect("a body that isn't an envelope goes to quarantine with the reason", function* () {
    const { send, entries, counters } = yield* start()
    const bodies = ["", "not json", "\uFEFF{}", "[]", envelope("", {}), Uint8Array.of(0x22, 0xff, 0x22)]
    for (const body of bodies) expect((yield* send(delivery(body))).status).toBe(202)
    const kept = yield* entries
    expect(kept.map((_) => _.sinks)).toEqual(bodies.map(() => ["_quarantine"]))
    expect(kept.map((_) => _.event.problem)).toEqual([
      "the body is not JSON",
      "the body is not JSON",
      "the body is not JSON",
      "the JSON is not an object",
      "data.type is missing or doesn't match the interface",
      "the body is not UTF-8",
    ])
    expect(kept.map((_) => _.event.id)).toEqual(bodies.map(() => ""))
    expect([...(kept[5]?.event.body ?? [])]).toEqual([0x22, 0xff, 0x22])
    expect(counters.webhooks.get("scheduling")?.quarantined).toBe(6)
  })

  it.effect("a body that can't be decoded is refused with 422 if the config says so", function* () {
    const { send, entries } = yield* start({ webhooks: [webhook({ undecodable: "reject" })] })
    expect((yield* send(delivery("not json"))).status).toBe(422)
    expect(yield* entries).toEqual([])
  })

  it.effect(
    "nor is an envelope with a text of its own over 256 bytes, which would go where the text does",
    function* () {
      const { send, entries, counters } = yield* start()
      const [fits, long, wide] = ["x".repeat(256), "x".repeat(257), "\u{1f600}".repeat(65)]
      const data = (type: string) => ({ data: { type, object: {} } })
      const fitting = [data(fits), { id: fits }, { account_id: fits }, { version: fits }, { created_at: fits }]
      const over = ["data.type", "id", "account_id", "version", "created_at"]
      for (const more of fitting) expect((yield* send(delivery(envelope(undefined, {}, more)))).status).toBe(202)
      for (const field of over) {
        for (const text of [long, wide, "x".repeat(90_000)]) {
          const more = field === "data.type" ? data(text) : { [field]: text }
          expect((yield* send(delivery(envelope(undefined, {}, more)))).status).toBe(202)
        }
      }
      const kept = yield* entries
      expect(kept.slice(0, 5).map((_) => _.sinks)).toEqual(fitting.map(() => ["lake"]))
      expect(kept.slice(5).map((_) => [_.sinks, _.event.problem, _.event.id + _.event.type])).toEqual(
        over.flatMap((field) => [1, 2, 3].map(() => [["_quarantine"], `${field} is longer than 256 bytes`, ""])),
      )
      const types = [...(counters.webhooks.get("scheduling")?.events.keys() ?? [])]
      expect(types.every((type) => type.length <= 256)).toBe(true)
    },
  )

  it.effect("a webhook id that is too long is not kept: it is not signed, and would go to every sink", function* () {
    const { send, entries } = yield* start()
    for (const length of [256, 257, 90_000]) {
      const headers = { "x-service-webhook-id": "w".repeat(length) }
      expect((yield* send(delivery(envelope(), { headers }))).status).toBe(202)
    }
    expect((yield* entries).map(({ event }) => event.webhookId.length)).toEqual([256, 0, 0])
  })

  it.effect("a type that is not in the catalogue is routed like any other", function* () {
    const { send, entries } = yield* start()
    expect((yield* send(delivery(envelope("appointment.teleported")))).status).toBe(202)
    expect((yield* entries).map((_) => [_.event.type, _.sinks, _.event.problem])).toEqual([
      ["appointment.teleported", ["lake"], undefined],
    ])
  })

  it.effect("a type outside the catalogue goes to quarantine or gets 422, as the config says", function* () {
    const { send, entries } = yield* start({
      webhooks: [
        webhook({ name: "careful", path: "/careful", unknownTypes: "quarantine" }),
        webhook({ name: "strict", path: "/strict", unknownTypes: "reject" }),
      ],
    })
    const body = envelope("appointment.teleported")
    expect((yield* send(delivery(body, { path: "/careful" }))).status).toBe(202)
    expect((yield* send(delivery(body, { path: "/strict" }))).status).toBe(422)
    expect((yield* send(delivery(envelope(), { path: "/strict" }))).status).toBe(202)
    expect((yield* entries).map((_) => [_.event.webhook, _.sinks])).toEqual([
      ["careful", ["_quarantine"]],
      ["strict", ["lake"]],
    ])
  })

  it.effect("a type that would pass for the relay's own goes to quarantine, not where those go", function* () {
    const { send, entries } = yield* start()
    expect((yield* send(delivery(envelope("relay.dead_letter")))).status).toBe(202)
    expect((yield* entries).map((_) => _.sinks)).toEqual([["_quarantine"]])
  })

  it.effect("a client object that should have been redacted is kept; its fields are counted by name", function* () {
    const { send, entries, counters } = yield* start()
    expect(
      (yield* send(delivery(envelope("client.updated", { email: "a@b", phone: "1", last_name: null })))).status,
    ).toBe(202)
    expect((yield* entries).map((_) => _.sinks)).toEqual([["lake"]])
    expect(counters.webhooks.get("scheduling")?.unredacted).toEqual(
      new Map([
        ["email", 1],
        ["phone", 1],
      ]),
    )
  })
})

describe("the webhook", () => {
  const one = webhook({ name: "one", ids: ["wh_1"], secrets: [{ name: "a", value: Redacted.make("whsec_one") }] })
  const two = webhook({ name: "two", ids: ["wh_2"], secrets: [{ name: "b", value: Redacted.make("whsec_two") }] })
  const as = (id: string | null, secret: string) =>
    delivery(envelope(), { secret, headers: { "x-service-webhook-id": id } })

  it.effect("of a path is the one that the webhook id names, and only its secrets verify", function* () {
    const { send, entries } = yield* start({ webhooks: [one, two] })
    expect((yield* send(as("wh_2", "whsec_two"))).status).toBe(202)
    expect((yield* send(as("wh_1", "whsec_one"))).status).toBe(202)
    expect((yield* send(as("wh_1", "whsec_two"))).status).toBe(401)
    expect((yield* entries).map((_) => [_.event.webhook, _.event.secret])).toEqual([
      ["two", "b"],
      ["one", "a"],
    ])
  })

  it.effect("is found by its secret when the id is unknown or missing, unless it is strict", function* () {
    const lenient = yield* start({ webhooks: [one, two] })
    expect((yield* lenient.send(as("wh_9", "whsec_two"))).status).toBe(202)
    expect((yield* lenient.send(as(null, "whsec_one"))).status).toBe(202)
    expect((yield* lenient.send(as("wh_9", "whsec_none"))).status).toBe(401)
    expect((yield* lenient.entries).map((_) => [_.event.webhook, _.event.webhookId])).toEqual([
      ["two", "wh_9"],
      ["one", ""],
    ])
    const strict = yield* start({ webhooks: [{ ...one, strictId: true }] })
    expect((yield* strict.send(as("wh_9", "whsec_one"))).status).toBe(404)
    expect((yield* strict.send(as(null, "whsec_one"))).status).toBe(404)
    expect((yield* strict.send(as("wh_1", "whsec_one"))).status).toBe(202)
  })

  it.effect("has its own body limit, also if another webhook of its path allows more", function* () {
    const { send, counters } = yield* start({ webhooks: [{ ...one, maxBody: 1_000 }, two] })
    const long = envelope("appointment.created", { id: "x".repeat(5_000) })
    const from = (secret: string) => delivery(long, { secret, headers: { "x-service-webhook-id": null } })
    expect((yield* send(from("whsec_one"))).status).toBe(413)
    expect((yield* send(from("whsec_two"))).status).toBe(202)
    expect(counters.bytesInFlight).toBe(0)
  })

  it.effect("reads its own header names", function* () {
    const { send } = yield* start({
      webhooks: [webhook({ headers: { signature: "x-acme-signature", webhookId: "x-acme-id" } })],
    })
    const body = envelope()
    expect((yield* send(delivery(body))).status).toBe(401)
    expect((yield* send(delivery(body, { headers: { "x-acme-signature": signature(body) } }))).status).toBe(202)
  })

  it.effect("takes a secret until it expires", function* () {
    const old = { name: "old", value: Redacted.make("whsec_old"), expires: 60_000 }
    const { send, counters } = yield* start({ webhooks: [webhook({ secrets: [...webhook().secrets, old] })] })
    expect((yield* send(delivery(envelope(), { secret: "whsec_old" }))).status).toBe(202)
    yield* TestClock.adjust("1 minute")
    expect((yield* send(delivery(envelope(), { secret: "whsec_old" }))).status).toBe(401)
    expect((yield* send(delivery(envelope()))).status).toBe(202)
    const counts = counters.webhooks.get("scheduling")
    expect(counts?.signatureFailures).toEqual(new Map([["expired", 1]]))
    expect(counts?.secretsLastUsed).toEqual(
      new Map([
        ["old", 0],
        ["main", 60_000],
      ]),
    )
  })

  it.effect("is the newest config's", function* () {
    const { send, reload } = yield* start()
    yield* reload([webhook({ path: "/moved" })])
    expect((yield* send(delivery(envelope()))).status).toBe(404)
    expect((yield* send(delivery(envelope(), { path: "/moved" }))).status).toBe(202)
  })
})

describe("what is in quarantine", () => {
  const strict = [webhook({ unknownTypes: "quarantine" })]

  it.effect("is routed by the current config, as the same event, or shows why it can't be", function* () {
    const { ingest, send, entries, reload } = yield* start({ webhooks: strict })
    const bodies = ["no envelope", envelope("made.up"), envelope("block.made_up"), envelope("relay.dead_letter")]
    for (const body of bodies) yield* send(delivery(body))
    const kept = (yield* entries).map(({ event }) => event)
    expect(kept.every(({ problem }) => problem !== undefined)).toBe(true)
    const rerouted = () => kept.map((event) => ingest.reroute(event))
    expect(rerouted()).toEqual(kept.map(({ problem = "" }) => ({ stays: problem })))
    // The secret that verified them is no longer in the config.
    yield* reload([webhook({ secrets: [{ name: "newer", value: Redacted.make("another") }] })])
    const { problem: _, ...routed } = kept[1] ?? {}
    expect(rerouted()).toEqual([
      { stays: kept[0]?.problem },
      { event: routed, sinks: ["lake"] },
      { stays: "no route matches it" },
      { stays: kept[3]?.problem },
    ] as ReadonlyArray<unknown> as ReturnType<typeof rerouted>)
    yield* reload([webhook({ unknownTypes: "reject" })])
    expect(rerouted()[1]).toEqual({ stays: "the event type is not in the catalogue, and `unknownTypes` is reject" })
    yield* reload([webhook({ name: "another" })])
    expect(rerouted()[1]).toEqual({ stays: "the webhook scheduling is not in the config" })
  })

  it.effect("is kept once however often it is sent, and is a delivery when it can be routed", function* () {
    const { send, entries, reload } = yield* start({ webhooks: strict })
    const body = envelope("made.up")
    const answers = [yield* send(delivery(body)), yield* send(delivery(body))]
    yield* reload([webhook()])
    answers.push(yield* send(delivery(body)), yield* send(delivery(body)))
    expect(status(answers)).toEqual([202, 202, 202, 202])
    expect((yield* entries).map(({ sinks }) => sinks)).toEqual([["_quarantine"], ["lake"]])
  })
})

describe("503 with Retry-After asks for a retry", () => {
  const failing = (reason: JournalFull | JournalUnavailable | JournalBroken) => (): AppendExit =>
    Exit.fail(new JournalError({ reason }))

  const reasons = [
    new JournalFull({ cause: "maxSize", message: "the journal is full" }),
    new JournalUnavailable({ message: "starting" }),
    new JournalBroken({ message: "an fsync failed" }),
  ]
  for (const reason of reasons) {
    it.effect(`when the journal answers ${reason._tag}`, function* () {
      const { send, counters } = yield* start({ append: failing(reason) })
      const response = yield* send(delivery(envelope()))
      expect(response.status).toBe(503)
      expect(Number(response.headers.get("retry-after"))).toBeGreaterThan(0)
      expect(counters.webhooks.get("scheduling")?.events.size).toBe(0)
    })
  }

  it.effect("when a commit takes longer than commitTimeout, for all that wait for it", function* () {
    const commit = new Promise<AppendExit>(() => {})
    let waiting = 0
    const { send, counters } = yield* start({
      append: () => {
        waiting += 1
        return commit
      },
    })
    const sends = Effect.all([send(delivery(envelope())), send(delivery(envelope()))], { concurrency: "unbounded" })
    const answers = yield* Effect.forkChild(sends, { startImmediately: true })
    while (waiting < 2) yield* Effect.promise(() => Promise.resolve())
    yield* TestClock.adjust("2900 millis")
    expect(answers.pollUnsafe()).toBeUndefined()
    expect(counters.bytesInFlight).toBeGreaterThan(0)
    yield* TestClock.adjust("100 millis")
    const responses = yield* Fiber.join(answers)
    expect(status(responses)).toEqual([503, 503])
    expect(counters.bytesInFlight).toBe(0)
    expect(counters.commits.counts.reduce((sum, count) => sum + count)).toBe(1)
  })

  it.effect(
    "when a later commit takes too long, too, although the one before it ended after its own time",
    function* () {
      const ends: Array<(exit: AppendExit) => void> = []
      const { send } = yield* start({ append: () => new Promise((resolve) => ends.push(resolve)) })
      const first = yield* Effect.forkChild(send(delivery(envelope())), { startImmediately: true })
      while (ends.length < 1) yield* Effect.promise(() => Promise.resolve())
      yield* TestClock.adjust("1 second")
      const second = yield* Effect.forkChild(send(delivery(envelope())), { startImmediately: true })
      while (ends.length < 2) yield* Effect.promise(() => Promise.resolve())
      yield* TestClock.adjust("2 seconds")
      expect((yield* Fiber.join(first)).status).toBe(503)
      ends[0]?.(Exit.succeed("appended"))
      yield* Effect.promise(() => Promise.resolve())
      expect(second.pollUnsafe()).toBeUndefined()
      yield* TestClock.adjust("1 second")
      expect((yield* Fiber.join(second)).status).toBe(503)
    },
  )

  it.effect("a commit in time gives all that wait for it one answer, and its duration is counted once", function* () {
    let settle = (_: AppendExit) => {}
    yield* TestClock.adjust("1 minute")
    const commit = new Promise<AppendExit>((resolve) => {
      settle = resolve
    })
    let waiting = 0
    const { send, counters } = yield* start({
      append: () => {
        waiting += 1
        return commit
      },
    })
    const sends = Effect.all(
      [1, 2, 3].map(() => send(delivery(envelope()))),
      { concurrency: "unbounded" },
    )
    const answers = yield* Effect.forkChild(sends, { startImmediately: true })
    while (waiting < 3) yield* Effect.promise(() => Promise.resolve())
    yield* TestClock.adjust("40 millis")
    settle(Exit.succeed("appended"))
    expect(status(yield* Fiber.join(answers))).toEqual([202, 202, 202])
    expect(counters.commits).toEqual({ counts: [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0], sum: 0.04 })
  })

  it.effect("when 64 MiB are in flight", function* () {
    const { send, counters } = yield* start()
    counters.bytesInFlight = 64 * 1024 * 1024
    for (const length of ["10", null]) {
      const response = yield* send(delivery("0123456789", { headers: { "content-length": length } }))
      expect(response.status).toBe(503)
      expect(response.headers.has("retry-after")).toBe(true)
    }
    expect(counters.bytesInFlight).toBe(64 * 1024 * 1024)
  })

  it.effect("when it drains, and the connection is closed; requests in progress end normally", function* () {
    let settle = (_: AppendExit) => {}
    const commit = new Promise<AppendExit>((resolve) => {
      settle = resolve
    })
    const { ingest, send } = yield* start({ append: () => commit })
    const first = yield* Effect.forkChild(send(delivery(envelope())), { startImmediately: true })
    yield* ingest.drain
    const refused = yield* send(delivery(envelope()))
    expect(refused.status).toBe(503)
    expect(refused.headers.get("connection")).toBe("close")
    expect(refused.headers.has("retry-after")).toBe(true)
    settle(Exit.succeed("appended"))
    expect((yield* Fiber.join(first)).status).toBe(202)
  })
})

describe("a bug", () => {
  it.effect("is answered by 500 with only a request id", function* () {
    const { ingest, counters } = yield* start({
      append: () => {
        throw new Error("the canary is in the cause")
      },
    })
    const guard = Guard.make(ingest.handle, () => {})
    const response = yield* Effect.promise(async () => guard.handle(delivery(envelope())))
    expect(response.status).toBe(500)
    const body = JSON.parse(yield* text(response))
    expect(body).toEqual({ status: 500, title: "Internal error", requestId: expect.any(String) })
    expect(counters.bytesInFlight).toBe(0)
  })
})

describe("a refusal", () => {
  const refused = Effect.fnUntraced(function* (request: Request, changes: Parameters<typeof webhook>[0] = {}) {
    const { ingest, send } = yield* start({ webhooks: [webhook(changes)] })
    const { requestId } = JSON.parse(yield* Effect.flatMap(send(request), text))
    const found = ingest.refusals.counted()
    expect(found).toMatchObject([{ count: 1, lastRequestId: requestId }])
    return found.flatMap(({ webhook, reason, details }) => [webhook, reason, ...details.map(({ detail }) => detail)])
  })

  const signed = (header: string | null) => delivery(envelope(), { headers: { "x-service-signature": header } })
  const digest = "0123456789ABCDEF".repeat(4)
  const expired = [{ name: "old", value: Redacted.make(secretValue), expires: 0 }]
  const cases: ReadonlyArray<readonly [Request, ReadonlyArray<string>, Parameters<typeof webhook>[0]?]> = [
    [signed(null), ["scheduling", "signatureMissing"]],
    [signed(`sha256=${digest}`), ["scheduling", "signatureMismatch"]],
    [signed(`sha256=${digest.toLowerCase()}`), ["scheduling", "signatureLowercase"]],
    [signed(`sha256=${digest}, sha256=${digest}`), ["scheduling", "signatureDoubled"]],
    [signed(`sha256=${digest}, sha256=${"1".repeat(64)}`), ["scheduling", "signatureSeveral"]],
    [signed("sha1=00"), ["scheduling", "signatureMalformed"]],
    [delivery(envelope()), ["scheduling", "signatureExpired"], { secrets: expired }],
    [delivery(envelope(), { path: "/nowhere?token=hush" }), ["", "unknownPath", "/nowhere"]],
    [delivery(envelope()), ["", "unknownWebhookId", "/hooks/scheduling"], { ids: ["wh_9"], strictId: true }],
    [delivery("", { method: "GET" }), ["scheduling", "method", "GET"]],
    [delivery(envelope(), { headers: { "content-type": "text/plain" } }), ["scheduling", "contentType"]],
    [delivery(envelope(), { headers: { "content-encoding": "gzip" } }), ["scheduling", "contentEncoding"]],
    [delivery("x".repeat(11)), ["scheduling", "tooLarge", "11 bytes"], { maxBody: 10 }],
    [delivery("x".repeat(11), { headers: { "content-length": null } }), ["scheduling", "tooLarge"], { maxBody: 10 }],
    [delivery(envelope("a.b")), ["scheduling", "unknownType", "a.b"], { unknownTypes: "reject" }],
    [delivery("no"), ["scheduling", "undecodable", "the body is not JSON"], { undecodable: "reject" }],
  ]
  for (const [request, expected, changes] of cases) {
    it.effect(`is noted with its request id: ${expected.join(" ")}`, function* () {
      expect(yield* refused(request, changes)).toEqual([...expected])
    })
  }

  it.effect("before ingest has its request id in the log, too", () => {
    const { lines, layer } = captured()
    return Effect.gen(function* () {
      const { ingest } = yield* start()
      const guard = Guard.make(ingest.handle, () => {}, ingest.noteRefused)
      const response = yield* Effect.promise(async () => guard.handle(delivery("", { headers: { host: "a b" } })))
      const { requestId } = JSON.parse(yield* text(response))
      expect(lines).toEqual([
        "a request to no webhook was refused with 400: the Host header is missing, doubled or malformed",
      ])
      expect(ingest.refusals.counted()).toMatchObject([{ reason: "badHost", lastRequestId: requestId }])
    }).pipe(Effect.provide(layer))
  })

  it.effect("that the runtime could not read is counted for each connection, and logged once", () => {
    const { lines, fields, layer } = captured()
    return Effect.gen(function* () {
      const { ingest } = yield* start()
      ingest.noteUnreadable(3)
      expect(lines).toEqual(["connections ended without a request that is HTTP/1"])
      expect(fields).toEqual([{ count: 3, reason: "unreadable" }])
      expect(ingest.refusals.counted()).toMatchObject([{ webhook: "", reason: "unreadable", count: 3 }])
      expect(ingest.counters.webhooks.get("")?.answers).toEqual(new Map([[400, 3]]))
    }).pipe(Effect.provide(layer))
  })

  it.effect("doesn't delay an accepted delivery", function* () {
    const { ingest, send } = yield* start()
    expect((yield* send(delivery(envelope()))).status).toBe(202)
    expect([ingest.refusals.total(), ingest.refusals.counted()]).toEqual([0, []])
  })
})

const captured = () => {
  const lines: Array<string> = []
  const fields: Array<Readonly<Record<string, unknown>>> = []
  const logger = Logger.make(({ message, fiber }) => {
    lines.push(String(message))
    fields.push(fiber.getRef(References.CurrentLogAnnotations))
  })
  return { lines, fields, layer: Logger.layer([logger]) }
}

describe("the log", () => {
  it.effect("names the reason of a refusal, in the same words for each of a kind", () => {
    const { lines, fields, layer } = captured()
    return Effect.gen(function* () {
      const { send } = yield* start()
      for (let n = 0; n < 2; n++) yield* send(delivery(envelope(), { secret: "whsec_other" }))
      const last = yield* send(delivery(envelope(), { path: "/nowhere" }))
      const { requestId } = JSON.parse(yield* text(last))
      expect(fields.at(-1)).toEqual({ status: 404, reason: "unknownPath", requestId })
      expect(lines).toEqual([
        "a request to the webhook scheduling was refused with 401: the signature does not match",
        "a request to the webhook scheduling was refused with 401: the signature does not match",
        "a request to no webhook was refused with 404: no webhook has this path",
      ])
    }).pipe(Effect.provide(layer))
  })

  it.effect("holds nothing of a request: no secret, no signature, no personal data", () => {
    const { lines, layer } = captured()
    return Effect.gen(function* () {
      const { send } = yield* start({ webhooks: [webhook({ ids: ["wh_known"] })] })
      const canary = "canary@example.org"
      const requests = [
        delivery(envelope("client.updated", { email: canary, first_name: canary })),
        delivery(canary),
        delivery(JSON.stringify({ id: [canary], data: canary })),
        delivery(envelope(`relay.${canary}`)),
        delivery(envelope(), { path: `/${canary}` }),
        delivery(envelope(), { headers: { "x-service-signature": canary } }),
        delivery(envelope(), { headers: { "x-service-webhook-id": canary } }),
        delivery(envelope(), { headers: { "content-type": canary } }),
        delivery(envelope(), { headers: { "content-encoding": canary } }),
      ]
      const answers = yield* Effect.forEach(requests, (request) => Effect.flatMap(send(request), text))
      expect(lines.length).toBeGreaterThanOrEqual(9)
      for (const line of [...lines, ...answers]) {
        expect(line).not.toContain("canary")
        expect(line).not.toContain(secretValue)
        expect(line).not.toContain("sha256=")
      }
    }).pipe(Effect.provide(layer))
  })
})

describe("what is counted", () => {
  it.effect("are answers by status, events by type, and types beyond a thousand together", function* () {
    const { send, counters } = yield* start()
    yield* send(delivery(envelope("client.created")))
    yield* send(delivery(envelope("client.created")))
    for (let n = 0; n < 1100; n++) yield* send(delivery(envelope(`made.up_${n}`)))
    yield* send(delivery(envelope(), { secret: "whsec_other" }))
    const counts = counters.webhooks.get("scheduling")
    expect(counts?.answers).toEqual(
      new Map([
        [202, 1102],
        [401, 1],
      ]),
    )
    expect(counts?.events.get("client.created")).toBe(2)
    expect(counts?.events.get("other")).toBe(101)
    expect(counts?.events.size).toBe(1001)
  })
})
