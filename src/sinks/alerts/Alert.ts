/**
 * The content of an alert, before a service's payload is made of it.
 *
 * **Guarantee.** Unless its options ask for more it holds no personal data: the
 * event's type, account, id and time, and the id of its object. The interface
 * shows no error code and no schema of the objects, so nothing else is known to
 * be harmless. The relay's own events hold neither secret nor payload, and are
 * shown whole.
 *
 * An alert tells of one event or of a group. What all samples of a group have in
 * common is listed once, what differs with each sample.
 */
import type { Entry } from "../../event/Entry.ts"
import { isRelayEvent } from "../../event/EventType.ts"
import { idempotencyKey } from "../../event/IdempotencyKey.ts"
import * as Numbers from "../../event/Numbers.ts"
import { asFailure, failureEndedBy } from "../../event/Recovery.ts"
import * as CloudEvents from "../../formats/CloudEvents.ts"
import * as Template from "../../formats/Template.ts"
import { clean, type Fact } from "./AlertText.ts"

export type Action = "trigger" | "resolve"

/** An alert is made of these. */
export interface Group {
  readonly action: Action
  /** Some of the events, at least one, oldest first. */
  readonly samples: ReadonlyArray<Entry>
  /** How many events there were. */
  readonly count: number
  /** When the first and the last event were received, in epoch milliseconds. */
  readonly first: number
  readonly last: number
  /** The group's own key; without one it is the last sample's. */
  readonly key?: string
}

/** Its texts are neither cut nor escaped: that depends on the service. */
export interface Alert {
  readonly action: Action
  /** Alerts of one key are one incident; a resolve ends it. */
  readonly key: string
  /** The event type and the account; empty unless all events have the same. */
  readonly type: string
  readonly account: string
  /** The webhook's name; `relay` for the relay's own events. */
  readonly webhook: string
  readonly summary: string
  /** The time of the last sample, ISO 8601. */
  readonly time: string
  readonly facts: ReadonlyArray<Fact>
  /** These details differ by event; empty for a single event. */
  readonly samples: ReadonlyArray<Fact>
}

/** Templates over an event. */
export interface Options {
  /** Whether a recovery has the key and the summary of the failure that it ends. */
  readonly resolve?: boolean
  /** The alert's one line; by default a sentence for each failure type, else the type, and the account. */
  readonly summary?: string
  /** The alert's key; by default the type with the object, or with the event where there is none. */
  readonly dedupKey?: string
  readonly objectId: string
  /** Further facts, by the name they are shown under. */
  readonly details: Readonly<Record<string, string>>
}

/** The failure types of the interface (section 6) and the relay's own events, in words. */
const summaries: Readonly<Record<string, string>> = {
  "appointment.meeting.cancel_failed": "A meeting could not be canceled with its provider",
  "appointment.meeting.create_failed": "A meeting could not be created with its provider",
  "appointment.meeting.replace_failed": "A meeting could not be replaced with its provider",
  "appointment.meeting.update_failed": "A meeting could not be updated with its provider",
  "connected_account.refresh_failed": "A calendar has lost its access and must be connected again",
  "relay.dead_letter": "The sink {{/data/object/sink}} has new dead letters",
  "relay.lane_paused": "The sink {{/data/object/sink}} does not deliver",
  "relay.lane_resumed": "The sink {{/data/object/sink}} no longer fails to deliver",
  "relay.sender_silent": "The sender of the webhook {{/data/object/webhook}} is silent",
  "relay.sender_resumed": "The sender of the webhook {{/data/object/webhook}} is no longer silent",
  "relay.journal_filling": "The relay's journal is {{/data/object/percent}} % full",
  "relay.journal_red": "The relay's journal is red: {{/data/object/problem}}",
  "relay.secret_expiring":
    "The secret {{/data/object/secret}} of the webhook {{/data/object/webhook}} expires at {{/data/object/expires_at}}",
  "relay.certificate_expiring":
    "The certificate {{/data/object/certificate}} ({{/data/object/subject}}) expires at {{/data/object/expires_at}}",
  "relay.certificate_expired":
    "The certificate {{/data/object/certificate}} ({{/data/object/subject}}) expired at {{/data/object/expires_at}}",
}
const usualSummary = "{{type}}"

/** The fields of the relay's own events that make their keys. */
const ownKey = ["sink", "webhook", "secret", "certificate"]

/** An id is a text or a number; any other value may hold more than an id. */
const idOf = (value: unknown): string =>
  typeof value === "string" || Numbers.isNumber(value) ? Template.toText(value) : ""

const fields = (value: unknown): Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null ? { ...value } : {}

const factsOf = (all: Readonly<Record<string, unknown>>): ReadonlyArray<Fact> =>
  Object.entries(all).flatMap(([name, value]) => {
    const shown = Template.toText(value)
    // Some services refuse blank values.
    return clean(shown.slice(0, 1_024)) === "" ? [] : [{ name, value: shown }]
  })

/** An alert says this about one event. */
interface Told {
  readonly summary: string
  readonly key: string
  /** Facts that the events of a group may have in common. */
  readonly facts: ReadonlyArray<Fact>
  /** Its id, if it has one. */
  readonly event: ReadonlyArray<Fact>
  readonly time: string
}

const teller = ({ resolve, summary, dedupKey, objectId, details }: Options): ((entry: Entry) => Told) => {
  // A single template, so that the body is decoded once.
  const template = (summary: string, own: boolean) =>
    Template.compileBody({ summary, objectId, details, own: own ? "{{/data/object}}" : null })
  const keyOf = dedupKey === undefined ? undefined : Template.compile(dedupKey, "key")
  const usual = template(summary ?? usualSummary, false)
  const special = new Map(
    Object.entries(summaries).map(([type, words]) => [type, template(summary ?? words, isRelayEvent(type))]),
  )
  return (entry) => {
    const { event } = entry
    const subject = resolve === true ? asFailure(event) : event
    const told = { ...entry, event: subject }
    const read = fields(Numbers.parse((special.get(subject.type) ?? usual).render(told)))
    const object = idOf(read.objectId)
    const own = fields(read.own)
    const time = CloudEvents.time(entry)
    const usualKey = isRelayEvent(event.type)
      ? [subject.type, ...ownKey.map((name) => Template.toText(own[name])).filter((value) => value !== "")]
      : [subject.type, event.accountId, object || idempotencyKey(entry)]
    return {
      summary: Template.toText(read.summary),
      key: keyOf?.render(told) || usualKey.map(Template.escapeKey).join("/"),
      facts: factsOf({ Type: event.type, Account: event.accountId, Object: object, ...own, ...fields(read.details) }),
      event: factsOf({ Event: event.id }),
      time,
    }
  }
}

const isIn = (facts: ReadonlyArray<Fact>, { name, value }: Fact): boolean =>
  facts.some((fact) => fact.name === name && fact.value === value)

/** The most samples of a group; services show fewer. */
const maxSamples = 50

/** The group of at least one event, oldest first. The last decides whether it is over. */
export const group = (entries: ReadonlyArray<Entry>, resolve = false): Group => {
  const last = entries.at(-1)
  return {
    action: resolve && last !== undefined && failureEndedBy(last.event.type) !== undefined ? "resolve" : "trigger",
    samples: Template.some(entries, maxSamples),
    count: entries.length,
    first: entries[0]?.event.receivedAt ?? 0,
    last: last?.event.receivedAt ?? 0,
  }
}

/** The template of the key that a failure and its recovery share. */
export const keyOf = ({ dedupKey, objectId }: Pick<Options, "dedupKey" | "objectId">): string =>
  dedupKey ?? `{{type}}/{{account_id}}/${objectId}`

const named = (facts: ReadonlyArray<Fact>, name: string): string =>
  facts.find((fact) => fact.name === name)?.value ?? ""

const words = (facts: ReadonlyArray<Fact>): string => facts.map(({ name, value }) => `${name} ${value}`).join(", ")

/** Compiles the options to a function that makes the alert of a group. */
export const compile = (options: Options): ((group: Group) => Alert) => {
  const tell = teller(options)
  return ({ action, samples, count, first, last, key }) => {
    const told = samples.map(tell)
    const latest = told.at(-1)
    const webhook = samples.at(-1)?.event.webhook
    if (latest === undefined || webhook === undefined) throw new Error("an alert is made of one event at least")
    const shared = latest.facts.filter((fact) => told.every(({ facts }) => isIn(facts, fact)))
    const [type, account] = [named(shared, "Type"), named(shared, "Account")]
    const summary = clean(latest.summary.slice(0, 4_096)) || type || "An event without an envelope"
    const about = options.summary === undefined && account !== "" ? ` (${account})` : ""
    const times = [
      { name: "Events", value: String(count) },
      { name: "First", value: new Date(first).toISOString() },
      { name: "Last", value: new Date(last).toISOString() },
    ]
    return {
      action,
      key: key ?? latest.key,
      type,
      account,
      webhook,
      summary: `${action === "resolve" ? "Resolved: " : ""}${count > 1 ? `${count} × ` : ""}${summary}${about}`,
      time: latest.time,
      facts: [...shared, ...(count > 1 ? times : [...latest.event, { name: "Time", value: latest.time }])],
      samples:
        count > 1
          ? told.map(({ facts, event, time }) => ({
              name: time,
              value: words([...facts.filter((fact) => !isIn(shared, fact)), ...event]) || "an event without an id",
            }))
          : [],
    }
  }
}
