/**
 * The schemas of a config's keys. Each carries the facts about its key that the
 * reference, the rules and the diagnostics need ({@link Traits}).
 */
import { Effect, Schema, SchemaTransformation } from "effect"
import type { Traits } from "./Traits.ts"
import { Units } from "./Units.ts"

/** Facts about a key that the reference shows beside its description. */
interface More extends Traits {
  readonly default?: string
  readonly examples?: ReadonlyArray<string>
}

const notEmpty = Schema.makeFilter((text: string) => text !== "" || "this can't be empty", {
  expected: "text in double quotes",
  toJsonSchema: () => ({ minLength: 1 }),
})

/** A text that isn't empty and that diagnostics may show. */
export const Text = Schema.String.check(notEmpty).annotate({ shown: true })

/** {@link Text} with its description. */
export const text = (description: string, more: More = {}) => Text.annotate({ description, shown: true, ...more })

/** A template, which is filled in for each event. */
export const template = (description: string, more: More = {}) => text(description, { template: true, ...more })

/** A JMESPath expression that makes a text or a body. */
export const Shape = Schema.Struct({
  jmespath: text("A JMESPath expression over the envelope"),
})

/** The body that a sink with `"format": "template"` makes of an event. */
export const bodyKey = (more: More & { readonly description?: string } = {}) =>
  Schema.optionalKey(
    Schema.Union([Shape, Schema.Json]).annotate({
      template: true,
      description:
        'For `format: template`: any JSON whose strings may hold placeholders, or `{ "jmespath": "…" }`, an expression that makes it',
      ...more,
    }),
  )
/** {@link bodyKey} of a sink without alerts. */
export const body = bodyKey()

/** Reports a `body` without its format, and the format without a `body`. */
export const bodyProblem = ({
  format,
  body,
}: {
  readonly format: string
  readonly body?: unknown
}): Schema.FilterIssue | undefined => {
  if (format === "template" && body === undefined) {
    return { path: ["body"], issue: '"format": "template" needs a "body" to fill in' }
  }
  if (format === "template" || body === undefined) return undefined
  return { path: ["body"], issue: `a "body" needs "format": "template": with "${format}" the event itself is sent` }
}

/** A template or an expression. */
const shapeable = Schema.Union([Text, Shape])
export const orExpression = { template: true, shown: true, expected: 'text, or { "jmespath": "…" }' }

/** {@link shapeable} with its description. */
export const textOrShape = (description: string, more: More = {}) =>
  shapeable.annotate({ description, ...orExpression, ...more })

/** A text with a default. */
export const textOr = (description: string, value: string, more: More = {}) =>
  text(description, { default: value, ...more }).pipe(Schema.withDecodingDefaultKey(Effect.succeed(value)))

/** {@link shapeable} with a default. */
export const textOrShapeOr = (description: string, value: string) =>
  shapeable
    .annotate({ description, default: value, ...orExpression })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed(value)))

export const templateOr = (description: string, value: string) => textOr(description, value, { template: true })

/** Patterns of event types; none by default. */
export const eventPatterns = (description: string, example: ReadonlyArray<string>) =>
  Schema.Array(Text)
    .annotate({ description, examples: [example], default: [], patterns: true })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed([])))

/** `true` or `false`, with a default. */
export const flag = (description: string, value: boolean) =>
  Schema.Boolean.annotate({ description, default: value }).pipe(Schema.withDecodingDefaultKey(Effect.succeed(value)))

/** A whole number within limits, both included. */
export const count = (description: string, minimum: number, maximum: number) => {
  const expected = `a whole number from ${minimum} to ${maximum}`
  return Schema.Number.check(
    Schema.isInt({ expected }).abort(),
    Schema.isBetween({ minimum, maximum }, { expected }),
  ).annotate({ description })
}

export const countOr = (description: string, value: number, minimum: number, maximum: number) =>
  count(description, minimum, maximum)
    .annotate({ default: value })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed(value)))

/** One of the given words, with a default. */
export const oneOf = <const L extends ReadonlyArray<string>>(
  description: string,
  literals: L,
  value: L[number],
): Schema.withDecodingDefaultKey<Schema.Literals<L>> => {
  const schema: Schema.Literals<L> = Schema.Literals(literals).annotate({ description, default: value, shown: true })
  return Schema.withDecodingDefaultKey<Schema.Literals<L>>(Effect.succeed(value))(schema)
}

/** A value that is never shown. An empty one is an error, because an unset variable must not disable a check. */
export const secret = (description: string) =>
  Schema.RedactedFromValue(
    Schema.String.annotate({ description, shown: false }).check(
      Schema.makeFilter(
        (value: string) => value.trim() !== "" || "a secret can't be empty: give the one that the other side has",
        {
          expected: "text in double quotes",
          toJsonSchema: () => ({ minLength: 1 }),
        },
      ),
    ),
  )

/** A token of HTTP (RFC 9110, section 5.6.2). */
export const headerNamePattern = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/u

const header = (doc: { readonly description: string; readonly default?: string }) =>
  Schema.String.annotate({ ...doc, shown: true }).check(
    Schema.isPattern(headerNamePattern, {
      message: "this is not a header name: letters, digits and dashes, without spaces or a colon",
    }),
  )

/** A header's name, without a default. */
export const anyHeaderName = (description: string) => header({ description })

/** A header's name. */
export const headerName = (description: string, value: string) =>
  header({ description, default: value }).pipe(Schema.withDecodingDefaultKey(Effect.succeed(value)))

/** A header's name whose default depends on other keys. */
export const optionalHeaderName = (description: string) => Schema.optionalKey(header({ description }))

/** Hours of each day in a time zone. `hours` describes them. */
export const dailyHours = (hours: string) =>
  Schema.Struct({
    hours: Units.hours({ description: hours }),
    timeZone: Units.timeZone({ description: "The time zone of the hours" }),
  })

// The keys that limit a sink's batches.

export const linger = Units.duration.or("20 millis", "How long a batch may wait to fill")

/** `events` describes `maxEvents`, whose default is `most`. */
export const batchFields = (events: string, most: number) => ({
  maxEvents: countOr(events, most, 1, 1_000),
  maxBytes: Units.bytes.or("512 KiB", "Maximum bytes of their bodies; a larger event is sent alone"),
  linger,
})

export const batch = (events: string, most: number) =>
  Schema.Struct(batchFields(events, most))
    .annotate({ description: "How batches fill" })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed({})))

/** A value or a list of values, decoded to a list. */
export const asList = <A>(written: Schema.Codec<A | ReadonlyArray<A>>, item: Schema.Codec<A>) =>
  written.pipe(
    Schema.decodeTo(
      Schema.Array(item),
      SchemaTransformation.transform<ReadonlyArray<A>, A | ReadonlyArray<A>>({
        decode: (value) => (Array.isArray(value) ? value : [value as A]),
        encode: (list) => list,
      }),
    ),
  )

/** A text or a list of texts, decoded to a list. */
export const textOrTexts = (description: string) =>
  asList(
    Schema.Union([Text, Schema.Array(Text)]).annotate({ description, expected: "text, or a list of texts" }),
    Schema.String,
  )

/** A number of events in a unit of time. */
export const rateLimit = (description: string) =>
  Schema.Union([
    Units.rate({ description: "Events per unit of time" }),
    Schema.Struct({
      events: count("Maximum events in that time", 1, 1_000_000_000),
      per: Units.duration.required({ description: "The unit of time" }),
    }),
  ]).annotate({ description, expected: '"100/second", or { "events": 100, "per": "1 second" }' })

/** The keys of every sink that make one message of several events. */
export const grouping = {
  digest: Schema.optionalKey(
    Schema.Struct({
      by: Schema.Array(Text)
        .check(
          Schema.isMinLength(1, {
            message: 'a digest is made of the events that have something in common, such as "type" and "account_id"',
          }),
        )
        .annotate({
          description: "Fields that its events have in common: fields such as `type`, or JSON Pointers",
          default: ["type", "account_id"],
        })
        .pipe(Schema.withDecodingDefaultKey(Effect.succeed(["type", "account_id"]))),
      wait: Units.duration.or("30 seconds", "How long to collect events after the first, before the digest is sent"),
      maxEvents: countOr("Maximum events; at this limit it is sent before the time is up", 1_000, 2, 10_000),
    }).annotate({
      description: "Events that belong together are sent as one message: for alert services and templates",
    }),
  ),
  alert: Schema.optionalKey(
    Schema.Struct({
      by: Schema.optionalKey(
        Schema.Array(Text)
          .check(Schema.isMinLength(1, { message: "an alert is of the failures that have something in common" }))
          .annotate({
            description:
              "Fields that its events have in common: fields such as `type`, or JSON Pointers. By default `dedupKey`, or the type with the account and the object",
          }),
      ),
      after: Schema.Struct({
        count: countOr("Failures within this time that make an alert", 1, 1, 1_000),
        within: Units.duration.or("10 minutes", "The time in which they must be received"),
      })
        .annotate({ description: "When failures become an alert; the failures before are only counted" })
        .pipe(Schema.withDecodingDefaultKey(Effect.succeed({}))),
      repeat: Schema.optionalKey(
        Units.duration.required({
          description: "How often to send a reminder while the alert lasts; without it none is sent",
        }),
      ),
      update: Schema.optionalKey(
        Units.duration.required({
          description:
            "How often a changed count is sent, to a sink that can change its messages: `http` with `update`, or `slack` with `token`",
          default: "1 minute",
        }),
      ),
      within: Schema.optionalKey(
        Schema.Struct({
          ...dailyHours("The hours of each day in which messages are sent").fields,
          outside: oneOf(
            "How the messages of the rest of the day are sent: each by itself (`later`), or together (`digest`)",
            ["later", "digest"],
            "later",
          ),
        }).annotate({
          description: "Quiet hours: the messages of the rest of the day are sent when these hours begin",
        }),
      ),
      inhibitedBy: Schema.optionalKey(
        Schema.Struct({
          match: Schema.Array(Text)
            .check(Schema.isMinLength(1, { message: "name the types of the failures that silence others" }))
            .annotate({
              description: "Patterns of event types, as in routes, of the failures that silence others while they fire",
              examples: [["connected_account.*_failed"]],
              patterns: true,
            }),
          by: Schema.Array(Text)
            .check(Schema.isMinLength(1, { message: "name the fields that both failures have in common" }))
            .annotate({ description: "Fields that both failures have in common", default: ["account_id"] })
            .pipe(Schema.withDecodingDefaultKey(Effect.succeed(["account_id"]))),
        }).annotate({
          description: "Failures that silence the others of this sink: these are counted in their alerts",
        }),
      ),
      resolveAfter: Units.duration.or("1 day", "An alert without a new failure for this time is over"),
    }).annotate({
      description: "Sends a message when an alert begins and when it is over, instead of one for each event",
    }),
  ),
}
