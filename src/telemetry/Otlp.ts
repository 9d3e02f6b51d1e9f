/**
 * Exports traces and logs to an OpenTelemetry collector, by OTLP over HTTP in JSON:
 * protobuf takes five times the CPU for the same spans.
 *
 * **Guarantee.** A collector that is slow or down affects only telemetry. At most
 * four requests are in flight, for up to five seconds each. When one fails for good,
 * or a fifth is needed, the exporter drops its data and pauses for a minute. The log
 * reports when exports begin to fail, the reason, and when they succeed again.
 *
 * **Gotcha.** Variables such as OTEL_SERVICE_NAME are not read, but the config may
 * refer to them as `${OTEL_SERVICE_NAME}`.
 */
import { ConfigProvider, Duration, Effect, Layer, Logger, Option, Predicate, Redacted, Semaphore } from "effect"
import { FetchHttpClient, HttpClient, HttpClientError } from "effect/http"
import { OtlpExporter, OtlpLogger, OtlpSerialization, OtlpTracer } from "effect/observability"
import type { Otlp } from "../config/Config.ts"
import * as HttpTransport from "../runtime/HttpTransport.ts"
import { limit } from "./Repeats.ts"
import * as Tracing from "./Tracing.ts"

const timeout = Duration.seconds(5)
const maxInFlight = 4
/** How long the last export may take when the relay stops. */
const shutdownTimeout = Duration.seconds(1)

const failure = (reason: HttpClientError.HttpClientErrorReason) =>
  Effect.fail(new HttpClientError.HttpClientError({ reason }))

/** Why exports to a URL fail, by signal: each is logged when it begins and when it ends. */
const reporting = (origin: string) => {
  const failing = new Map<string, string>()
  return (signal: string, why: string): Effect.Effect<void> => {
    const before = failing.get(signal)
    if (before === why || (before === undefined && why === "")) return Effect.void
    if (why === "") failing.delete(signal)
    else failing.set(signal, why)
    return why === ""
      ? Effect.logInfo(`the collector at ${origin} accepts ${signal} again`)
      : Effect.logWarning(`the collector at ${origin} does not accept ${signal}, so they are dropped: ${why}`)
  }
}

const whatToDo = (status: number): string => {
  if (status === 404 || status === 405) return ': nothing accepts OTLP there; check "telemetry.otlp.url"'
  if (status === 401 || status === 403) return ': check "telemetry.otlp.headers"'
  return ""
}

const whyOf = (error: unknown): string => {
  const reason = Predicate.hasProperty(error, "reason") ? error.reason : error
  if (reason instanceof HttpClientError.EncodeError) return "it does not keep up"
  const cause = Predicate.hasProperty(reason, "cause") ? reason.cause : undefined
  return cause === undefined
    ? "it does not answer"
    : (HttpTransport.passing[HttpTransport.failureOf(cause)] ?? "no TLS with it")
}

/** Reports each outcome, as the response has it or its absence. */
const reported = (url: string) => {
  const report = reporting(new URL(url).origin)
  const signalOf = (asked: string) => (asked.endsWith("/traces") ? "traces" : "logs")
  return Layer.effect(
    HttpClient.HttpClient,
    Effect.map(HttpClient.HttpClient, (client) =>
      HttpClient.transform(client, (effect, request) => {
        const signal = signalOf(request.url)
        return Effect.tapError(
          Effect.tap(effect, ({ status }) =>
            report(signal, status < 400 ? "" : `it answers ${status}${whatToDo(status)}`),
          ),
          (error) => report(signal, whyOf(error)),
        )
      }),
    ),
  ).pipe(Layer.provide(bounded))
}

/** At most `maxInFlight`, none for longer than `timeout`. */
const bounded = Layer.effect(
  HttpClient.HttpClient,
  Effect.map(HttpClient.HttpClient, (client) => {
    const slots = Semaphore.makeUnsafe(maxInFlight)
    return HttpClient.transform(client, (effect, request) =>
      Effect.timeoutOrElse(effect, {
        duration: timeout,
        orElse: () => failure(new HttpClientError.TransportError({ request, description: "no answer in time" })),
      }).pipe(
        slots.withPermitsIfAvailable(1),
        Effect.flatMap(
          Option.match({
            onSome: Effect.succeed,
            onNone: () =>
              failure(new HttpClientError.EncodeError({ request, description: "the collector does not keep up" })),
          }),
        ),
      ),
    )
  }),
).pipe(Layer.provide(FetchHttpClient.layer))

/** Without the number of the fiber that logged, which says nothing to anybody. */
const serialization = Layer.effect(
  OtlpSerialization.OtlpSerialization,
  Effect.map(OtlpSerialization.OtlpSerialization, (json) => ({
    ...json,
    logs: (data) => {
      for (const { logRecords } of data.resourceLogs.flatMap(({ scopeLogs }) => scopeLogs)) {
        for (const record of logRecords ?? []) {
          record.attributes = record.attributes.filter(({ key }) => key !== "effect.fiberId")
        }
      }
      return json.logs(data)
    },
  })),
).pipe(Layer.provide(OtlpSerialization.layerJson))

/** Exports traces and logs as the config says; `version` is the relay's. */
export const layer = (config: Otlp, version: string) => {
  const options = (signal: "traces" | "logs") => ({
    url: `${Redacted.value(config.url).replace(/\/+$/, "")}/v1/${signal}`,
    headers: {
      "user-agent": `relay/${version}`,
      ...Object.fromEntries(Object.entries(config.headers).map(([name, value]) => [name, Redacted.value(value)])),
    },
    resource: { serviceName: config.serviceName, serviceVersion: version, attributes: config.attributes },
    shutdownTimeout,
  })
  const traces = Layer.effect(
    Tracing.Tracing,
    Effect.flatMap(OtlpTracer.make(options("traces")), (tracer) => Tracing.make(tracer, config.sampleRate)),
  )
  const logs = Logger.layer([Effect.flatMap(OtlpLogger.make(options("logs")), limit)], { mergeWithExisting: true })
  return Layer.merge(traces, logs).pipe(
    Layer.provide([
      OtlpExporter.layerFlusher,
      serialization,
      reported(Redacted.value(config.url)),
      ConfigProvider.layer(ConfigProvider.fromUnknown({})),
    ]),
  )
}
