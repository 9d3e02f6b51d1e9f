/**
 * The content of an alert, before a service's payload is made of it.
 *
 * **Guarantee.** Unless its options add more, it holds no personal data: only the
 * event's type, account, id and time, and the id of its object. The interface shows
 * no error code and no schema of the objects, so nothing else is known to be
 * harmless. The relay's own events hold neither secret nor payload, and are shown
 * whole.
 *
 * An alert is about an event or a group of events. Facts that all samples of a group
 * share are listed once; the others are listed with each sample.
 */
import type { AlertNote, Entry } from "../../event/Event.ts"
import { asFailure, failureEndedBy, isRelayEvent } from "../../event/EventType.ts"
import { idempotencyKey } from "../../event/IdempotencyKey.ts"
import * as Numbers from "../../event/Numbers.ts"
import { hmacSha256 } from "../../event/Signature.ts"
import * as CloudEvents from "../../formats/CloudEvents.ts"
import * as Template from "../../formats/Template.ts"

// Texts for alert services: within a limit, and without control characters.
//
// **Gotcha.** A service's "characters" are code points or UTF-16 code units. Here
// code units after escaping are counted, which is the larger number. A text is
// cut between graphemes, and ends with an ellipsis.

/** Escapes one character for a service. Characters are escaped separately, so that no escape is cut in two. */
export type Escape = (text: string) => string

const asItIs: Escape = (text) => text

/** Control characters, line and paragraph separators, and marks that change the direction of text. */
const steering = /[\p{Cc}\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]+/gu

/** The text as one line, without control characters and lone surrogates. */
export const clean = (text: string): string => text.toWellFormed().replace(steering, " ").replace(/ {2,}/g, " ").trim()

const graphemes = new Intl.Segmenter("en", { granularity: "grapheme" })

/** Code units read beyond a limit: room for a grapheme, and for blanks that are dropped. */
const beyond = 256

/** A lone surrogate at the end of a slice. */
const halved = /[\ud800-\udbff]$/

const ellipsis = "…"

/** The text cleaned, escaped and cut to `limit` code units. The rest of a long text is not read. */
export const fit = (text: string, limit: number, harmless: Escape = asItIs): string => {
  const isWhole = text.length <= limit + beyond
  const near = clean(isWhole ? text : text.slice(0, limit + beyond).replace(halved, ""))
  if (isWhole && near.length <= limit) {
    const escaped = harmless(near)
    if (escaped.length <= limit) return escaped
  }
  const characters = Array.from(graphemes.segment(near), ({ segment }) => segment)
  // The last one may be incomplete.
  if (!isWhole) characters.pop()
  // A single grapheme that exceeds the limit is cut.
  return take(characters, limit, harmless) || take(near, limit, harmless)
}

/** Returns the characters that fit, with an ellipsis, or an empty text if none fits. */
const take = (characters: Iterable<string>, limit: number, harmless: Escape): string => {
  let out = ""
  for (const character of characters) {
    const escaped = harmless(character)
    if (out.length + escaped.length > limit - ellipsis.length) break
    out += escaped
  }
  return out === "" ? "" : `${out}${ellipsis}`
}

/** A name and a value, not yet cleaned, escaped or cut. */
export interface Fact {
  readonly name: string
  readonly value: string
}

/** A service's limits: the number of facts, and code units of each part and in total. */
interface Room {
  readonly facts: number
  readonly name: number
  readonly value: number
  readonly total: number
}

/** Code units reserved for the note that facts were left out. */
const note = 24

/** The facts that fit, in order. If some don't fit, an additional fact counts them. */
export const arrange = (facts: ReadonlyArray<Fact>, room: Room, harmless: Escape = asItIs): ReadonlyArray<Fact> => {
  const kept: Array<Fact> = []
  let left = room.total - note
  for (const [index, fact] of facts.entries()) {
    const name = fit(fact.name, room.name, harmless) || ellipsis
    const value = fit(fact.value, room.value, harmless) || ellipsis
    left -= name.length + value.length
    const isLast = index === facts.length - 1
    if (left < 0 || kept.length === room.facts - (isLast ? 0 : 1)) {
      return [...kept, { name: ellipsis, value: `${facts.length - index} more` }]
    }
    kept.push({ name, value })
  }
  return kept
}

export type Action = "trigger" | "update" | "resolve"

/** The state of an alert with a policy, as its message shows it. */
interface State extends Pick<AlertNote, "status" | "count"> {
  readonly reference: string | undefined
}

/** The events of an alert. */
export interface Group {
  readonly action: Action
  /** Whether it says again that the alert lasts. */
  readonly isReminder?: boolean
  /** Absent without a policy. */
  readonly state?: State
  /** Some of the events, at least one, oldest first. */
  readonly samples: ReadonlyArray<Entry>
  /** How many events there were. */
  readonly count: number
  /** When the first and the last event were received, in epoch milliseconds. */
  readonly first: number
  readonly last: number
  /** The group's own key (default: the key of the last sample). */
  readonly key?: string
}

/** An alert. Its texts are neither cut nor escaped, because that depends on the service. */
export interface Alert extends Pick<Group, "action" | "isReminder" | "state"> {
  /** Alerts with the same key are one incident, which a resolve ends. */
  readonly key: string
  /** The event type and the account; empty unless all events have the same. */
  readonly type: string
  readonly account: string
  /** The webhook's name; `relay` for the relay's own events. */
  readonly webhook: string
  /** The labels of the options, filled in with the last event. */
  readonly labels: Readonly<Record<string, unknown>>
  readonly summary: string
  /** The time of the last sample, ISO 8601. */
  readonly time: string
  /** When the first and the last event were received, in epoch milliseconds. */
  readonly first: number
  readonly last: number
  readonly facts: ReadonlyArray<Fact>
  /** The details that differ between the events. Empty for a single event. */
  readonly samples: ReadonlyArray<Fact>
}

/** Templates over an event. */
export interface Options {
  /** Whether a recovery has the key and the summary of the failure that it ends. */
  readonly resolve?: boolean
  /** The alert's one line. The default is a sentence for each failure type, or the type itself, and the account. */
  readonly summary?: string
  /** The alert's key. By default, the type with the object, or with the event if it has no object. */
  readonly dedupKey?: string
  readonly objectId: string
  /** Labels by their names. A recovery has the labels of its failure. */
  readonly labels?: Readonly<Record<string, string>>
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

/** The part of an alert about one event. */
interface Told {
  readonly summary: string
  readonly key: string
  readonly labels: Readonly<Record<string, unknown>>
  /** Facts that the events of a group may have in common. */
  readonly facts: ReadonlyArray<Fact>
  /** Its id, if it has one. */
  readonly event: ReadonlyArray<Fact>
  readonly time: string
}

const teller = ({ resolve, summary, dedupKey, objectId, labels, details }: Options): ((entry: Entry) => Told) => {
  // A single template, so that the body is decoded once.
  const template = (summary: string, own: boolean) =>
    Template.compileBody({ summary, objectId, labels, details, own: own ? "{{/data/object}}" : null })
  const keyOf = dedupKey === undefined ? undefined : Template.compile(dedupKey, "key")
  const usual = template(summary ?? usualSummary, false)
  const special = new Map(
    Object.entries(summaries).map(([type, words]) => [type, template(summary ?? words, isRelayEvent(type))]),
  )
  return (entry) => {
    const { event } = entry
    const subject = resolve === true ? asFailure(event) : event
    const about = { ...entry, event: subject }
    const read = fields(Numbers.parse((special.get(subject.type) ?? usual).render(about)))
    const object = idOf(read.objectId)
    const own = fields(read.own)
    const time = CloudEvents.time(entry)
    const usualKey = isRelayEvent(event.type)
      ? [subject.type, ...ownKey.map((name) => Template.toText(own[name])).filter((value) => value !== "")]
      : [subject.type, event.accountId, object || idempotencyKey(entry)]
    return {
      summary: Template.toText(read.summary),
      key: keyOf?.render(about) || usualKey.map(Template.escapeKey).join("/"),
      labels: fields(read.labels),
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

/** The action of events, oldest first. The last decides whether the failure is over. */
export const actionOf = (entries: ReadonlyArray<Entry>, resolve: boolean): Action => {
  const last = entries.at(-1)
  if (last?.alert !== undefined) return last.alert.action === "reminder" ? "trigger" : last.alert.action
  return resolve && last !== undefined && failureEndedBy(last.event.type) !== undefined ? "resolve" : "trigger"
}

/** The group of at least one event, oldest first. Of each alert it has the newest message. */
export const groupOf = (entries: ReadonlyArray<Entry>, resolve = false): Group => {
  const action = actionOf(entries, resolve)
  const shown = Template.newestOf(entries)
  const group = { action, samples: Template.some(shown, maxSamples), ...Template.extent(entries) }
  const notes = shown.flatMap(({ alert }) => alert ?? [])
  const [note] = notes
  if (note === undefined) return group
  const { key, status, count, reference } = note
  return {
    ...group,
    ...(notes.every(({ action }) => action === "reminder") && { isReminder: true }),
    ...(notes.length === 1 && { key, state: { status, count, reference } }),
  }
}

/** An HMAC under a key that everybody knows is a hash. */
const hash = hmacSha256("relay")

/** A key of 255 characters at most. A key that is too long, or that a service might trim or clean, is hashed, so different keys stay different. */
export const shortKey = (key: string): string =>
  key.length <= 255 && key !== "" && key === clean(key)
    ? key
    : `relay:${Buffer.from(hash(Buffer.from(key))).toString("hex")}`

/** The usual place of the id of an event's object. */
export const usualObjectId = "{{/data/object/id}}"

/** The template of the key that a failure and its recovery share. */
export const keyOf = ({ dedupKey, objectId }: Pick<Options, "dedupKey" | "objectId">): string =>
  dedupKey ?? `{{type}}/{{account_id}}/${objectId}`

const named = (facts: ReadonlyArray<Fact>, name: string): string =>
  facts.find((fact) => fact.name === name)?.value ?? ""

const words = (facts: ReadonlyArray<Fact>): string => facts.map(({ name, value }) => `${name} ${value}`).join(", ")

export const reminderPrefix = "Reminder: "

const prefixOf = ({ action, isReminder, state }: Group): string => {
  if (action === "resolve") return "Resolved: "
  if (isReminder === true) return reminderPrefix
  return state?.status === "acknowledged" ? "Acknowledged: " : ""
}

/** Compiles the options to a function that makes the alert of a group. */
export const compile = (options: Options): ((group: Group) => Alert) => {
  const tell = teller(options)
  return (group) => {
    const { action, isReminder, state, samples, count, first, last, key } = group
    const parts = samples.map(tell)
    const latest = parts.at(-1)
    const webhook = samples.at(-1)?.event.webhook
    if (latest === undefined || webhook === undefined) throw new Error("an alert is made of one event at least")
    const shared = latest.facts.filter((fact) => parts.every(({ facts }) => isIn(facts, fact)))
    const [type, account] = [named(shared, "Type"), named(shared, "Account")]
    const summary = clean(latest.summary.slice(0, 4_096)) || type || "An event without an envelope"
    const about = options.summary === undefined && account !== "" ? ` (${account})` : ""
    // A digest of several types must not look as if all events were like the last one.
    const amount = count === 1 ? "" : type === "" ? `${count} events, the last: ` : `${count} × `
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
      labels: latest.labels,
      ...(isReminder === true && { isReminder }),
      ...(state !== undefined && { state }),
      summary: `${prefixOf(group)}${amount}${summary}${about}`,
      time: latest.time,
      first,
      last,
      facts: [...shared, ...(count > 1 ? times : [...latest.event, { name: "Time", value: latest.time }])],
      samples:
        count > 1
          ? parts.map(({ facts, event, time }) => ({
              name: time,
              value: words([...facts.filter((fact) => !isIn(shared, fact)), ...event]) || "an event without an id",
            }))
          : [],
    }
  }
}
