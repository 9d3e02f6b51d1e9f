import { describe, expect } from "bun:test"
import { Duration, Effect, Fiber, Redacted } from "effect"
import { TestClock } from "effect/testing"
import type { ClientsConfig } from "../../src/config/Config.ts"
import * as Clients from "../../src/enrichment/Clients.ts"
import type { Entry } from "../../src/event/Event.ts"
import * as Template from "../../src/formats/Template.ts"
import { allSent, DeliveryRejected, type Sink, SinkError, SinkThrottled } from "../../src/sinks/Sink.ts"
import { it } from "../lib/effect.ts"
import { throttlings } from "../lib/throttlings.ts"
import { hour, settable } from "../lib/wallClock.ts"
import { type Handler, serve } from "../sinks/receiver.ts"
import { bytes, entry, envelope, reasonOf } from "../sinks/samples.ts"

const details = { first_name: "Ada", last_name: "Lovelace", email: "ada@example.com", phone: null }

const config = (baseUrl: string, more: Partial<ClientsConfig> = {}): ClientsConfig => ({
  baseUrl,
  headers: { authorization: Redacted.make("Bearer of-the-api") },
  timeout: Duration.seconds(3),
  concurrency: 4,
  cache: { lifetime: Duration.minutes(5), entries: 100 },
  events: { "client.*": "/data/object/id", "appointment.**": "/data/object/client_id" },
  ...more,
})

const about = (sequence: number, client: unknown, type = "appointment.created"): Entry => {
  const object = type.startsWith("client.") ? { id: client } : { id: `apt_${sequence}`, client_id: client }
  return entry(sequence, {
    type,
    body: bytes(JSON.stringify({ ...envelope(sequence), data: { type, object } })),
  })
}

const { render } = Template.compile("{{id}} {{/client/first_name}} {{/client/email}} {{/client/phone}}")

const quietly: Sink["send"] = () => Effect.succeed(allSent)

/**
 * A sink that requests client details from an API, the events sent to it, and the requests to the API. `send` decides
 * how a send ends.
 */
const asking = Effect.fnUntraced(function* (
  handler: Handler,
  without: Clients.WithoutDetails = "wait",
  more: Partial<ClientsConfig> = {},
  send = quietly,
) {
  const paths: Array<string> = []
  const { url } = yield* serve((request, response, raw) => {
    paths.push(`${request.headers.authorization ?? "nobody"} ${request.method} ${request.url}`)
    handler(request, response, raw)
  })
  const api = config(url, more)
  const sent: Array<string> = []
  const inner: Sink = {
    batch: { maxEvents: 1, maxBytes: 1_000 },
    send: (batch) =>
      Effect.suspend(() => {
        sent.push(...batch.map((entry) => render(entry)))
        return send(batch)
      }),
    check: Effect.void,
  }
  return { sink: Clients.enriched(inner, yield* Clients.make(api), api, without), sent, paths }
})

const answers =
  (status: number, body: unknown): Handler =>
  (_, response) =>
    response.writeHead(status).end(typeof body === "string" ? body : JSON.stringify(body))

describe("a sink that asks for client details", () => {
  it.live("gets them next to the envelope, from the API", function* () {
    const { sink, sent, paths } = yield* asking(answers(200, { id: "cl_1", ...details }))
    yield* sink.send([about(1, "cl_1")])
    expect(sent).toEqual(["evt_1 Ada ada@example.com "])
    expect(paths).toEqual(["Bearer of-the-api GET /v1/clients/cl_1"])
  })

  it.live("gets them in place of an existing value, however deep the rest is nested", function* () {
    const { sink, sent } = yield* asking(answers(200, { id: "cl_1", ...details }))
    const given = about(1, "cl_1")
    const nested = `${"[".repeat(100_000)}${"]".repeat(100_000)}`
    const text = Buffer.from(given.event.body).toString().replace(/}$/, `,"client":{"email":"eve"},"x":${nested}} \n`)
    yield* sink.send([{ ...given, event: { ...given.event, body: bytes(text) } }])
    expect(sent).toEqual(["evt_1 Ada ada@example.com "])
  })

  it.live("gets events without a client, or of another type, as they are and without a request", function* () {
    const { sink, sent, paths } = yield* asking(answers(200, details))
    for (const one of [about(1, null), about(2, 7), about(3, ""), about(4, "x", "block.created"), entry(5)]) {
      yield* sink.send([one])
    }
    expect(sent.length).toBe(5)
    expect(paths).toEqual([])
  })

  it.live(
    "requests a client once, however many events concern it at the same time or while it is cached",
    function* () {
      const { sink, paths } = yield* asking(answers(200, details))
      yield* Effect.forEach([1, 2, 3], (n) => sink.send([about(n, "cl_1")]), { concurrency: "unbounded" })
      yield* sink.send([about(4, "cl_1", "client.updated")])
      expect(paths.length).toBe(1)
    },
  )

  it.effect("leaves nothing of them in memory once their lifetime is over, asked for again or not", function* () {
    const { url } = yield* serve(answers(200, details))
    const clients = yield* Clients.make(config(url))
    for (const id of ["cl_1", "cl_2"]) yield* clients.get(id)
    yield* TestClock.adjust("4 minutes")
    expect(yield* clients.size).toBe(2)
    yield* TestClock.adjust("2 minutes")
    expect(yield* clients.size).toBe(0)
  })

  it.effect("keeps them for their lifetime and no longer if the wall clock is set", function* () {
    const { wall, withWall } = yield* settable
    yield* Effect.gen(function* () {
      const { url } = yield* serve(answers(200, details))
      const clients = yield* Clients.make(config(url))
      yield* clients.get("cl_1")
      wall.ahead = hour
      yield* TestClock.adjust("4 minutes")
      expect(yield* clients.size).toBe(1)
      wall.ahead = -hour
      yield* TestClock.adjust("2 minutes")
      expect(yield* clients.size).toBe(0)
    }).pipe(withWall)
  })

  it.live("looks up the first and the last events of a digest, and sends all of it", function* () {
    const { sink, sent, paths } = yield* asking(answers(200, details))
    yield* sink.send(Array.from({ length: 500 }, (_, index) => about(index, `cl_${index}`)))
    expect(sent.length).toBe(500)
    expect(paths.length).toBe(20)
  })

  it.live("requests no client by an id that is too long, and remembers none", function* () {
    const { sink, sent, paths } = yield* asking(answers(200, details))
    yield* sink.send([about(1, "c".repeat(257))])
    expect(sent.length).toBe(1)
    expect(paths).toEqual([])
  })

  it.live("never climbs out of the API's path by a client's id", function* () {
    const { sink, paths } = yield* asking(answers(404, ""))
    for (const id of ["../admin", "a/b?c#d", "%2e%2e", ".."]) yield* sink.send([about(1, id)])
    expect(paths.map((path) => path.split(" ").at(-1))).toEqual([
      "/v1/clients/..%2Fadmin",
      "/v1/clients/a%2Fb%3Fc%23d",
      "/v1/clients/%252e%252e",
      "/v1/clients/__",
    ])
  })
})

describe("what a receiver answers to client details", () => {
  const answer = Redacted.make("no: Ada Lovelace")
  const fails = Effect.fnUntraced(function* (reason: SinkError["reason"]) {
    const send: Sink["send"] = () => Effect.fail(new SinkError({ reason }))
    const { sink } = yield* asking(answers(200, details), "wait", {}, send)
    return yield* reasonOf(sink.send([about(1, "cl_1")]))
  })

  it.live("is not kept, but the rest of the failure is", function* () {
    expect(yield* fails(new SinkThrottled({ message: "wait", retryAfter: 7_000, answer }))).toEqual(
      new SinkThrottled({ message: "wait", retryAfter: 7_000 }),
    )
    expect(yield* fails(new DeliveryRejected({ message: "never", answer }))).toEqual(
      new DeliveryRejected({ message: "never" }),
    )
  })

  it.live("is not kept for the one event of a batch that failed", function* () {
    const error = new SinkError({ reason: new DeliveryRejected({ message: "never", answer }) })
    const send: Sink["send"] = () => Effect.succeed(new Map([[1, error]]))
    const { sink } = yield* asking(answers(200, details), "wait", {}, send)
    const failures = yield* sink.send([about(1, "cl_1"), about(2, "cl_2")])
    expect(Array.from(failures, ([index, { reason }]) => [index, reason.message, reason.answer])).toEqual([
      [1, "never", undefined],
    ])
  })
})

/** Faults of an API. Messages must not show any of their content. */
const wrong: ReadonlyArray<readonly [name: string, handler: Handler]> = [
  ["fails", answers(500, "canary")],
  ["is overloaded", answers(429, "canary")],
  ["leads elsewhere", (_, response) => response.writeHead(302, { location: "http://127.0.0.1:1/canary" }).end()],
  ["answers no JSON", answers(200, "<html>canary</html>")],
  ["answers with another client", answers(200, { ...details, id: "canary" })],
  ["answers with an error and 200", answers(200, { error: "canary" })],
  ["answers with fields of another kind", answers(200, { id: "cl_1", email: { canary: 1 } })],
  ["answers without end", (_, response) => void response.writeHead(200).write("canary".repeat(100_000))],
  ["resets the connection", (_, __, raw) => raw.socket.destroy()],
]

describe("an API that", () => {
  for (const [name, handler] of wrong) {
    it.live(`${name} leaves the choice to the sink: deliver without, wait, or dead letter`, function* () {
      const outcomes: Array<string | undefined> = []
      for (const without of ["deliver", "wait", "deadLetter"] as const) {
        const { sink, sent } = yield* asking(handler, without)
        const reason = yield* reasonOf(sink.send([about(1, "cl_1")]))
        outcomes.push(reason?._tag)
        expect(sent.length).toBe(reason === undefined ? 1 : 0)
        expect(`${reason?.message} ${sent.join()}`).not.toContain("canary")
      }
      const waits = name === "is overloaded" ? "SinkThrottled" : "DeliveryFailed"
      expect(outcomes).toEqual([undefined, waits, "DeliveryRejected"])
    })
  }

  it.live("asks for a wait has the lane wait as long", function* () {
    for (const [status, headers, retryAfter] of throttlings) {
      const { sink } = yield* asking((_, response) => response.writeHead(status, headers).end(), "wait")
      expect(yield* reasonOf(sink.send([about(1, "cl_1")]))).toMatchObject({ _tag: "SinkThrottled", retryAfter })
    }
  })

  it.live("does not know a client is not waited for", function* () {
    const { sink, sent } = yield* asking(answers(404, ""), "wait")
    yield* sink.send([about(1, "cl_1")])
    expect(sent).toEqual(["evt_1   "])
  })

  it.live("refuses the relay's credentials pauses the lane, which shows the remedy", function* () {
    const { sink } = yield* asking(answers(401, ""), "wait")
    expect(yield* reasonOf(sink.send([about(1, "cl_1")]))).toMatchObject({
      _tag: "SinkMisconfigured",
      message: 'client details: the API answers 401; check "clients.headers"',
    })
  })

  it.live("is slow is given up after its time, and not asked again by the same attempt", function* () {
    const { sink, paths } = yield* asking(() => {}, "wait", { timeout: Duration.millis(20) })
    expect((yield* reasonOf(sink.send([about(1, "cl_1")])))?.message).toBe(
      "client details: the API did not answer within 20ms",
    )
    // On a busy machine the timeout may pass before the request arrives.
    expect(paths.length).toBeLessThanOrEqual(1)
  })

  it.live("lacks the details of one client costs a digest only the event of that client", function* () {
    const { sink, sent } = yield* asking((request, response, raw) => {
      const isKnown = !String(request.url).endsWith("cl_2")
      answers(isKnown ? 200 : 404, details)(request, response, raw)
    }, "deadLetter")
    const failures = yield* sink.send([about(1, "cl_1"), about(2, "cl_2"), about(3, "cl_3")])
    // The API is the cause. The target got no request, so such dead letters never count against it.
    expect(Array.from(failures)).toMatchObject([[1, { reason: { _tag: "DeliveryRejected", ofEvent: true } }]])
    expect(sent.map((text) => text.slice(0, 5))).toEqual(["evt_1", "evt_3"])
  })

  it.effect("allows one request a second gets requests only for waiting events", function* () {
    const rateLimit = { events: 1, per: Duration.seconds(1) }
    const { sink, sent } = yield* asking(answers(200, details), "wait", {
      rateLimit,
      timeout: Duration.millis(1_500),
    })
    const answered = (count: number) =>
      Effect.promise(async () => {
        while (sent.length < count) await Bun.sleep(1)
      })
    const first = yield* Effect.forkChild(
      Effect.forEach([1, 2, 3, 4], (n) => reasonOf(sink.send([about(n, `cl_${n}`)])), { concurrency: "unbounded" }),
      { startImmediately: true },
    )
    yield* answered(1)
    yield* TestClock.adjust("1 second")
    yield* answered(2)
    yield* TestClock.adjust("500 millis")
    expect((yield* Fiber.join(first)).filter((reason) => reason !== undefined)).toHaveLength(2)
    const next = yield* Effect.forkChild(sink.send([about(5, "cl_5")]), { startImmediately: true })
    yield* TestClock.adjust("500 millis")
    yield* Fiber.join(next)
    expect(sent).toHaveLength(3)
  })

  it.live("is slow doesn't delay a digest for longer than one event", function* () {
    const { sink, sent, paths } = yield* asking(() => {}, "deliver", {
      timeout: Duration.millis(20),
      concurrency: 1,
    })
    yield* sink.send(Array.from({ length: 20 }, (_, index) => about(index, `cl_${index}`)))
    expect(sent.length).toBe(20)
    // If each event waited in turn, details would be requested for all of them.
    expect(paths.length).toBeLessThan(20)
  })

  it.live("fails is requested again by the next attempt: only answers are remembered", function* () {
    let up = false
    const { sink, sent } = yield* asking((...args) => answers(up ? 200 : 500, details)(...args), "wait")
    expect((yield* reasonOf(sink.send([about(1, "cl_1")])))?._tag).toBe("DeliveryFailed")
    up = true
    yield* sink.send([about(1, "cl_1")])
    expect(sent).toEqual(["evt_1 Ada ada@example.com "])
  })

  it.live("never has more requests under way than it may", function* () {
    let underWay = 0
    let most = 0
    const { sink } = yield* asking(
      (_, response) => {
        underWay += 1
        most = Math.max(most, underWay)
        setTimeout(() => {
          underWay -= 1
          response.writeHead(200).end(JSON.stringify(details))
        }, 5)
      },
      "wait",
      { concurrency: 2 },
    )
    yield* Effect.forEach(
      Array.from({ length: 12 }, (_, n) => n),
      (n) => sink.send([about(n, `cl_${n}`)]),
      { concurrency: "unbounded" },
    )
    expect(most).toBe(2)
  })

  it.live("is interrupted if the lane gives up, and requested again by the next attempt", function* () {
    let stuck = true
    let begun = () => {}
    const hasBegun = new Promise<void>((resolve) => {
      begun = resolve
    })
    const { sink, sent } = yield* asking((_, response) => {
      begun()
      if (!stuck) response.writeHead(200).end(JSON.stringify(details))
    })
    const first = yield* Effect.forkChild(sink.send([about(1, "cl_1")]), { startImmediately: true })
    yield* Effect.promise(() => hasBegun)
    yield* Fiber.interrupt(first)
    stuck = false
    yield* sink.send([about(1, "cl_1")])
    expect(sent).toEqual(["evt_1 Ada ada@example.com "])
  })
})
