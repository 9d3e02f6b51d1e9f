/**
 * What the alert services have in common: presets over the HTTP sink, each with
 * its own payload (`formats/alerts`) and its own reading of an answer.
 *
 * **Trap.** A lane sends an event at a time, so each is an alert of one.
 */
import { Effect, type Redacted, Schema } from "effect"
import * as Alert from "../formats/alerts/Alert.ts"
import * as Http from "./Http.ts"
import type { Meaning } from "./HttpAnswer.ts"
import type { SinkType } from "./Sink.ts"

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
  headers: Http.HttpConfig.fields.headers,
  classify: Http.HttpConfig.fields.classify,
  tls: Http.HttpConfig.fields.tls,
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

const http = ({ url, headers, classify, tls }: Config): Http.HttpConfig => ({
  url,
  method: "POST",
  headers,
  format: "template",
  forward: { signature: "x-service-signature", webhookId: "x-service-webhook-id" },
  classify,
  ...(tls !== undefined && { tls }),
})

export const sinkType = <C extends Config>({ type, config, payload, mask, meaning }: AlertService<C>): SinkType<C> => {
  const service = (config: C): Http.Service => {
    const alertOf = Alert.compile(config)
    return { meaning, body: { render: (entry) => JSON.stringify(payload(alertOf(Alert.one(entry)), config)) } }
  }
  return {
    type,
    config,
    // These services take a message a second or so: more at once would only be refused.
    concurrency: 1,
    open: (_, config) => Http.make(http(config), service(config)),
    preview: (config, batch) => Http.preview(http(config), batch, service(mask?.(config) ?? config).body),
  }
}
