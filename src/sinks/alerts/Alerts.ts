/**
 * What the alert services have in common: presets over the HTTP sink, each with
 * its own payload (`formats/alerts`) and its own reading of an answer.
 *
 * A batch is one alert: of one event, or of a digest.
 */
import { Effect, type Redacted, Schema } from "effect"
import { make } from "../http/Http.ts"
import type { Meaning } from "../http/HttpAnswer.ts"
import { HttpConfig } from "../http/HttpConfig.ts"
import { preview, type Service } from "../http/HttpRequest.ts"
import type { SinkType } from "../Sink.ts"
import * as Alert from "./Alert.ts"

const template = (description: string) => Schema.NonEmptyString.annotate({ description })

/** The keys of every alert service, beside its `url`. */
export const keys = {
  summary: Schema.optionalKey(
    template("The alert's one line; may hold placeholders. By default the failure in words, and the account"),
  ),
  objectId: template("Where the id of the event's object stands; shown where it is text or a number")
    .annotate({ default: "{{/data/object/id}}" })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed("{{/data/object/id}}"))),
  details: Schema.Record(Schema.String, Schema.String)
    .annotate({ description: "What else to show, by name; values hold placeholders. What they show leaves the relay" })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed({}))),
  resolve: Schema.Boolean.annotate({
    description: "Whether a recovery, such as `connected_account.reconnected`, says that its failure is over",
    default: false,
  }).pipe(Schema.withDecodingDefaultKey(Effect.succeed(false))),
  headers: HttpConfig.fields.headers,
  classify: HttpConfig.fields.classify,
  tls: HttpConfig.fields.tls,
}

const Keys = Schema.Struct(keys)

/** An alert service's config, whatever else it has. */
export type Config = typeof Keys.Type & { readonly url: Redacted.Redacted<string>; readonly dedupKey?: string }

/** What tells one alert service from another. */
export interface AlertService<C extends Config> {
  readonly type: string
  readonly config: Schema.Codec<C, unknown>
  /** What is sent, as JSON. */
  readonly payload: (alert: Alert.Alert, config: C) => object
  /** The config without what of it stands in a payload and must not be seen. */
  readonly mask?: (config: C) => C
  readonly meaning: Meaning
}

const http = ({ url, headers, classify, tls }: Config): HttpConfig => ({
  url,
  method: "POST",
  headers,
  format: "template",
  forward: { signature: "x-service-signature", webhookId: "x-service-webhook-id" },
  classify,
  ...(tls !== undefined && { tls }),
})

export const sinkType = <C extends Config>({ type, config, payload, mask, meaning }: AlertService<C>): SinkType<C> => {
  /** In a digest the events are one trouble by what they share. */
  const service = (config: C, group?: string): Service => {
    const dedupKey = config.dedupKey ?? group
    const alertOf = Alert.compile({ ...config, ...(dedupKey !== undefined && { dedupKey }) })
    return {
      meaning,
      body: {
        render: (entry, group) =>
          JSON.stringify(payload(alertOf(Alert.group(group ?? [entry], config.resolve)), config)),
      },
    }
  }
  return {
    type,
    config,
    // These services take a message a second or so: more at once would only be refused.
    concurrency: 1,
    composes: () => true,
    resolves: (config) => (config.resolve ? Alert.keyOf(config) : undefined),
    open: (_, config, group) => make(http(config), service(config, group)),
    preview: (config, batch, group) =>
      preview(http(config), batch, group, service(mask?.(config) ?? config, group).body),
  }
}
