import { describe, expect } from "bun:test"
import { Effect, Fiber, Tracer } from "effect"
import type { Entry, Event } from "../../src/event/Event.ts"
import { DeliveryRejected, type Sink, SinkError, SinkUnavailable } from "../../src/sinks/Sink.ts"
import * as Tracing from "../../src/telemetry/Tracing.ts"
import { webhook } from "../ingest/fixture.ts"
import { event } from "../journal/samples.ts"
import { it } from "../lib/effect.ts"

const traceId = "0af7651916cd43dd8448eb211c80319c"
const sampled = { traceparent: `00-${traceId}-b7ad6b7169203331-01` }

const start = Effect.fnUntraced(function* (sampleRate = 1) {
  const spans: Array<Tracer.NativeSpan> = []
  const tracer = Tracer.make({
    span: (options) => {
      const span = new Tracer.NativeSpan(options)
      spans.push(span)
      return span
    },
  })
  return { spans, tracing: yield* Tracing.make(tracer, sampleRate) }
})

const entry = (sequence: number, more: Partial<Event> = {}): Entry => ({
  sequence,
  event: event(`evt_${sequence}`, more),
  sinks: ["lake"],
  replayed: false,
})

const sink = (send: Sink["send"]): Sink => ({ batch: { maxEvents: 10, maxBytes: 1_000 }, send, check: Effect.void })
const rejected = new SinkError({ reason: new DeliveryRejected({ message: "too large" }) })

const outcomes = (spans: ReadonlyArray<Tracer.NativeSpan>) =>
  spans.map(({ status, attributes }) => [
    status._tag === "Ended" ? status.exit._tag : status._tag,
    attributes.get("error.type"),
  ])

describe("a sink's attempts", () => {
  it.effect("are a span for each traced event of a batch, each with its outcome", function* () {
    const { spans, tracing } = yield* start()
    const sent: Array<Entry> = []
    const batch = [entry(1, { trace: sampled }), entry(2), entry(3, { trace: sampled })]
    const traced = tracing.traced(
      sink((entries) => {
        sent.push(...entries)
        return Effect.succeed(new Map([[2, rejected]]))
      }),
      "lake",
      "kafka",
    )
    yield* traced.send(batch)
    expect(outcomes(spans)).toEqual([
      ["Success", undefined],
      ["Failure", "DeliveryRejected"],
    ])
    expect(spans[0]?.attributes.get("messaging.system")).toBe("kafka")
    expect(spans[0]?.attributes.get("messaging.batch.message_count")).toBe(3)
    expect(sent[0]?.event.trace?.traceparent).toBe(`00-${traceId}-${spans[0]?.spanId}-01`)
    // Events without a trace are passed on unchanged, and the lane's own entries are not modified.
    expect(sent[1]).toBe(batch[1] as Entry)
    expect(batch[0]?.event.trace).toBe(sampled)
  })

  it.effect("fail together when the batch fails, and are cut off together", function* () {
    const { spans, tracing } = yield* start()
    const away = new SinkError({ reason: new SinkUnavailable({ message: "refused" }) })
    const batch = [entry(1, { trace: sampled }), entry(2, { trace: sampled })]
    yield* Effect.exit(
      tracing
        .traced(
          sink(() => Effect.fail(away)),
          "lake",
          "http",
        )
        .send(batch),
    )
    const hanging = tracing
      .traced(
        sink(() => Effect.never),
        "lake",
        "http",
      )
      .send(batch)
    yield* Fiber.interrupt(yield* Effect.forkChild(hanging, { startImmediately: true }))
    expect(outcomes(spans)).toEqual([
      ["Failure", "SinkUnavailable"],
      ["Failure", "SinkUnavailable"],
      ["Failure", "timeout"],
      ["Failure", "timeout"],
    ])
  })

  it.effect("of events without a trace reach the sink unchanged", function* () {
    const { spans, tracing } = yield* start()
    const batch = [entry(1), entry(2)]
    let got: unknown
    const plain = sink((entries) => {
      got = entries
      return Effect.succeed(new Map())
    })
    yield* tracing.traced(plain, "lake", "http").send(batch)
    expect(got).toBe(batch)
    expect(spans).toEqual([])
  })
})

describe("a delivery", () => {
  it.effect("without a trace begins one, for the share that the config names", function* () {
    const { tracing, spans } = yield* start(0.25)
    for (let n = 0; n < 4_000; n++) tracing.delivery(new Headers(), webhook(), 0)?.answered(202)
    expect(spans.length).toBeGreaterThan(800)
    expect(spans.length).toBeLessThan(1_200)
  })

  it.effect("is an error only when it is the relay's", function* () {
    const { tracing, spans } = yield* start()
    for (const status of [202, 422, 503]) tracing.delivery(new Headers(), webhook(), 0)?.answered(status)
    expect(outcomes(spans)).toEqual([
      ["Success", undefined],
      ["Success", undefined],
      ["Failure", "503"],
    ])
  })
})
