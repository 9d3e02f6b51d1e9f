/**
 * One trace from a delivery to each of its sinks: a server span for the delivery,
 * which continues the sender's trace if there is one, and a producer span for each
 * attempt to send the event. The event carries the context through the journal.
 *
 * **Guarantee.** Without traces in the config, which is the default, it costs
 * nothing. A delivery that is not sampled costs a header and a random number. No
 * attribute contains anything of a payload.
 *
 * Names and attributes follow the OpenTelemetry semantic conventions (`http.*`,
 * `messaging.*`, `cloudevents.*`, `error.type`).
 */
import { Cause, Clock, Context, Effect, Exit, Option, Random, Tracer } from "effect"
import type { Webhook } from "../config/Config.ts"
import type { Entry, Event } from "../event/Event.ts"
import { idempotencyKey } from "../event/IdempotencyKey.ts"
import * as TraceContext from "../event/TraceContext.ts"
import type { Failures, Sink, SinkError } from "../sinks/Sink.ts"
import { sinkTypes } from "../sinks/SinkTypes.ts"

/** A traced delivery. */
export interface Delivery {
  /** The context that its event carries. */
  readonly context: TraceContext.TraceContext
  readonly answered: (status: number, event?: Event) => void
}

/** Makes the spans of deliveries and attempts. */
export interface Tracing {
  /** The span of a verified delivery, from `receivedAt` in epoch milliseconds; `undefined` when it is not traced. */
  readonly delivery: (headers: Headers, webhook: Webhook, receivedAt: number) => Delivery | undefined
  /** A sink whose attempts are spans. */
  readonly traced: (sink: Sink, name: string, type: string) => Sink
}

/** Absent unless the config asks for traces. */
export const Tracing = Context.Reference<Tracing | undefined>("relay/telemetry/Tracing", {
  defaultValue: () => undefined,
})

/** A failure without a stack trace, which would only name code of relay. */
const failed = (type: string, message: string): Exit.Exit<never, Error> => {
  const error = new Error(message)
  error.name = type
  error.stack = `${type}: ${message}`
  return Exit.fail(error)
}

/** Why a whole attempt failed: the reason, a timeout, or a bug. */
const failureOf = (cause: Cause.Cause<SinkError>): { readonly _tag: string; readonly message: string } => {
  const error = Cause.findErrorOption(cause)
  if (Option.isSome(error)) return error.value.reason
  return Cause.hasInterruptsOnly(cause)
    ? { _tag: "timeout", message: "cut off: no answer in time, or the relay stopped" }
    : { _tag: "defect", message: "internal error" }
}

interface Begun {
  readonly span: Tracer.Span
  /** Nanoseconds since the epoch. */
  readonly startTime: bigint
  /** Monotonic nanoseconds at its start. */
  readonly from: bigint
}

/** `sampleRate`: the share of deliveries without a sender's trace that are traced. */
export const make = Effect.fnUntraced(function* (tracer: Tracer.Tracer, sampleRate: number) {
  const clock = yield* Clock.Clock
  const random = yield* Random.Random

  const begin = (
    name: string,
    kind: Tracer.SpanKind,
    parent: TraceContext.Span | undefined,
    startTime: bigint,
    attributes: Readonly<Record<string, unknown>>,
  ): Begun => {
    const span = tracer.span({
      name,
      parent: parent === undefined ? Option.none() : Option.some(Tracer.externalSpan(parent)),
      annotations: Context.empty(),
      links: [],
      startTime,
      kind,
      root: parent === undefined,
      sampled: true,
    })
    for (const [key, value] of Object.entries(attributes)) span.attribute(key, value)
    return { span, startTime, from: clock.monotonicTimeNanosUnsafe() }
  }
  const end = (
    { span, startTime, from }: Begun,
    failure?: { readonly _tag: string; readonly message: string },
  ): void => {
    if (failure !== undefined) span.attribute("error.type", failure._tag)
    span.end(
      startTime + clock.monotonicTimeNanosUnsafe() - from,
      failure === undefined ? Exit.void : failed(failure._tag, failure.message),
    )
  }

  const delivery: Tracing["delivery"] = (headers, webhook, receivedAt) => {
    const given = headers.get("traceparent")
    const parent = given === null ? undefined : TraceContext.spanOf(given)
    const state = parent === undefined ? undefined : TraceContext.stateOf(headers.get("tracestate"))
    if (parent !== undefined && !parent.sampled) {
      return { context: TraceContext.contextOf(parent, state), answered: () => {} }
    }
    if (parent === undefined && random.nextDoubleUnsafe() >= sampleRate) return undefined
    const begun = begin(`POST ${webhook.path}`, "server", parent, BigInt(receivedAt) * 1_000_000n, {
      "http.request.method": "POST",
      "http.route": webhook.path,
      "url.path": webhook.path,
      "relay.webhook": webhook.name,
    })
    return {
      context: TraceContext.contextOf(begun.span, state),
      answered: (status, event) => {
        const { span } = begun
        span.attribute("http.response.status_code", status)
        if (event !== undefined) {
          if (event.id !== "") span.attribute("cloudevents.event_id", event.id)
          if (event.type !== "") span.attribute("cloudevents.event_type", event.type)
        }
        // For a server span only 5xx is an error (semantic conventions, "HTTP spans").
        end(begun, status < 500 ? undefined : { _tag: String(status), message: `answered ${status}` })
      },
    }
  }

  const traced: Tracing["traced"] = (sink, name, type) => {
    const attempt = (entry: Entry, size: number): Begun | undefined => {
      const { trace, id, type: eventType, body } = entry.event
      const parent = trace === undefined ? undefined : TraceContext.spanOf(trace.traceparent)
      if (parent?.sampled !== true) return undefined
      return begin(`send ${name}`, "producer", parent, clock.currentTimeNanosUnsafe(), {
        "messaging.system": sinkTypes[type]?.messagingSystem ?? type,
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": name,
        "messaging.message.id": idempotencyKey(entry),
        "messaging.message.body.size": body.length,
        ...(size > 1 && { "messaging.batch.message_count": size }),
        ...(id !== "" && { "cloudevents.event_id": id }),
        ...(eventType !== "" && { "cloudevents.event_type": eventType }),
      })
    }
    return {
      // A getter: a sink that is opened later sets it later.
      get batch() {
        return sink.batch
      },
      check: sink.check,
      send: (batch) => {
        if (!batch.some(({ event }) => event.trace !== undefined)) return sink.send(batch)
        const spans = batch.map((entry) => attempt(entry, batch.length))
        const entries = batch.map((entry, index): Entry => {
          const begun = spans[index]
          if (begun === undefined) return entry
          const trace = TraceContext.contextOf(begun.span, entry.event.trace?.tracestate)
          return { ...entry, event: { ...entry.event, trace } }
        })
        return Effect.onExit(sink.send(entries), (exit: Exit.Exit<Failures, SinkError>) =>
          Effect.sync(() => {
            const whole = Exit.isFailure(exit) ? failureOf(exit.cause) : undefined
            const failures = Exit.isSuccess(exit) ? exit.value : undefined
            spans.forEach((begun, index) => {
              if (begun !== undefined) end(begun, whole ?? failures?.get(index)?.reason)
            })
          }),
        )
      },
    }
  }

  const tracing: Tracing = { delivery, traced }
  return tracing
})
