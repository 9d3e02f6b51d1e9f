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
import { FetchHttpClient, HttpClient, HttpClientError, type HttpClientResponse } from "effect/http"
import { OtlpExporter, OtlpLogger, OtlpSerialization, OtlpTracer } from "effect/observability"
import type { Otlp } from "../config/Config.ts"
import * as HttpTransport from "../runtime/HttpTransport.ts"
import { type Keep, keeper, ownWords, spokenIn } from "../sinks/ServiceWords.ts"
import { limit } from "./Repeats.ts"
import * as Tracing from "./Tracing.ts"

const timeout = Duration.seconds(5)
const maxInFlight = 4
/** How long the last export may take when the relay stops. */
const shutdownTimeout = Duration.seconds(1)

const failure = (reason: HttpClientError.HttpClientErrorReason) =>
  Effect.fail(new HttpClientError.HttpClientError({ reason }))

type Signal = Otlp["signals"][number]

/** Why exports to a URL fail, by signal: each is logged when it begins and when it ends. */
const reporting = (origin: string) => {
  const failing = new Map<string, string>()
  return (signal: Signal, why: string): Effect.Effect<void> => {
    const before = failing.get(signal)
    if (before === why || (before === undefined && why === "")) return Effect.void
    if (why === "") failing.delete(signal)
    else failing.set(signal, why)
    return why === ""
      ? Effect.logInfo(`the collector at ${origin} accepts ${signal} again`)
      : Effect.logWarning(`the collector at ${origin} does not accept ${signal}, so they are dropped: ${why}`)
  }
}

/** The default port of OTLP over gRPC, which answers nothing that speaks HTTP/1. */
const grpcPort = "4317"

const whatToDo = (status: number, signal: Signal): string => {
  if (status === 404 || status === 405) {
    const other = signal === "traces" ? "logs" : "traces"
    return `: nothing accepts OTLP there; check "telemetry.otlp.url", or set "telemetry.otlp.signals": ["${other}"] if it takes no ${signal}`
  }
  if (status === 401 || status === 403) return ': check "telemetry.otlp.headers"'
  if (status === 415)
    return ": it takes no OTLP in JSON, which the relay sends; put an OpenTelemetry Collector in between"
  if (status >= 300 && status < 400) {
    return ': it redirects, and the relay sends its headers to no other address; put the final address into "telemetry.otlp.url"'
  }
  return ""
}

const whyOf = (error: unknown, port: string): string => {
  const reason = Predicate.hasProperty(error, "reason") ? error.reason : error
  if (reason instanceof HttpClientError.EncodeError) return "it does not keep up"
  const cause = Predicate.hasProperty(reason, "cause") ? reason.cause : undefined
  if (cause === undefined) return "it does not answer"
  const failure = HttpTransport.failureOf(cause)
  if (port === grpcPort && (failure === "reset" || failure === "no HTTP" || failure === "other")) {
    return `it does not answer HTTP; port ${grpcPort} is usually for gRPC, and OTLP over HTTP at 4318`
  }
  return HttpTransport.passing[failure] ?? "no TLS with it"
}

/** Returns the collector's words about spans or log records that it rejects in an answer of success; `undefined` if it rejects none. */
const rejectedIn = (body: string): string | undefined => {
  try {
    const { partialSuccess = {} } = JSON.parse(body) as { partialSuccess?: Readonly<Record<string, unknown>> }
    const count = Number(partialSuccess.rejectedSpans ?? partialSuccess.rejectedLogRecords ?? 0)
    const words = partialSuccess.errorMessage
    if (!(count > 0)) return undefined
    return typeof words === "string" ? words : ""
  } catch {
    // A collector may answer anything with 200, and most answer nothing.
    return undefined
  }
}

/** Reports each outcome, as the response has it or its absence. */
const reported = (url: string, keep: Keep) => {
  const { origin, port } = new URL(url)
  const report = reporting(origin)
  const signalOf = (asked: string): Signal => (asked.endsWith("/traces") ? "traces" : "logs")
  const said = (words: string): string => {
    const shown = ownWords(keep, words, [])
    return shown === "" ? "" : ` (${shown})`
  }
  const outcome = (signal: Signal, { status }: HttpClientResponse.HttpClientResponse, body: string): string => {
    if (status >= 300) return `it answers ${status}${said(spokenIn(body))}${whatToDo(status, signal)}`
    const rejected = rejectedIn(body)
    return rejected === undefined ? "" : `it rejects a part of them${said(rejected)}`
  }
  return Layer.effect(
    HttpClient.HttpClient,
    Effect.map(HttpClient.HttpClient, (client) =>
      HttpClient.transform(client, (effect, request) => {
        const signal = signalOf(request.url)
        const answered = (response: HttpClientResponse.HttpClientResponse) =>
          Effect.flatMap(
            Effect.orElseSucceed(response.text, () => ""),
            (body) => report(signal, outcome(signal, response, body)),
          )
        return Effect.tapError(Effect.tap(effect, answered), (error) => report(signal, whyOf(error, port)))
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
).pipe(
  Layer.provide(FetchHttpClient.layer),
  // A redirect would send the headers, such as an API key, to another server.
  Layer.provide(Layer.succeed(FetchHttpClient.RequestInit, { redirect: "manual" })),
)

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
  const options = (signal: Signal) => ({
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
  const { signals } = config
  return Layer.mergeAll(
    signals.includes("traces") ? traces : Layer.empty,
    signals.includes("logs") ? logs : Layer.empty,
  ).pipe(
    Layer.provide([
      OtlpExporter.layerFlusher,
      serialization,
      reported(Redacted.value(config.url), keeper(config)),
      ConfigProvider.layer(ConfigProvider.fromUnknown({})),
    ]),
  )
}
