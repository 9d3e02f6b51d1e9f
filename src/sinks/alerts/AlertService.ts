/**
 * The code that alert services share. Each is the HTTP sink with its own payload and its own verdicts on answers. To
 * add one: a folder here with its code and `<service>.md`, its part of the reference, a line in `Sinks.ts`, and a test
 * that calls the contract (`test/sinks/alerts/alertContract.ts`). A batch becomes one alert, about one event or a
 * digest.
 */
import { Effect, Redacted, Schema, Struct } from "effect"
import { flag, template, templateOr } from "../../config/schema/Keys.ts"
import { type OtherNames, partOf, written } from "../../config/schema/Traits.ts"
import { make } from "../http/Http.ts"
import type { Meaning } from "../http/HttpAnswer.ts"
import { HttpConfig, otherUrls } from "../http/HttpConfig.ts"
import { type Conversation, preview, type Service } from "../http/HttpRequest.ts"
import type { SinkType } from "../Sink.ts"
import { type Alert, compile, groupOf, keyOf, usualObjectId } from "./Alert.ts"

/** The keys of every alert service, beside its `url`. */
export const keys = {
  summary: Schema.optionalKey(
    template("The alert's one line; may hold placeholders. By default the failure in words, and the account"),
  ),
  objectId: templateOr("Location of the id of the event's object; shown if it is text or a number", usualObjectId),
  details: Schema.Record(Schema.String, Schema.String.annotate({ template: true, shown: true }))
    .annotate({
      description: "Further details to show, by name; values hold placeholders. These values leave the relay",
    })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed({}))),
  resolve: flag("Whether a recovery, such as `connected_account.reconnected`, says that its failure is over", false),
  ...Struct.pick(HttpConfig.fields, ["headers", "classify", "keepAnswers", "tls"]),
}

/** Names that other programs give to the keys of alert services. */
export const otherNames: ReadonlyArray<OtherNames> = [
  otherUrls,
  ["url_file api_url_file webhook_url_file", "url", '"url": "file:PATH" reads it from a file'],
  ["send_resolved", "resolve"],
  ["title text message description", "summary"],
  ["fields custom_details custom_fields", "details"],
  ["channel username icon_emoji icon_url", "", "the service decides it by the URL: take this key out"],
]

const Keys = Schema.Struct(keys)

/** Every alert service's config has these. */
type Config = typeof Keys.Type & { readonly url?: Redacted.Redacted<string>; readonly dedupKey?: string }

/** An API that takes several requests for a message, below its own address. */
export interface Api extends Conversation, Pick<HttpConfig, "url" | "headers"> {}

/** Alert services differ in these. */
interface AlertService<C extends Config> {
  readonly config: Schema.Codec<C, unknown>
  /** The JSON that is sent. `now` is when the attempt is made, in epoch milliseconds. */
  payload(alert: Alert, config: C, now: number): object
  readonly meaning: Meaning
  readonly doubts?: SinkType<C>["doubts"]
  /** Set if the service keeps an incident for each key. */
  readonly incidents?: true
  /** The API that a config uses instead of one request to `url`. */
  api?(config: C): Api | undefined
}

const http = ({ url = Redacted.make(""), headers, classify, keepAnswers, tls }: Config, api?: Api): HttpConfig => ({
  url: api?.url ?? url,
  method: "POST",
  headers: { ...headers, ...api?.headers },
  format: "template",
  forward: { signature: "x-service-signature", webhookId: "x-service-webhook-id" },
  classify,
  keepAnswers,
  ...(tls !== undefined && { tls }),
})

/** Makes the type of sink of an alert service. */
export const sinkType = <C extends Config>({
  config,
  payload,
  meaning,
  doubts,
  incidents,
  api,
}: AlertService<C>): SinkType<C> => {
  const service = (config: C, api: Api | undefined): Service => {
    const alertOf = compile(config)
    return {
      meaning,
      ...(api !== undefined && { conversation: api }),
      secrets: config,
      alertOf: (entries) => alertOf(groupOf(entries, config.resolve)),
      body: (alert, now) => JSON.stringify(payload(alert, config, now)),
    }
  }
  return {
    config,
    ...(doubts !== undefined && { doubts }),
    // Alert services accept about one message a second.
    concurrency: 1,
    messages: {
      recoveries: {
        askedBy: "resolve",
        ...(partOf(written(config), "dedupKey") && { ownKey: "dedupKey" }),
        isOn: ({ resolve }) => resolve,
        key: keyOf,
      },
      ...(api !== undefined && { updates: (config) => api(config) !== undefined }),
      ...(incidents && { incidents: () => true }),
      // The events of a digest are one incident.
      ofDigests: (config, key) => ({ ...config, dedupKey: config.dedupKey ?? key }),
    },
    open: (config) => make(http(config, api?.(config)), service(config, api?.(config))),
    preview: (config, batch) => preview(http(config, api?.(config)), batch, service(config, api?.(config))),
  }
}
