/** Deliveries of other senders than the scheduling service, over a journal in memory. */
import { describe, expect } from "bun:test"
import { Duration, Effect, Redacted } from "effect"
import { TestClock } from "effect/testing"
import type { Webhook } from "../../src/config/Config.ts"
import type { Event } from "../../src/event/Event.ts"
import { idempotencyKey } from "../../src/event/IdempotencyKey.ts"
import * as Jmespath from "../../src/formats/jmespath/Jmespath.ts"
import { type Sender, schemes, signedHeaders } from "../../src/routing/Foreign.ts"
import { it } from "../lib/effect.ts"
import { delivery, envelope, secretValue, start, webhook } from "./fixture.ts"

const utf8 = new TextEncoder()
const minute = 60_000

const senderOf = (name: keyof typeof schemes, types: ReadonlyArray<string> = []): Sender => ({
  scheme: schemes[name].verify,
  places: schemes[name].event,
  types,
})

const of = (name: keyof typeof schemes, changes: Partial<Webhook> = {}): Webhook =>
  webhook({ name, path: `/hooks/${name}`, sender: senderOf(name), ...changes })

/** A delivery to the webhook that `of` makes, signed in the sender's way. */
const sent = (
  name: keyof typeof schemes,
  body: string,
  headers: Readonly<Record<string, string>> = {},
  timestamp = 0,
): Request => {
  const signing = { id: "msg_1", timestamp: String(timestamp), body: utf8.encode(body) }
  const signed = signedHeaders(schemes[name].verify, secretValue, signing)
  return delivery(body, { path: `/hooks/${name}`, headers: { "x-service-signature": null, ...signed, ...headers } })
}

const invoice = (more: object = {}): string =>
  JSON.stringify({ id: "evt_1", type: "invoice.paid", account: "acct_9", created: 60, ...more })

describe("a delivery of another sender", () => {
  it.effect("is stored byte for byte with its facts, its headers and its sinks", function* () {
    const { send, entries } = yield* start({ webhooks: [of("stripe")] })
    const body = ` ${invoice()}\r\n`
    expect((yield* send(sent("stripe", body))).status).toBe(202)
    const [entry] = yield* entries
    expect(Buffer.from(entry?.event.body ?? []).toString()).toBe(body)
    const header = signedHeaders(schemes.stripe.verify, secretValue, {
      id: "",
      timestamp: "0",
      body: utf8.encode(body),
    })
    expect(entry?.event).toMatchObject({
      id: "evt_1",
      type: "invoice.paid",
      accountId: "acct_9",
      webhook: "stripe",
      secret: "main",
      signature: header["stripe-signature"],
      foreign: { createdAt: "1970-01-01T00:01:00.000Z", headers: header },
    })
    expect(entry?.sinks).toEqual(["lake"])
  })

  it.effect("is refused with another secret, body or time, with the reason", function* () {
    const { send, ingest } = yield* start({ webhooks: [of("stripe")] })
    const other = of("stripe", { secrets: [{ name: "main", value: Redacted.make("another") }] })
    const strict = yield* start({ webhooks: [other] })
    expect((yield* strict.send(sent("stripe", invoice()))).status).toBe(401)
    const again = sent("stripe", invoice())
    const encoded = delivery(`${invoice()} `, {
      path: "/hooks/stripe",
      headers: { "stripe-signature": again.headers.get("stripe-signature") },
    })
    expect((yield* send(encoded)).status).toBe(401)
    yield* TestClock.setTime(5 * minute)
    expect((yield* send(sent("stripe", invoice()))).status).toBe(202)
    yield* TestClock.setTime(5 * minute + 1)
    expect((yield* send(sent("stripe", invoice({ id: "evt_2" })))).status).toBe(401)
    const reasons = ingest.refusals.counted().map(({ reason }) => reason)
    expect(reasons.toSorted()).toEqual(["signatureMismatch", "signatureUntimely"])
  })

  it.effect("that comes again with a newer signature is a duplicate: answered 202, and stored once", function* () {
    const { send, entries } = yield* start({ webhooks: [of("stripe")] })
    for (const timestamp of [0, 30, 60]) {
      expect((yield* send(sent("stripe", invoice(), {}, timestamp))).status).toBe(202)
    }
    expect(yield* entries).toHaveLength(1)
  })

  it.effect("with the id of another sender's event is an event with an idempotency key of its own", function* () {
    const webhooks = [webhook(), of("stripe"), of("svix", { sender: { ...senderOf("stripe"), ...svixSigned } })]
    const { send, entries } = yield* start({ webhooks })
    const own = envelope()
    const { id } = JSON.parse(own) as { id: string }
    const requests = [delivery(own), sent("stripe", invoice({ id })), sent("svix", invoice({ id }))]
    for (const request of requests) expect((yield* send(request)).status).toBe(202)
    const stored = yield* entries
    expect(stored.map(({ event }) => event.id)).toEqual([id, id, id])
    expect(stored.map(idempotencyKey)).toEqual([id, `from:stripe:${id}`, `from:svix:${id}`])
  })

  it.effect("does not verify as the scheduling service's, nor the other way round", function* () {
    const { send } = yield* start({ webhooks: [webhook(), of("github")] })
    expect((yield* send(delivery(envelope(), { path: "/hooks/github" }))).status).toBe(401)
    const body = envelope()
    const signed = signedHeaders(schemes.github.verify, secretValue, { id: "", timestamp: "", body: utf8.encode(body) })
    const headers = { "x-service-signature": null, ...signed }
    expect((yield* send(delivery(body, { headers }))).status).toBe(401)
  })

  it.effect("that looks like an envelope is no event of the scheduling service", function* () {
    const { send, entries } = yield* start({ webhooks: [of("github")] })
    const body = envelope("client.created", { id: "cl_1", email: "ada@example.com" })
    const headers = { "x-github-event": "push", "x-github-delivery": "1" }
    expect((yield* send(sent("github", body, headers))).status).toBe(202)
    const [entry] = yield* entries
    expect(entry?.event).toMatchObject({ id: "1", type: "push", accountId: "" })
  })
})

const svixSigned = { scheme: schemes.svix.verify }

describe("a delivery of another sender goes to quarantine with the reason", () => {
  const quarantinedAs = Effect.fnUntraced(function* (body: string, given: Webhook = of("stripe")) {
    const { send, entries } = yield* start({ webhooks: [given] })
    const { status } = yield* send(sent("stripe", body))
    const [entry] = yield* entries
    return [status, entry?.sinks, entry?.event.problem]
  })

  it.effect("if it has no event type", function* () {
    const problem = "the delivery has no event type at /type"
    expect(yield* quarantinedAs(invoice({ type: "" }))).toEqual([202, ["_quarantine"], problem])
    expect(yield* quarantinedAs(invoice({ type: ["a"] }))).toEqual([202, ["_quarantine"], problem])
    expect(yield* quarantinedAs(invoice({ type: "" }), of("stripe", { undecodable: "reject" }))).toEqual([
      422,
      undefined,
      undefined,
    ])
  })

  it.effect("if it is not a JSON object", function* () {
    expect(yield* quarantinedAs("no JSON")).toEqual([202, ["_quarantine"], "the body is not JSON"])
    expect(yield* quarantinedAs("[1]")).toEqual([202, ["_quarantine"], "the JSON is not an object"])
  })

  it.effect("if a fact is too long", function* () {
    const problem = "id is longer than 256 bytes"
    expect(yield* quarantinedAs(invoice({ id: "e".repeat(257) }))).toEqual([202, ["_quarantine"], problem])
  })

  it.effect("if its type looks like the relay's own", function* () {
    const problem = "event types that begin with relay. are the relay's own"
    expect(yield* quarantinedAs(invoice({ type: "relay.dead_letter" }))).toEqual([202, ["_quarantine"], problem])
  })

  it.effect("if its type is not listed and `unknownTypes` is quarantine", function* () {
    const listed = { unknownTypes: "quarantine", sender: senderOf("stripe", ["invoice.paid"]) } as const
    expect(yield* quarantinedAs(invoice(), of("stripe", listed))).toEqual([202, ["lake"], undefined])
    const problem = "the event type is not in the catalogue"
    expect(yield* quarantinedAs(invoice({ type: "invoice.void" }), of("stripe", listed))).toEqual([
      202,
      ["_quarantine"],
      problem,
    ])
    const unlisted = { unknownTypes: "quarantine" } as const
    expect(yield* quarantinedAs(invoice({ type: "any" }), of("stripe", unlisted))).toEqual([202, ["lake"], undefined])
  })

  it.effect("and is routed from there by a config that reads it", function* () {
    const blind = of("stripe", { sender: { ...senderOf("stripe"), places: { id: "/id", type: ["/kind"] } } })
    const { send, entries, reload, ingest } = yield* start({ webhooks: [blind] })
    yield* send(sent("stripe", invoice()))
    const [entry] = yield* entries
    const kept = entry?.event as Event
    expect(ingest.reroute(kept).stays).toBe("the delivery has no event type at /kind")
    yield* reload([of("stripe")])
    expect(ingest.reroute(kept)).toMatchObject({ event: { id: "evt_1", type: "invoice.paid" }, sinks: ["lake"] })
    yield* reload([webhook({ name: "stripe" })])
    expect(ingest.reroute(kept).stays).toBe("its webhook has no `verify` any more")
  })
})

describe("a challenge of the sender", () => {
  const ask = JSON.stringify({ token: "t", challenge: '3e"<b>', type: "url_verification" })
  const token = Redacted.make("a-verify-token")
  const get = (query: string, path = "/hooks/meta") => new Request(`http://relay.example${path}?${query}`)
  const subscribe = "hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token="

  it.effect("in a signed delivery is answered as JSON, and is not an event", function* () {
    const { send, entries } = yield* start({ webhooks: [of("slack")] })
    const response = yield* send(sent("slack", ask))
    expect([response.status, response.headers.get("x-content-type-options")]).toEqual([200, "nosniff"])
    expect(response.headers.get("content-type")).toStartWith("application/json")
    expect(yield* Effect.promise(() => response.json())).toEqual({ challenge: '3e"<b>' })
    expect(yield* entries).toEqual([])
  })

  it.effect("is not answered without a valid signature", function* () {
    const { send, ingest } = yield* start({ webhooks: [of("slack")] })
    const unsigned = delivery(ask, { path: "/hooks/slack", headers: { "x-service-signature": null } })
    const other = sent("slack", ask)
    const forged = new Request(other.url, { method: "POST", headers: other.headers, body: ask.replace("3e", "4e") })
    expect([(yield* send(unsigned)).status, (yield* send(forged)).status]).toEqual([401, 401])
    const reasons = ingest.refusals.counted().map(({ reason }) => reason)
    expect(reasons.toSorted()).toEqual(["signatureMismatch", "signatureMissing"])
  })

  it.effect("in a GET is answered as text after its token, and is not an event", function* () {
    const { send, entries } = yield* start({ webhooks: [of("meta", { verifyToken: token })] })
    const response = yield* send(get(`${subscribe}a-verify-token`))
    expect([
      response.status,
      response.headers.get("content-type"),
      response.headers.get("x-content-type-options"),
    ]).toEqual([200, "text/plain; charset=utf-8", "nosniff"])
    expect(yield* Effect.promise(() => response.text())).toBe("1158201444")
    expect(yield* entries).toEqual([])
  })

  it.effect("in a GET is refused with another token, and without one in the config", function* () {
    const webhooks = [of("meta", { verifyToken: token }), of("github")]
    const { send, ingest } = yield* start({ webhooks })
    const refused = [get(`${subscribe}another`), get(subscribe), get(`${subscribe}a-verify-token`, "/hooks/github")]
    const answers = yield* Effect.forEach([...refused, get("")], send)
    expect(answers.map(({ status }) => status)).toEqual([403, 403, 405, 405])
    const texts = yield* Effect.forEach(answers, (response) => Effect.promise(() => response.text()))
    expect(texts.join("")).not.toContain("1158201444")
    const counted = ingest.refusals.counted().map(({ webhook, reason, count }) => `${webhook} ${reason} ${count}`)
    expect(counted.toSorted()).toEqual(["github method 1", "meta method 1", "meta verifyToken 2"])
  })
})

describe("a sender that signs nothing", () => {
  const unsigned = (credential: "bearer" | "none", changes: Partial<Webhook> = {}): Webhook =>
    webhook({
      name: credential,
      path: `/hooks/${credential}`,
      sender: { scheme: { credential }, places: { type: ["x-kind"], id: "x-id" }, types: [] },
      ...changes,
    })
  const kind = { "x-service-signature": null, "x-kind": "made", "x-id": "1" }

  it.effect("is accepted with its token, which is neither stored nor sent", function* () {
    const { send, entries } = yield* start({ webhooks: [unsigned("bearer")] })
    const post = (authorization: string) =>
      delivery("{}", { path: "/hooks/bearer", headers: { ...kind, authorization } })
    expect((yield* send(post("Bearer another"))).status).toBe(401)
    expect((yield* send(post(`Bearer ${secretValue}`))).status).toBe(202)
    const [entry] = yield* entries
    expect(entry?.event).toMatchObject({ id: "1", type: "made", secret: "main", signature: "" })
    expect(JSON.stringify(entry?.event)).not.toContain(secretValue)
  })

  it.effect("is accepted without any with none", function* () {
    const { send, entries } = yield* start({ webhooks: [unsigned("none", { secrets: [] })] })
    expect((yield* send(delivery("{}", { path: "/hooks/none", headers: kind }))).status).toBe(202)
    expect((yield* entries).map(({ event }) => [event.secret, event.signature])).toEqual([["", ""]])
  })
})

describe("a place that is an expression", () => {
  const path = "/hooks/none"
  const sender: Sender = { scheme: { credential: "none" }, places: { type: [{ jmespath: "kinds[0]" }] }, types: [] }

  it.effect("sends a delivery in which it fails or finds nothing to quarantine", function* () {
    yield* Jmespath.load
    const failing: Sender = { ...sender, places: { type: [{ jmespath: "sum(kinds)" }] } }
    for (const [one, body, problem] of [
      [sender, '{"kinds":[]}', "the delivery has no event type at kinds[0]"],
      [failing, '{"kinds":["a"]}', 'the expression at "event" (sum(kinds)) fails'],
    ] as const) {
      const { send, entries } = yield* start({ webhooks: [webhook({ name: "none", path, secrets: [], sender: one })] })
      expect((yield* send(delivery(body, { path }))).status).toBe(202)
      const [entry] = yield* entries
      expect(entry?.sinks).toEqual(["_quarantine"])
      expect(entry?.event.problem).toStartWith(problem)
    }
  })
})

describe("a gzip body", () => {
  const packed = (body: string | Uint8Array<ArrayBuffer>, request: Request): Request => {
    const headers = new Headers(request.headers)
    const bytes = Bun.gzipSync(body)
    headers.set("content-encoding", "gzip")
    headers.set("content-length", String(bytes.byteLength))
    return new Request(request.url, { method: "POST", headers, body: bytes })
  }
  const unpacking = of("stripe", { gzip: true, maxBody: 20_000 })

  it.effect("is verified, limited and stored unpacked", function* () {
    const { send, entries, counters } = yield* start({ webhooks: [unpacking] })
    const body = invoice({ text: "a".repeat(10_000) })
    expect((yield* send(packed(body, sent("stripe", body)))).status).toBe(202)
    expect((yield* entries).map(({ event }) => Buffer.from(event.body).toString())).toEqual([body])
    expect(counters.bytesInFlight).toBe(0)
  })

  it.effect("that unpacks to more than maxBody is refused, and little of it is unpacked", function* () {
    const { send, counters } = yield* start({ webhooks: [unpacking] })
    const bomb = packed(new Uint8Array(50_000_000), sent("stripe", invoice()))
    expect(Number(bomb.headers.get("content-length"))).toBeLessThan(50_000)
    const small = packed(new Uint8Array(20_001), sent("stripe", invoice()))
    const large = new Request(bomb, { headers: { ...Object.fromEntries(bomb.headers), "content-length": "20001" } })
    expect([(yield* send(small)).status, (yield* send(large)).status]).toEqual([413, 413])
    expect(counters.bytesInFlight).toBe(0)
  })

  it.effect("is refused if it is not gzip, signed by another, or for a webhook without `gzip`", function* () {
    const { send, ingest, counters } = yield* start({ webhooks: [unpacking, of("svix")] })
    const plain = sent("stripe", invoice(), { "content-encoding": "gzip" })
    const forged = packed(`${invoice()} `, sent("stripe", invoice()))
    const brotli = sent("stripe", invoice(), { "content-encoding": "br" })
    const other = packed(invoice(), sent("svix", invoice()))
    const statuses = yield* Effect.forEach([plain, forged, brotli, other], send)
    expect(statuses.map(({ status }) => status)).toEqual([400, 401, 415, 415])
    const reasons = ingest.refusals.counted().map(({ reason }) => reason)
    expect(reasons.toSorted()).toEqual(["contentEncoding", "contentEncoding", "notGzip", "signatureMismatch"])
    expect(counters.bytesInFlight).toBe(0)
  })
})

describe("a webhook with a rate limit", () => {
  const limited = of("stripe", { rateLimit: { events: 2, per: Duration.minutes(1) } })
  const numbered = (count: number) =>
    Array.from({ length: count }, (_, index) => sent("stripe", invoice({ id: `evt_${index}` })))

  it.effect("refuses further deliveries until the time in Retry-After has passed", function* () {
    const { send } = yield* start({ webhooks: [limited] })
    const answers = yield* Effect.forEach(numbered(3), send)
    expect(answers.map(({ status }) => status)).toEqual([202, 202, 429])
    const seconds = Number(answers[2]?.headers.get("retry-after"))
    expect(seconds).toBe(30)
    yield* TestClock.adjust(Duration.seconds(seconds - 1))
    expect((yield* send(sent("stripe", invoice()))).status).toBe(429)
    yield* TestClock.adjust(Duration.seconds(1))
    expect((yield* send(sent("stripe", invoice()))).status).toBe(202)
  })

  it.effect("counts verified deliveries alone, and leaves other webhooks unlimited", function* () {
    const { send } = yield* start({ webhooks: [limited, webhook()] })
    const forged = numbered(5).map((request) => new Request(request, { body: "{}", method: "POST" }))
    for (const request of forged) expect((yield* send(request)).status).toBe(401)
    const answers = yield* Effect.forEach(numbered(3), send)
    expect(answers.map(({ status }) => status)).toEqual([202, 202, 429])
    for (let count = 0; count < 5; count++) expect((yield* send(delivery(envelope()))).status).toBe(202)
  })
})

describe("a webhook with a share of the journal", () => {
  it.effect("is refused while the journal has more, and others are not", function* () {
    const size = { usedBytes: 0, maxBytes: 1_000 }
    const webhooks = [of("stripe", { journalShare: 95 }), webhook()]
    const { send } = yield* start({ webhooks, size })
    const answers = Effect.fnUntraced(function* (usedBytes: number) {
      size.usedBytes = usedBytes
      yield* TestClock.adjust(Duration.seconds(1))
      const { status, headers } = yield* send(sent("stripe", invoice({ id: `evt_${usedBytes}` }), {}, 0))
      return [status, headers.get("retry-after"), (yield* send(delivery(envelope()))).status]
    })
    expect(yield* answers(950)).toEqual([202, null, 202])
    expect(yield* answers(951)).toEqual([503, "30", 202])
    expect(yield* answers(900)).toEqual([202, null, 202])
  })
})
