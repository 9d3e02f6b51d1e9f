/**
 * Traces and logs to an OpenTelemetry collector, by OTLP over HTTP in JSON: as
 * protobuf the same spans take five times the CPU.
 *
 * **Promise.** A collector that is slow or gone costs the relay nothing but its
 * telemetry: at most four requests are under way, five seconds each; when one
 * fails for good, or a fifth is wanted, the exporter drops what it has and
 * rests for a minute.
 *
 * The relay's config is all that counts: variables such as OTEL_SERVICE_NAME
 * are not read, though a config may name them as `${OTEL_SERVICE_NAME}`.
 */
import { ConfigProvider, Duration, Effect, Layer, Logger, Redacted } from "effect"
import { FetchHttpClient, HttpClient, HttpClientError } from "effect/http"
import { OtlpExporter, OtlpLogger, OtlpSerialization, OtlpTracer } from "effect/observability"
import type { Otlp } from "../config/Config.ts"
import { limit } from "./Repeats.ts"
import * as Tracing from "./Tracing.ts"

const patience = Duration.seconds(5)
const maxUnderWay = 4
/** How long the last export may take when the relay stops. */
const shutdownTimeout = Duration.seconds(1)

/** No more requests than `maxUnderWay`, none for longer than `patience`. */
const bounded = Layer.effect(
  HttpClient.HttpClient,
  Effect.map(HttpClient.HttpClient, (client) => {
    let underWay = 0
    return HttpClient.transform(client, (effect, request) =>
      Effect.suspend(() => {
        if (underWay >= maxUnderWay) {
          const reason = new HttpClientError.EncodeError({ request, description: "the collector does not keep up" })
          return Effect.fail(new HttpClientError.HttpClientError({ reason }))
        }
        underWay += 1
        return Effect.timeoutOrElse(effect, {
          duration: patience,
          orElse: () =>
            Effect.fail(
              new HttpClientError.HttpClientError({
                reason: new HttpClientError.TransportError({ request, description: "no answer in time" }),
              }),
            ),
        }).pipe(
          Effect.ensuring(
            Effect.sync(() => {
              underWay -= 1
            }),
          ),
        )
      }),
    )
  }),
).pipe(Layer.provide(FetchHttpClient.layer))

export const layer = (config: Otlp, version: string) => {
  const options = (signal: "traces" | "logs") => ({
    url: `${Redacted.value(config.url).replace(/\/+$/, "")}/v1/${signal}`,
    headers: Object.fromEntries(Object.entries(config.headers).map(([name, value]) => [name, Redacted.value(value)])),
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
      OtlpSerialization.layerJson,
      bounded,
      ConfigProvider.layer(ConfigProvider.fromUnknown({})),
    ]),
  )
}
