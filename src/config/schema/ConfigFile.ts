/**
 * The Effect Schema of `relay.config.json`.
 *
 * It is the only place of each key's description and default. The decoder, the JSON
 * Schema for editors and the reference are made from it. Sinks and the journal are not
 * decoded here: `Load.ts` decodes each by its type, because a union of all types would
 * report a small mistake with a useless message.
 */
import { Duration, Effect, Schema, SchemaTransformation } from "effect"
import { alertActions } from "../../event/Event.ts"
import * as Numbers from "../../event/Numbers.ts"
import { lengthOf } from "../../event/Quantities.ts"
import {
  anyHeaderName,
  asList,
  count,
  countOr,
  dailyHours,
  flag,
  grouping,
  headerName,
  oneOf,
  rateLimit,
  secret,
  Text,
  text,
  textOr,
  textOrShapeOr,
  textOrTexts,
} from "./Keys.ts"
import { limitKeys, senderKeys } from "./SenderKeys.ts"
import { httpUrlProblem, Units } from "./Units.ts"

// The schema of a route's `where`: conditions on fields of the envelope.

/** A number with any number of digits. In JSON Schema it is an ordinary number. */
const number = Schema.declare(Numbers.isNumber).annotate({
  shown: true,
  toCodecJson: () =>
    Schema.link<number | Numbers.Long>()(
      Schema.Finite,
      SchemaTransformation.transform<number | Numbers.Long, number>({
        decode: (value) => value,
        encode: (value) => Number(Numbers.textOf(value)),
      }),
    ),
})

const scalar = Schema.Union([Schema.String.annotate({ shown: true }), number, Schema.Boolean, Schema.Null]).annotate({
  expected: "text, a number, true, false or null",
})

const some = { message: "this list is empty, so the condition says nothing" }
const scalars = Schema.Array(scalar).check(Schema.isMinLength(1, some))

const tests = {
  oneOf: Schema.optionalKey(scalars.annotate({ description: "It equals any of these values" })),
  prefix: Schema.optionalKey(
    asList(
      Schema.Union([Text, Schema.Array(Text).check(Schema.isMinLength(1, some))]).annotate({
        description: "It is a text that begins with this, or with any of these",
        expected: "text, or a list of texts",
      }),
      Schema.String,
    ),
  ),
  exists: Schema.optionalKey(
    Schema.Boolean.annotate({ description: "`true`: the field exists, even if it is null; `false`: it does not" }),
  ),
}

const values = [asList(scalar, scalar), scalars] as const
const expected = "a value, a list of values, or an object of conditions"

const Not = Schema.Union([...values, Schema.Struct(tests)]).annotate({
  description: "None of this holds: a value, a list of values, or conditions; so it holds if the field is missing",
  expected,
})

/** A condition on a field: a list of values, or tests. Decodes to a `Condition`. */
export const FieldCondition = Schema.Union([
  ...values,
  Schema.Struct({ ...tests, not: Schema.optionalKey(Not) }),
]).annotate({ expected })

const Where = Schema.Record(Schema.String, FieldCondition).annotate({
  description:
    "JSON Pointers into the envelope, each with a value, a list of allowed values, or conditions that all hold; `jmespath` with an expression that holds",
})

/** Defaults that the rules also need, because they read the file before it is decoded. */
export const usual = {
  listen: "127.0.0.1:8080",
  adminListen: "127.0.0.1:9080",
  signature: "x-service-signature",
  webhookId: "x-service-webhook-id",
  idleTimeout: "60 seconds",
  commitTimeout: "3 seconds",
} as const

const Tls = Schema.Struct({
  certificate: text("PEM file of the certificate chain"),
  key: secret("PEM file of the private key, or the PEM text itself"),
}).annotate({ description: "Serve HTTPS with these files; without it the listener speaks HTTP" })

const Socket = Schema.Struct({
  mode: Units.mode.or("0660", "Its permissions: the right to write is the right to connect"),
  group: Schema.optionalKey(text("Name or number of its group; the relay's user must be a member, or root")),
}).annotate({ description: "Rights of the Unix socket at `listen`" })

/** The waits of a stop. `Load.ts` takes their defaults from the environment, if it has them. */
export const Drain = Schema.Struct({
  delay: Units.wait.or(
    "0 seconds",
    "How long a stop goes on accepting deliveries while `/readyz` is already false, so that a load balancer notices",
  ),
  refuse: Units.wait.or("2 seconds", "How long it then answers 503 with `Retry-After`, before the port closes"),
}).annotate({ description: "The waits of a stop by SIGTERM; Ctrl-C skips them" })

/** The rights of an admin token: `read` sees everything, and `operate` also makes changes. */
export const roles = ["read", "operate"] as const

const AdminToken = Schema.Struct({
  name: text("Who has this token: the audit log and refusals name it"),
  role: Schema.Literals(roles).annotate({
    description: "`read` may see everything, `operate` may also change it",
    shown: true,
  }),
  value: secret("The token itself: `file:PATH` or `${VAR}` keep it out of this file"),
}).annotate({ description: "One token", hidden: true })

/** The only part of the file that the command line reads to call a running relay. */
export const Admin = Schema.Struct({
  listen: Units.address.or(usual.adminListen, "Address of the admin API; `status`, `lanes`, `dlq` and `replay` use it"),
  token: Schema.optionalKey(
    secret(
      "Bearer token of the admin API, for all who use it; it or `admin.tokens` is required when the API listens beyond loopback",
    ),
  ),
  tokens: Schema.optionalKey(
    Schema.Array(AdminToken)
      .check(
        Schema.isMinLength(1, {
          expected: "at least one token",
          message: "without a token nobody can use the admin API: add one, or leave `tokens` out",
        }),
      )
      .annotate({ description: "Tokens with a name and a role, instead of `token`" }),
  ),
}).annotate({ description: "The admin API and its page: status, lanes, dead letters, replay, health and metrics" })

const isHttpUrl = Schema.makeFilter((url: string) => httpUrlProblem(url) ?? true, {
  expected: "an http:// or https:// URL",
  toJsonSchema: () => ({ pattern: "^[Hh][Tt][Tt][Pp][Ss]?://" }),
})

const secretHeaders = (description: string) =>
  Schema.Record(Schema.String, secret("A header"))
    .annotate({ description })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed({})))

const baseUrl = "the base URL: the relay adds /v1/traces and /v1/logs itself"
const isBaseUrl = Schema.makeFilter(
  (url: string) => {
    if (/\/v1\/(traces|logs|metrics)\/*$/.test(url)) return baseUrl
    return /[?#]/.test(url) ? `${baseUrl}, so it has no query; an API key belongs into "headers"` : true
  },
  { expected: baseUrl },
)

const Telemetry = Schema.Struct({
  otlp: Schema.optionalKey(
    Schema.Struct({
      url: Schema.RedactedFromValue(
        Schema.String.annotate({
          description: "The collector's base URL; `/v1/traces` and `/v1/logs` are added",
          examples: ["http://127.0.0.1:4318"],
        }).check(isHttpUrl, isBaseUrl),
      ),
      headers: secretHeaders("Headers of each export, such as an API key; never shown"),
      signals: Schema.NonEmptyArray(Schema.Literals(["traces", "logs"]))
        .annotate({
          description: 'The signals to export; `["traces"]` for a collector without logs, such as Jaeger',
          default: ["traces", "logs"],
        })
        .pipe(Schema.withDecodingDefaultKey(Effect.succeed(["traces", "logs"] as const))),
      sampleRate: Schema.Finite.check(
        Schema.isBetween({ minimum: 0, maximum: 1 }, { expected: "a number from 0 to 1" }),
      )
        .annotate({
          description: "The share of deliveries that begin a trace; a delivery with a trace decides for itself",
          default: 1,
        })
        .pipe(Schema.withDecodingDefaultKey(Effect.succeed(1))),
      serviceName: textOr("`service.name` of the exported data", "relay"),
      attributes: Schema.Record(Schema.String, Text)
        .annotate({
          description: "More of the resource's attributes",
          examples: [{ "deployment.environment.name": "production" }],
        })
        .pipe(Schema.withDecodingDefaultKey(Effect.succeed({}))),
    }).annotate({ description: "Traces and logs to an OpenTelemetry collector, by OTLP over HTTP" }),
  ),
}).annotate({ description: "Telemetry export (default: off)" })

const Secret = Schema.Struct({
  name: text("Name of this secret in logs and metrics; never the secret itself"),
  value: secret("The signing secret: `file:PATH` or `${VAR}` keep it out of this file"),
  expires: Schema.optionalKey(Units.time({ description: "From this time on it no longer verifies" })),
  // A secret may stand at the wrong key.
}).annotate({ description: "One signing secret", hidden: true })

/** Says what is wrong with a webhook's path, which must equal the path of a request's parsed URL. */
const pathProblem = (path: string): string | undefined => {
  if (/^https?:\/\/[^/]+\//i.test(path)) return "a path is the part of a URL after the host: it starts with `/`"
  if (!path.startsWith("/")) return "a path starts with `/`"
  if (/[\s?#]/.test(path)) return "a path has no spaces, no `?` and no `#`: a query is no part of it"
  if (path.includes("%")) {
    return "a path with `%` has several spellings, and only one would match: write it without"
  }
  if (path.includes("*")) return "a path has no patterns, so `*` would match itself alone: write the whole path"
  const odd = /[^A-Za-z0-9._~!$&'()+,;=:@/-]/.exec(path)
  if (odd !== null) {
    return "no request would match this: a path has letters, digits and `-._~!$&'()+,;=:@/`, and a URL percent-encodes everything else"
  }
  if (path.includes("//")) return "a path has no empty segment: `//` is one `/` to many a proxy; write `/`"
  if (/\/\.\.?(\/|$)/.test(path)) {
    return "no request would match this: segments `.` and `..` are resolved in a URL; write the path that they lead to"
  }
  return path.length > longestPath ? `a path has ${longestPath} characters at most` : undefined
}
const longestPath = 1_000

/** The maximum days. Adding up more would take long. */
const mostDays = 366

const SilentAfter = Schema.Union([
  Units.duration.required({ description: "Time without a delivery", examples: ["2 hours"] }),
  Schema.Struct({
    duration: Units.duration.required({ description: "Time without a delivery within the hours" }),
    ...dailyHours("The hours of each day that count; the rest of the day does not").fields,
  }).check(
    Schema.makeFilter(
      ({ duration, hours }) =>
        Duration.toMillis(duration) <= mostDays * lengthOf(hours) ||
        `the duration is longer than the hours of ${mostDays} days`,
      { expected: `a duration of at most the hours of ${mostDays} days` },
    ),
  ),
]).annotate({
  description: "Report the sender as silent after this time without a delivery (default: never)",
  expected: '"2 hours", or { "duration": "2 hours", "hours": "08:00-18:00", "timeZone": "Europe/Berlin" }',
})

const Webhook = Schema.Struct({
  id: Schema.optionalKey(
    textOrTexts("The webhook id, or several; the header is not signed, so it only selects the secrets"),
  ),
  path: Schema.String.annotate({
    description: "The path of the receiver URL",
    examples: ["/hooks/scheduling"],
    shown: true,
  }).check(
    Schema.makeFilter((path: string) => pathProblem(path) ?? true, {
      expected: "a path such as /hooks/scheduling",
      toJsonSchema: () => ({ pattern: "^/[^\\s?#]*$" }),
    }),
  ),
  secrets: Schema.Array(Secret).annotate({
    description:
      'Any that has not expired verifies, so a secret is rotated without a gap; empty with `"verify": "none"`',
  }),
  headers: Schema.Struct({
    signature: headerName("Carries the signature", usual.signature),
    webhookId: headerName("Carries the webhook id", usual.webhookId),
  })
    .annotate({ description: "Names of the sender's headers" })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed({}))),
  ...senderKeys,
  unknownTypes: oneOf(
    "Treatment of an event type outside of the catalogue",
    ["route", "quarantine", "reject"],
    "route",
  ),
  undecodable: oneOf("Treatment of a signed body that isn't an envelope", ["quarantine", "reject"], "quarantine"),
  respond: countOr("Status of an accepted delivery, if the sender wants another 2xx", 202, 200, 299),
  maxBody: Units.bytes.or("1 MiB", "A larger body gets a 413"),
  commitTimeout: Units.duration.or(usual.commitTimeout, "A delivery that is not on disk by then gets a 503"),
  silentAfter: Schema.optionalKey(SilentAfter),
  ...limitKeys,
  strictId: flag("Answer 404 to a webhook id that is not in `id`, instead of accepting it with a warning", false),
}).annotate({
  description: "One webhook of the sender",
  otherNames: [
    ["url endpoint address", "path", 'here it is called "path": the part of the URL after the host'],
    [
      "secret signing_secret token",
      "secrets",
      'here it is a list: "secrets": [{ "name": "now", "value": "file:PATH" }]',
    ],
    ["signature_header", "headers", 'it belongs in "headers": headers.signature'],
    ["method methods allowed_verbs", "", "deliveries come by POST alone: take this key out"],
    ["max_body_size body_limit", "maxBody"],
    ["status response_code", "respond"],
  ],
})

/** One route. `Load.ts` decodes each separately, because there may be thousands. */
export const Route = Schema.Struct({
  name: text("Name of this route in logs and `explain`"),
  match: textOrTexts("Patterns of event types: `*` within a segment, `**` over segments, `{a,b}` either"),
  except: textOrTexts("Patterns of event types that this route does not match").pipe(
    Schema.withDecodingDefaultKey(Effect.succeed([])),
  ),
  webhook: Schema.optionalKey(text("Only deliveries of this webhook")),
  within: Schema.optionalKey(
    dailyHours("The hours of each day in which the route applies").annotate({
      description: "Only events received within these hours; recoveries follow their failures at any hour",
    }),
  ),
  where: Where.pipe(Schema.withDecodingDefaultKey(Effect.succeed({}))),
  to: textOrTexts("The sinks"),
}).annotate({
  description: "Every route that matches applies; an event reaches a sink once",
  otherNames: [
    ["receiver receivers sink sinks target targets output outputs destination destinations", "to"],
    ["type types event events event_types pattern patterns", "match"],
    ["exclude excludes ignore not", "except"],
    ["matchers match_re condition conditions filter filters if when", "where"],
    ["source sources input inputs", "webhook"],
    [
      "hours time_zone schedule active_time_intervals",
      "within",
      'here it is "within": { "hours": "08:00-18:00", "timeZone": "Europe/Berlin" }',
    ],
    ["mute_time_intervals", "within", 'it names the hours in which the route applies: "within"'],
    ["continue", "", "every route that matches applies: take this key out"],
    ["routes children", "", "routes are not nested: write each into the list"],
    ["group_by group_wait group_interval repeat_interval", "", 'a sink collects events: its key is "digest"'],
  ],
})

const Retry = Schema.Struct({
  maxAge: Units.duration.or("72 hours", "How long to retry after the first attempt before dead-lettering"),
  maxAttempts: Schema.optionalKey(count("Maximum attempts before dead-lettering (default: unlimited)", 1, 1_000_000)),
  initial: Units.duration.or("1 second", "The first wait; each next one is twice as long, with jitter"),
  max: Units.duration.or("10 minutes", "The longest wait"),
}).annotate({ description: "When a failed event is tried again" })

/** The common `delivery`, and a sink's `delivery` merged over it. */
export const Delivery = Schema.Struct({
  timeout: Units.duration.or(
    "10 seconds",
    "How long one attempt may take. Sinks whose protocol needs more have a longer default",
  ),
  retry: Retry.pipe(Schema.withDecodingDefaultKey(Effect.succeed({}))),
  pauseAfter: countOr("Failures in a row, over three events or more, that pause the lane", 5, 1, 10_000),
  maxRetrying: countOr(
    "Maximum events waiting for a retry; at this limit the lane starts no others",
    10_000,
    1,
    10_000_000,
  ),
  maxDeadLetters: Units.bytes.or(
    "1 GiB",
    "Maximum size of the lane's dead letters, at most a quarter of `journal.maxSize`; beyond it the lane pauses, and drops nothing",
  ),
}).annotate({ description: "How events are delivered; a sink's own `delivery` overrides it key by key" })

/** Returns the path of a key of `delivery` that was written beside `delivery`. */
export const deliveryKey = (key: string): string | undefined => {
  const isOfRetry = Object.hasOwn(Retry.fields, key)
  if (!isOfRetry && !Object.hasOwn(Delivery.fields, key)) return undefined
  const place = isOfRetry ? "delivery.retry" : "delivery"
  return `it belongs in "${place}": ${place}.${key}`
}

const Quarantine = Schema.Struct({
  maxSize: Units.bytes.or(
    "1 GiB",
    "Maximum size of the quarantine. A webhook may use as much as it leaves free, so at most half; beyond that, its deliveries that can't be routed get a 503",
  ),
  maxShare: countOr("Size limit as a share of the journal's `maxSize`, in percent; the lower limit holds", 10, 1, 100),
  maxAge: Schema.optionalKey(
    Units.duration.required({
      description: "Maximum age; older deliveries are deleted (default: unlimited)",
      examples: ["30 days"],
    }),
  ),
}).annotate({
  description: "Deliveries that are signed but can't be routed; they never cost other deliveries a refusal",
})

const Clients = Schema.Struct({
  baseUrl: Schema.String.annotate({
    shown: true,
    description: "The API's base URL; `/v1/clients/ID` is added",
    examples: ["https://api.example.com"],
  }).check(isHttpUrl),
  headers: secretHeaders("Headers that authenticate the relay to the API, such as `authorization`; never shown"),
  timeout: Units.duration.or("3 seconds", "Timeout of a request, within the sink's own `delivery.timeout`"),
  concurrency: countOr("Maximum concurrent requests", 4, 1, 1_000),
  rateLimit: Schema.optionalKey(rateLimit("Maximum requests, from all callers together")),
  cache: Schema.Struct({
    lifetime: Units.duration.or("5 minutes", "How long details stay in memory"),
    entries: countOr("Maximum clients", 1_000, 1, 1_000_000),
  })
    .annotate({ description: "Details are kept in memory and nowhere else" })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed({}))),
  events: Schema.Record(Schema.String, Text)
    .annotate({
      description: "Location of the client's id: JSON Pointers, by patterns of event types; the first match applies",
      default: { "client.*": "/data/object/id" },
    })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed({ "client.*": "/data/object/id" }))),
}).annotate({ description: "The sender's API, for the personal data that deliveries leave out of client objects" })

/** The keys that every sink has, whatever its type. */
export const Lane = Schema.Struct({
  delivery: Delivery.pipe(Schema.withDecodingDefaultKey(Effect.succeed({}))),
  concurrency: Schema.optionalKey(count("Maximum batches in flight; the default depends on the type", 1, 1_000)),
  order: oneOf("`key`: events of one key in order of arrival; `none`: as fast as possible", ["none", "key"], "none"),
  key: textOrShapeOr(
    "Template of the key, over the envelope; `order` keeps the events of one key in order",
    "{{account_id}}",
  ),
  rateLimit: Schema.optionalKey(rateLimit('Maximum events: "100/second", or { "events": 100, "per": "1 second" }')),
  backlog: Schema.optionalKey(
    Schema.Struct({
      max: count("Maximum events waiting for this sink", 1, 1_000_000_000),
      whenFull: oneOf(
        "`refuse`: the receiver answers 503; `deadLetter`: the oldest become dead letters",
        ["refuse", "deadLetter"],
        "refuse",
      ),
    }).annotate({ description: "Limit of this sink's backlog; without it `journal.maxSize` is the limit" }),
  ),
  ...grouping,
  enrich: Schema.optionalKey(
    Schema.Literals(["deliver", "wait", "deadLetter"]).annotate({
      description:
        "Adds the client's details as `{{/client/email}}`; if there are none: `deliver` without, `wait` and try again, or `deadLetter`",
    }),
  ),
  renamedFrom: Schema.optionalKey(text("The sink's former name; it takes over the events pending there")),
}).annotate({
  otherNames: [
    [
      "inputs input sources from match filter filters events event_types types where",
      "",
      'a route decides what a sink gets: "routes": [{ "match": "**", "to": "…" }]',
    ],
    ["workers threads parallelism max_in_flight", "concurrency"],
    ["throttle", "rateLimit"],
    ["retries max_retries retry_attempts", "delivery", 'it belongs in "delivery.retry": delivery.retry.maxAttempts'],
    ["backoff", "delivery", 'it belongs in "delivery.retry": delivery.retry.initial'],
    ["timeout_ms timeout_seconds timeout_secs", "delivery", 'it belongs in "delivery": delivery.timeout'],
    [
      "group_by group_wait group_interval repeat_interval",
      "digest",
      '"digest" sends events together: { "by": […], "wait": "30 seconds" }',
    ],
    ["buffer queue", "", 'the journal is the buffer of every sink: take this key out; "backlog" is its limit'],
    ["healthcheck health_check healthchecks", "", "`relay validate` checks each sink: take this key out"],
    ["dead_letter_queue dead_letter dlq", "", "the journal keeps what fails for good: `relay dlq` lists it"],
    ["enabled disabled", "", "a sink that no route names gets nothing, and `relay lanes pause` stops one for a time"],
  ],
})

const Test = Schema.Struct({
  event: text("An event type"),
  webhook: Schema.optionalKey(text("The webhook that receives it (default: each of them)")),
  object: Schema.optionalKey(Schema.Json.annotate({ description: "`data.object` of the event" })),
  sample: Schema.optionalKey(
    text("File with an event's body, next to this file; without it the relay makes one, always the same"),
  ),
  at: Schema.optionalKey(
    Units.time({ description: "When it is received, for routes with `within` (default: 2026-01-15T12:00:00Z)" }),
  ),
  to: textOrTexts("The sinks it must reach, and no others"),
  action: Schema.optionalKey(
    Schema.Literals(alertActions).annotate({
      description:
        "The message in `payloads` (default: `trigger`): for a sink with `alert` also `update` or `reminder`; `resolve` for the recovery of the failure",
      shown: true,
    }),
  ),
  payloads: Schema.Record(Schema.String, Text)
    .annotate({
      description:
        "Golden files by sink, next to this file: the payload that it must be sent, without secrets; `relay test --update` writes them",
    })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed({}))),
}).annotate({ description: "A test that `relay test` runs" })

/** The whole file. `journal` and `sinks` are decoded by their types. */
export const ConfigFile = Schema.Struct({
  $schema: Schema.optionalKey(text("Location of this schema, for editors")),
  listen: Units.listenAddress.or(usual.listen, "Address or Unix socket that receives deliveries"),
  socket: Schema.optionalKey(Socket),
  probes: flag(
    "Answer `/readyz` and `/healthz` at `listen` too, for platforms that know one port; the reason is left out there",
    false,
  ),
  idleTimeout: Units.idle.or(usual.idleTimeout, "How long an idle connection to `listen` stays open under Bun"),
  maxHeaders: Schema.optionalKey(
    Units.headerBytes.required({
      description: "Bytes that the request line and headers of a request may have under Bun, at `admin.listen` too",
      default: "16 KiB",
      examples: ["32 KiB"],
    }),
  ),
  addressHeader: Schema.optionalKey(
    anyHeaderName(
      "Header in which the proxy in front gives the sender's address, for the log and `status`; its last address counts",
    ),
  ),
  tls: Schema.optionalKey(Tls),
  behindProxy: flag(
    "States that a proxy in front does TLS; the webhooks with `bearer` and `basic` need it or `tls`",
    false,
  ),
  drain: Drain.pipe(Schema.withDecodingDefaultKey(Effect.succeed({}))),
  admin: Admin.pipe(Schema.withDecodingDefaultKey(Effect.succeed({}))),
  telemetry: Telemetry.pipe(Schema.withDecodingDefaultKey(Effect.succeed({}))),
  clients: Schema.optionalKey(Clients),
  journal: Schema.Unknown.pipe(Schema.withDecodingDefaultKey(Effect.succeed({}))),
  webhooks: Schema.Record(Schema.String, Webhook).annotate({ description: "The sender's webhooks, by name" }),
  sinks: Schema.Record(Schema.String, Schema.Unknown).annotate({ description: "Destinations of events, by name" }),
  routes: Schema.Array(Route).annotate({ description: "The routes of events to sinks" }),
  delivery: Delivery.pipe(Schema.withDecodingDefaultKey(Effect.succeed({}))),
  quarantine: Quarantine.pipe(Schema.withDecodingDefaultKey(Effect.succeed({}))),
  tests: Schema.Array(Test)
    .annotate({ description: "Checked by `relay test`", default: [] })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed([]))),
}).annotate({
  title: "relay.config.json",
  description: "The relay's config: JSON, with comments and trailing commas",
  otherNames: [
    ["server bind address host port", "listen", 'here it is called "listen": "127.0.0.1:8080"'],
    ["receivers outputs output destinations sink", "sinks"],
    ["sources source inputs input webhook", "webhooks"],
    ["route", "routes"],
    ["api web", "admin"],
    ["storage database db data_dir", "journal"],
    ["retry retries max_attempts", "delivery", 'it belongs in "delivery.retry"'],
    ["timeout", "delivery", 'it belongs in "delivery": delivery.timeout'],
    ["metrics prometheus", "", "the admin API serves /metrics: take this key out"],
    ["log logging log_level logger", "", "flags say how to log: `relay run --log-level debug`"],
    ["templates template transforms pipeline", "", 'a sink says what it sends: see "format", "body" and "jmespath"'],
  ],
})

/** The decoded file with its defaults. Durations are `Duration`s, sizes bytes, times epoch milliseconds, and secrets `Redacted`. */
export type ConfigFile = typeof ConfigFile.Type
