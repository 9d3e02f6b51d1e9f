/**
 * Prometheus Alertmanager's API v2: an alert that fires until it is resolved.
 *
 * Alertmanager takes alerts with the same labels as one, and ends an alert at its `endsAt`. Its usual clients
 * repeat an alert while it lasts. The relay sends it once, so `endsAt` is far ahead. The limits of texts are ours.
 */
import { Duration, Effect, Schema } from "effect"
import type { Doubt } from "../../../config/schema/ConfiguredTypes.ts"
import { Units } from "../../../config/schema/Units.ts"
import * as Template from "../../../formats/Template.ts"
import type { Meaning } from "../../http/HttpAnswer.ts"
import { url } from "../../http/HttpUrl.ts"
import { type Alert, arrange, fit, keyOf, shortKey } from "../Alert.ts"
import { keys, otherNames, sinkType } from "../AlertService.ts"

const path = "/api/v2/alerts"

/** Names that begin with `__` are Alertmanager's own. */
const labelName = /^(?!__)[a-zA-Z_][a-zA-Z0-9_]*$/

const labelIssue =
  'a label\'s name has letters, digits and "_"; it begins neither with a digit nor with "__", and is not "key"'

const usualLabels = { alertname: "{{type}}", account: "{{account_id}}" }

export const AlertmanagerConfig = Schema.Struct({
  url: url({
    description: "Address of the API v2 of one Alertmanager",
    examples: [`http://127.0.0.1:9093${path}`],
  }),
  labels: Schema.Record(Schema.String, Schema.String.annotate({ template: true, shown: true }))
    .annotate({
      description: "Labels by name, beside `key`; values may hold placeholders. In a recovery they are its failure's",
      default: usualLabels,
      examples: [{ ...usualLabels, severity: "critical" }],
    })
    .check(
      Schema.makeFilter((labels: Readonly<Record<string, unknown>>) =>
        Object.keys(labels)
          .filter((name) => !labelName.test(name) || name === "key")
          .map((name) => ({ path: [name], issue: labelIssue })),
      ),
    )
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed(usualLabels))),
  resolveAfter: Units.duration.or("1 day", "When Alertmanager ends an alert that neither recovers nor fails again"),
  ...keys,
}).annotate({
  otherNames: [["resolve_timeout ends_after duration ttl", "resolveAfter"], ...otherNames],
})
export type AlertmanagerConfig = typeof AlertmanagerConfig.Type

/** The part of the config that a payload contains. */
type Options = Pick<AlertmanagerConfig, "resolveAfter">

const room = {
  facts: { facts: 100, name: 128, value: 8_192, total: 100_000 },
  samples: { facts: 50, name: 64, value: 1_024, total: 40_000 },
}

/** An alert ends this long before its recovery, in milliseconds: an end in the future by Alertmanager's clock has no effect. */
const clockDifference = 60_000

const iso = (millis: number): string => new Date(millis).toISOString()

export const payload = (alert: Alert, { resolveAfter }: Options, now: number): object => [
  {
    labels: {
      alertname: "relay",
      ...Object.fromEntries(
        Object.entries(alert.labels).flatMap(([name, value]) => {
          const text = fit(Template.toText(value), 1_024)
          return text === "" ? [] : [[name, text]]
        }),
      ),
      key: shortKey(alert.key),
    },
    annotations: {
      summary: fit(alert.summary, 1_024),
      description: [...arrange(alert.facts, room.facts), ...arrange(alert.samples, room.samples)]
        .map(({ name, value }) => `${name}: ${value}`)
        .join("\n"),
    },
    ...(alert.action === "trigger"
      ? { startsAt: iso(alert.first), endsAt: iso(Math.max(now, alert.last) + Duration.toMillis(resolveAfter)) }
      : { endsAt: iso(alert.last - clockDifference) }),
  },
]

/** Alertmanager answers 200, and 400 or 422 to an alert that it finds invalid. */
const meaning: Meaning = (status) => {
  if (status === 401 || status === 403) {
    return {
      verdict: "misconfigured",
      because: 'Alertmanager, or a proxy in front of it, does not let the relay in; check the credentials in "headers"',
    }
  }
  if (status === 404 || status === 405 || status === 410 || status === 415) {
    return { verdict: "misconfigured", because: `its API v2 is not there; "url" must end in ${path}` }
  }
  return status === 400 || status === 422
    ? { verdict: "reject", because: "Alertmanager refuses the alert as invalid" }
    : undefined
}

/** Reports whether all placeholders of a text are among the given names. */
const isMadeOf = (text: string, names: ReadonlyArray<string>): boolean =>
  Template.names(text).every((name) => names.includes(name))

/** Labels that differ between a failure and its recovery, which would then be two alerts. */
const doubts = ({ labels, objectId }: AlertmanagerConfig): ReadonlyArray<Doubt> => {
  const shared = [...Template.names(keyOf({ objectId })), "resource", "webhook"]
  return Object.entries(labels).flatMap(([name, text]) =>
    isMadeOf(text, shared)
      ? []
      : {
          path: ["labels", name],
          message:
            "alerts of other labels are other alerts, and this one may differ between a failure and its recovery",
          hint: `use ${shared.join(", ")}, or show it by "details"`,
        },
  )
}

const service = sinkType<AlertmanagerConfig>({ config: AlertmanagerConfig, payload, meaning, doubts, incidents: true })

export const Alertmanager: typeof service = {
  ...service,
  messages: {
    ...service.messages,
    // The events of a digest are one alert, so it has only the labels that they have in common.
    ofDigests: (config, key) => {
      const labels = Object.entries(config.labels).filter(([, text]) => isMadeOf(text, Template.names(key)))
      return { ...config, dedupKey: key, labels: Object.fromEntries(labels) }
    },
  },
}
