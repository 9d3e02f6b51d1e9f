import { describe, expect, test } from "bun:test"
import { Effect, Result, Schema } from "effect"
import { Webhook } from "standardwebhooks"
import { Http } from "../../../src/sinks/http/Http.ts"
import { HttpConfig } from "../../../src/sinks/http/HttpConfig.ts"
import { inHalves } from "../../../src/sinks/http/HttpRequest.ts"
import { allSent, type Failures, rejected, type SinkError, unavailable } from "../../../src/sinks/Sink.ts"
import { it } from "../../lib/effect.ts"
import { seeded } from "../../lib/seeded.ts"
import { type Handler, type Received, serve } from "../receiver.ts"
import { entries, entry } from "../samples.ts"

type Written = typeof HttpConfig.Encoded

/** Sends batches to a receiver that answers by `handler`. Returns its requests and the last outcome. */
const sendTo = Effect.fnUntraced(function* (
  config: Partial<Written>,
  handler: Handler,
  ...batches: ReadonlyArray<ReturnType<typeof entries>>
) {
  const requests: Array<Received> = []
  const { url } = yield* serve((request, response, raw) => {
    requests.push(request)
    handler(request, response, raw)
  })
  const sink = yield* Http.open(Schema.decodeUnknownSync(HttpConfig)({ url, ...config }))
  let outcome: Result.Result<Failures, SinkError> = Result.succeed(allSent)
  for (const batch of batches) outcome = yield* Effect.result(sink.send(batch))
  return { requests, outcome }
})

const ok: Handler = (_, response) => response.writeHead(204).end()
const textOf = ({ body }: Received) => Buffer.from(body).toString()
const idsOf = (request: Received): ReadonlyArray<string> =>
  JSON.parse(textOf(request)).map(({ id }: { id: string }) => id)
/** Refuses requests that contain any of these events. */
const refusing =
  (bad: ReadonlyArray<string>, status = 400): Handler =>
  (request, response) =>
    response.writeHead(idsOf(request).some((id) => bad.includes(id)) ? status : 204).end("refused")

describe("a batch", () => {
  it.live("is one request, in the format of the config", function* () {
    const three = entries(3)
    const json = yield* sendTo({ format: "json" }, ok, three)
    expect(json.requests.map(({ headers }) => headers["content-type"])).toEqual(["application/json"])
    expect(JSON.parse(textOf(json.requests[0] as Received)).map(({ id }: { id: string }) => id)).toEqual([
      "evt_1",
      "evt_2",
      "evt_3",
    ])
    const lines = yield* sendTo({ format: "ndjson" }, ok, three)
    expect(lines.requests.map(({ headers }) => headers["content-type"])).toEqual(["application/x-ndjson"])
    expect(textOf(lines.requests[0] as Received)).toBe(
      three.map(({ event }) => `${Buffer.from(event.body)}\n`).join(""),
    )
    const events = yield* sendTo({ format: "cloudevents", mode: "batched" }, ok, three)
    expect(events.requests.map(({ headers }) => headers["content-type"])).toEqual([
      "application/cloudevents-batch+json; charset=utf-8",
    ])
    expect(JSON.parse(textOf(events.requests[0] as Received))).toEqual(
      three.map(({ event }) =>
        expect.objectContaining({ specversion: "1.0", id: event.id, data: JSON.parse(`${Buffer.from(event.body)}`) }),
      ),
    )
  })

  it.live("has one idempotency key, equal for the same events and for no others", function* () {
    const batches = [entries(3), entries(3), entries(2), [entry(1), entry(2), entry(4)], [entry(1)]]
    const { requests } = yield* sendTo({ format: "json" }, ok, ...batches)
    const keys = requests.map(({ headers }) => headers["idempotency-key"])
    expect(keys[0]).toBe(keys[1])
    expect(new Set(keys).size).toBe(4)
    expect(keys[4]).toBe("evt_1")
  })

  it.live("is signed as a whole", function* () {
    const secret = `whsec_${Buffer.alloc(32, 7).toString("base64")}`
    const sign = { scheme: "standardWebhooks", secret } as const
    const { requests } = yield* sendTo({ format: "ndjson", sign }, ok, entries(3))
    const { headers, body } = requests[0] as Received
    expect(() => new Webhook(secret).verify(Buffer.from(body), headers as Record<string, string>)).toThrow(
      // The library parses the verified body as JSON, and NDJSON is not JSON.
      SyntaxError,
    )
    expect(() => new Webhook(secret).verify(`${Buffer.from(body)} `, headers as Record<string, string>)).toThrow(
      /signature/i,
    )
  })

  it.live("that the receiver refuses affects only the events that it refuses alone", function* () {
    const { requests, outcome } = yield* sendTo({ format: "json" }, refusing(["evt_6"]), entries(8))
    expect(Result.isSuccess(outcome) && [...outcome.success.keys()]).toEqual([5])
    expect(requests.map(idsOf).map((ids) => ids.length)).toEqual([8, 4, 4, 2, 1, 1, 2])
    expect(new Set(requests.map(({ headers }) => headers["idempotency-key"])).size).toBe(7)
  })

  it.live("that the receiver refuses for its size arrives in parts", function* () {
    const small: Handler = (request, response) => response.writeHead(idsOf(request).length > 3 ? 413 : 204).end()
    const { requests, outcome } = yield* sendTo({ format: "json" }, small, entries(10))
    expect(outcome).toEqual(Result.succeed(new Map()))
    expect(
      requests
        .map(idsOf)
        .filter((ids) => ids.length <= 3)
        .flat(),
    ).toEqual(entries(10).map(({ event }) => event.id))
  })

  it.live("that fails for another reason is not split, because the receiver may be down", function* () {
    const { requests, outcome } = yield* sendTo({ format: "json" }, refusing(["evt_2"], 500), entries(4))
    expect(requests).toHaveLength(1)
    expect(Result.isFailure(outcome) && outcome.failure.reason._tag).toBe("DeliveryFailed")
  })
})

test("in halves each event that the receiver accepts arrives once and in order, whatever it refuses and whenever it is unavailable", async () => {
  for (let seed = 1; seed <= 500; seed++) {
    const random = seeded(seed)
    const size = 1 + Math.floor(random() * 40)
    const bad = new Set(entries(size).flatMap(({ sequence }) => (random() < 0.15 ? [sequence] : [])))
    const awayFrom = random() < 0.5 ? 1 + Math.floor(random() * 2 * size) : Number.POSITIVE_INFINITY
    const arrived: Array<number> = []
    let requests = 0
    const send = inHalves((batch) =>
      Effect.suspend(() => {
        requests += 1
        const sequences = batch.map(({ sequence }) => sequence)
        if (requests >= awayFrom) return Effect.fail(unavailable("away"))
        if (sequences.some((sequence) => bad.has(sequence))) return Effect.fail(rejected(`refused ${sequences}`))
        arrived.push(...sequences)
        return Effect.succeed(allSent)
      }),
    )
    const outcome = await Effect.runPromise(Effect.result(send(entries(size))))
    const whole = Result.isFailure(outcome) ? outcome.failure : undefined
    const failureOf = (sequence: number) => (Result.isSuccess(outcome) ? outcome.success.get(sequence - 1) : whole)
    const told = entries(size).filter(({ sequence }) => failureOf(sequence) === undefined)
    expect([seed, told.map(({ sequence }) => sequence)]).toEqual([seed, arrived])
    const refused = entries(size).filter(({ sequence }) => failureOf(sequence)?.reason._tag === "DeliveryRejected")
    expect([seed, refused.filter(({ sequence }) => !bad.has(sequence))]).toEqual([seed, []])
    expect(requests).toBeLessThanOrEqual(2 * size - 1)
    if (requests < awayFrom) expect([seed, refused.length]).toEqual([seed, bad.size])
    else expect([seed, requests]).toEqual([seed, awayFrom])
  }
})

test("config keys that don't go with a batch are refused", () => {
  const problemOf = (config: object): string => {
    const decoded = Schema.decodeUnknownExit(HttpConfig)({ url: "https://example.com/hooks", ...config })
    return String(decoded)
  }
  const batch = { maxEvents: 10 }
  expect(problemOf({ format: "json", batch })).toStartWith("Success")
  expect(problemOf({ format: "cloudevents", mode: "batched" })).toStartWith("Success")
  expect(problemOf({ batch })).toContain('a "batch" needs "format"')
  expect(problemOf({ format: "cloudevents", mode: "structured", batch })).toContain("batched")
  expect(problemOf({ format: "json", url: "https://example.com/{{id}}" })).toContain("several events")
  expect(problemOf({ format: "json", headers: { "x-id": "{{id}}" } })).toContain("several events")
  expect(problemOf({ format: "json", mode: "batched" })).toContain("mode")
})
