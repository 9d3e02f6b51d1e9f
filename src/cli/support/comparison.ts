/**
 * Compares what two configs do with the same events: the sinks of each event, its payload at sinks whose shape
 * differs, and the number of alerts.
 *
 * **Guarantee.** It keeps no event. It keeps values of payloads only if `reveal` asks for them, of one example for
 * each difference.
 */
import { Duration, Equal, Predicate, Redacted, Result } from "effect"
import { render } from "../../admin/api/EventReport.ts"
import { type DigestPolicy, digestOf, type LaneConfig, type Webhook } from "../../config/Config.ts"
import type { Loaded } from "../../config/load/Load.ts"
import { Alerts } from "../../delivery/lane/Alerts.ts"
import { ownType, ownWebhook } from "../../delivery/RelayEvents.ts"
import * as Envelope from "../../event/Envelope.ts"
import { type Entry, type Event, quarantine } from "../../event/Event.ts"
import type { EpochMillis } from "../../event/Quantities.ts"
import { attempt } from "../../formats/Rendering.ts"
import { orderKey } from "../../formats/Template.ts"
import { refusals } from "../../ingest/Answers.ts"
import { decide } from "../../ingest/Ingest.ts"
import type * as Pattern from "../../routing/Pattern.ts"
import * as Router from "../../routing/Router.ts"
import { masked } from "../../sinks/Sink.ts"
import { sendsAlerts, targetOf } from "../../sinks/SinkTypes.ts"
import { withAbsent } from "./goldenFiles.ts"

// The decision of a config on an event: its sinks, the quarantine, or a refusal.

/** The place of events that the relay would refuse. No sink has this name. */
export const refused = "_refused"

interface Fate {
  readonly sinks: ReadonlyArray<string>
  /** Why it is quarantined or refused. */
  readonly why?: string | undefined
}

/** A config, ready to judge events. */
interface Side {
  readonly router: Router.Router
  readonly webhooks: ReadonlyMap<string, Webhook>
  readonly lanes: ReadonlyMap<string, LaneConfig>
}

const sideOf = ({ config, absent }: Pick<Loaded, "config" | "absent">): Side => ({
  router: Router.of(config),
  webhooks: new Map(config.webhooks.map((webhook) => [webhook.name, webhook])),
  lanes: new Map(config.sinks.map((lane) => [lane.name, withAbsent(lane, absent)])),
})

type Decoded = ReturnType<typeof Envelope.decode>

const refusedFor = (why: string): Fate => ({ sinks: [refused], why })

/** An own event about a sink isn't sent to that sink. An entry of an alert goes to its sink whatever the routes say. */
const ofOwn = ({ router }: Side, { type, receivedAt }: Event, decoded: Decoded): Fate => {
  if (type === ownType) return { sinks: [] }
  const about = Result.isSuccess(decoded) ? decoded.success.data.object.sink : undefined
  return { sinks: router.routeType(ownWebhook, type, receivedAt).filter((sink) => sink !== about) }
}

const fateOf = (side: Side, { problem: _, altered: __, ...event }: Event, decoded: Decoded): Fate => {
  if (event.webhook === ownWebhook) return ofOwn(side, event, decoded)
  const webhook = side.webhooks.get(event.webhook)
  if (webhook === undefined) return refusedFor(`there is no webhook ${event.webhook}`)
  if (event.body.byteLength > webhook.maxBody) return refusedFor(refusals.tooLarge.what)
  const decision = decide(event, webhook, side, decoded)
  if (decision.refusal !== undefined) return refusedFor(decision.more.why ?? refusals[decision.refusal].what)
  return { sinks: decision.sinks, why: decision.event.problem }
}

// The payload of an event at a sink, and its differences by JSON Pointer.

/** The settings of a sink that shape its payloads. */
const shapeOf = ({ type, config, enrich, order, key, alert }: LaneConfig) => [type, config, enrich, order, key, alert]

interface Value {
  readonly pointer: string
  /** `unrenderable` events would become dead letters. */
  readonly change: "added" | "removed" | "changed" | "unrenderable"
  readonly before?: unknown
  readonly after?: unknown
  /** Why it can't be rendered. */
  readonly why?: string
}

const childOf = (value: object, key: string): unknown =>
  Object.hasOwn(value, key) ? Reflect.get(value, key) : undefined

const differences = (before: unknown, after: unknown, pointer = ""): ReadonlyArray<Value> => {
  if (
    Predicate.isObjectOrArray(before) &&
    Predicate.isObjectOrArray(after) &&
    Array.isArray(before) === Array.isArray(after)
  ) {
    return [...new Set([...Object.keys(before), ...Object.keys(after)])].flatMap((key) =>
      differences(
        childOf(before, key),
        childOf(after, key),
        `${pointer}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`,
      ),
    )
  }
  if (Equal.equals(before, after)) return []
  return [
    { pointer, change: before === undefined ? "added" : after === undefined ? "removed" : "changed", before, after },
  ]
}

type Payload = Result.Result<unknown, { readonly message: string }>

/** Shows the payload of an event at a sink. */
type Show = (entry: Entry) => Payload

/** Returns the differences of two payloads. Without `before`, only a payload that can't be rendered is one. */
const changesOf = (before: Payload | undefined, after: Payload): ReadonlyArray<Value> => {
  if (Result.isFailure(after)) {
    const isNew = before === undefined || Result.isSuccess(before)
    return isNew ? [{ pointer: "", change: "unrenderable", why: after.failure.message }] : []
  }
  if (before === undefined) return []
  return differences(Result.getOrUndefined(before), after.success)
}

type Settings = Readonly<Record<string, unknown>>

/** `settings` are added to the payload. So is the key of a sink that keeps an order. */
const showOf = (lane: LaneConfig, settings: Settings = {}): Show => {
  const keyOf = lane.order === "key" ? orderKey(lane) : undefined
  return (entry) =>
    attempt(() => ({ ...render(lane, entry), ...(keyOf !== undefined && { order: keyOf(entry) }), ...settings }))
}

/** Returns the secrets of a config by their keys, joined with dots. */
const secretsIn = (config: unknown, key = ""): ReadonlyArray<readonly [key: string, secret: unknown]> => {
  if (Redacted.isRedacted(config)) return [[key, config]]
  if (!Predicate.isObjectOrArray(config)) return []
  return Object.entries(config).flatMap(([below, value]) => secretsIn(value, key === "" ? below : `${key}.${below}`))
}

/** Returns the secrets of the first config that the other doesn't have, masked as `shown`. */
const secretsOnlyIn = (config: unknown, other: unknown, shown: string): Settings => {
  const others = new Map(secretsIn(other))
  const only = secretsIn(config).filter(([key, secret]) => !Equal.equals(secret, others.get(key)))
  return Object.fromEntries(only.map(([key]) => [key, shown]))
}

/** The payloads of a sink by both configs. Without `before`, both show the same, or the sink is new. */
interface Shown {
  readonly before?: Show
  readonly after: Show
}

/** Payloads show neither the target nor secrets, so those that differ are added to them. */
const shownOf = (before: LaneConfig | undefined, after: LaneConfig): Shown => {
  if (before === undefined || Equal.equals(shapeOf(before), shapeOf(after))) return { after: showOf(after) }
  const settingsOf = (lane: LaneConfig, other: LaneConfig, shown: string): Settings => ({
    target: `${lane.type} ${targetOf(lane.type, lane.config)}`,
    secrets: secretsOnlyIn(lane.config, other.config, shown),
  })
  return {
    before: showOf(before, settingsOf(before, after, masked)),
    after: showOf(after, settingsOf(after, before, `another ${masked}`)),
  }
}

// The number of messages at an alert sink.

const hourMillis = 3_600_000
/** Maximum open digests before those that have ended are removed. */
const mostOpen = 10_000

class AlertCount {
  total = 0
  readonly #hours = new Map<number, number>()
  readonly #digest: DigestPolicy | undefined
  readonly #keyOf: (entry: Entry) => string
  /** The open digest of each key. */
  readonly #open = new Map<string, { readonly until: EpochMillis; events: number }>()
  /** The alerts of a sink with `alert`. Their reminders don't count, because they follow no event. */
  readonly #alerts: Alerts | undefined

  constructor(lane: LaneConfig) {
    this.#digest = digestOf(lane)
    this.#alerts = lane.alert?.sends === "changes" ? new Alerts(lane.alert, []) : undefined
    this.#keyOf = orderKey(lane)
  }

  get most(): number {
    return Math.max(0, ...this.#hours.values())
  }

  add(entry: Entry): void {
    const { receivedAt } = entry.event
    if (this.#joins(entry, receivedAt)) return
    const hour = Math.floor(receivedAt / hourMillis)
    this.total += 1
    this.#hours.set(hour, (this.#hours.get(hour) ?? 0) + 1)
  }

  /** Reports whether an alert counts the event, or it joins an open digest. Otherwise it opens one, if the sink has digests. */
  #joins(entry: Entry, at: EpochMillis): boolean {
    if (this.#digest === undefined && this.#alerts === undefined) return false
    const key = Result.getOrElse(
      attempt(() => this.#keyOf(entry)),
      () => "",
    )
    if (this.#digest === undefined) return key !== "" && this.#alerts?.joins(entry, key) === true
    const open = this.#open.get(key)
    if (open !== undefined && at < open.until && open.events < this.#digest.maxEvents) {
      open.events += 1
      return true
    }
    if (this.#open.size >= mostOpen) for (const [key, { until }] of this.#open) if (until <= at) this.#open.delete(key)
    this.#open.set(key, { until: at + Duration.toMillis(this.#digest.wait), events: 1 })
    return false
  }
}

const countsOf = ({ lanes }: Side): ReadonlyMap<string, AlertCount> =>
  new Map([...lanes.values()].flatMap((lane) => (sendsAlerts(lane.type) ? [[lane.name, new AlertCount(lane)]] : [])))

// The comparison.

/** A change that the user expects: at a sink, of the matching types. */
export interface Allowed {
  readonly sink: string
  readonly types?: Pattern.Pattern
}

export interface Options {
  readonly allow: ReadonlyArray<Allowed>
  /** Compare the payloads of all events. */
  readonly isThorough: boolean
  /** Keep the values of an example for each difference. */
  readonly reveal: boolean
}

/** Events that change alike. */
interface Alike {
  readonly isAllowed: boolean
  events: number
  /** One of them: its id, or its place in the log. */
  readonly example: string
}

/** Events of one type and webhook whose sinks change alike. */
export interface Moved extends Alike {
  readonly webhook: string
  readonly type: string
  readonly removed: ReadonlyArray<string>
  readonly added: ReadonlyArray<string>
  /** Why they are quarantined or refused. */
  readonly why?: string
}

/** Payloads of a sink that differ at one pointer. */
export interface Reshaped extends Alike, Value {
  readonly sink: string
}

export interface AlertRate {
  readonly sink: string
  /** Mean messages an hour, and the most in an hour. */
  readonly before: { readonly mean: number; readonly most: number }
  readonly after: { readonly mean: number; readonly most: number }
}

export interface Report {
  /** Events that both configs judged. */
  readonly events: number
  /** Events whose bodies were erased, so that they can't be judged. */
  readonly erased: number
  /** When the first and the last of them were received, in epoch milliseconds; 0 if there were none. */
  readonly first: EpochMillis
  readonly last: EpochMillis
  /** Events that change their sinks. */
  readonly moved: number
  /** Payloads that were compared, and those that differ. */
  readonly payloads: { readonly compared: number; readonly different: number }
  readonly quarantined: { readonly before: number; readonly after: number }
  readonly sinks: ReadonlyArray<Moved>
  readonly pointers: ReadonlyArray<Reshaped>
  readonly alerts: ReadonlyArray<AlertRate>
}

/** The number of payloads of each sink and type that are all compared. After them, every `thenEach`th is compared. */
const firstAll = 1_000
const thenEach = 100
/** Maximum rows of a table. Further events are counted in a row without a type or pointer. */
const mostRows = 2_000

const nameOf = ({ sequence, event }: Entry): string => event.id || `seq_${sequence}`

export class Backtest {
  readonly #options: Options
  readonly #before: Side
  readonly #after: Side
  /** The new names of renamed sinks, by former name. */
  readonly #renamed: ReadonlyMap<string, string>
  /** By the sink's new name. */
  readonly #shown = new Map<string, Shown>()
  readonly #alerts: {
    readonly before: ReadonlyMap<string, AlertCount>
    readonly after: ReadonlyMap<string, AlertCount>
  }
  readonly #moved = new Map<string, Moved>()
  readonly #reshaped = new Map<string, Reshaped>()
  /** The number of payloads seen, by sink and type. */
  readonly #seen = new Map<string, number>()
  readonly #quarantined = { before: 0, after: 0 }
  #events = 0
  #erased = 0
  #first = 0
  #last = 0
  #different = 0
  #compared = 0

  constructor(before: Pick<Loaded, "config" | "absent">, after: Pick<Loaded, "config" | "absent">, options: Options) {
    this.#options = options
    this.#before = sideOf(before)
    this.#after = sideOf(after)
    this.#alerts = { before: countsOf(this.#before), after: countsOf(this.#after) }
    const renamed = new Map<string, string>()
    for (const [name, lane] of this.#after.lanes) {
      const former = lane.renamedFrom ?? ""
      const isRenamed = !this.#before.lanes.has(name) && this.#before.lanes.has(former)
      if (isRenamed) renamed.set(former, name)
      this.#shown.set(name, shownOf(this.#before.lanes.get(isRenamed ? former : name), lane))
    }
    this.#renamed = renamed
  }

  add(entry: Entry): void {
    const { event } = entry
    if (event.erased !== undefined) {
      this.#erased += 1
      return
    }
    this.#events += 1
    this.#first = this.#events === 1 ? event.receivedAt : Math.min(this.#first, event.receivedAt)
    this.#last = Math.max(this.#last, event.receivedAt)
    const decoded = Envelope.decode(event.body)
    const [before, after] = [fateOf(this.#before, event, decoded), fateOf(this.#after, event, decoded)]
    for (const sink of before.sinks) this.#count("before", sink, entry)
    for (const sink of after.sinks) this.#count("after", sink, entry)
    const was = before.sinks.map((sink) => this.#renamed.get(sink) ?? sink)
    this.#move(entry, was, after)
    for (const sink of after.sinks) this.#reshape(entry, sink, was.includes(sink))
  }

  #count(side: "before" | "after", sink: string, entry: Entry): void {
    if (sink === quarantine) this.#quarantined[side] += 1
    this.#alerts[side].get(sink)?.add(entry)
  }

  #isAllowed(type: string, sinks: ReadonlyArray<string>): boolean {
    const { allow } = this.#options
    return sinks.every((sink) => allow.some((one) => one.sink === sink && one.types?.matches(type) !== false))
  }

  #move(entry: Entry, was: ReadonlyArray<string>, { sinks, why }: Fate): void {
    const removed = was.filter((sink) => !sinks.includes(sink))
    const added = sinks.filter((sink) => !was.includes(sink))
    if (removed.length + added.length === 0) return
    const { webhook, type } = entry.event
    const isAllowed = this.#isAllowed(type, [...removed, ...added])
    const shown = this.#moved.size < mostRows ? type : ""
    const key = JSON.stringify([webhook, shown, removed, added, why, isAllowed])
    const row = { webhook, type: shown, removed, added, isAllowed, ...(why !== undefined && { why }) }
    note(this.#moved, key, entry, row)
  }

  /** Compares the payloads of an event at a sink. At a sink that is new to the event, it only has to be rendered. */
  #reshape(entry: Entry, sink: string, isKnown: boolean): void {
    const shown = this.#shown.get(sink)
    if (shown === undefined || (isKnown && shown.before === undefined)) return
    if (!this.#isDrawn(sink, entry.event.type)) return
    const after = shown.after(entry)
    const before = isKnown ? shown.before?.(entry) : undefined
    this.#compared += 1
    const found = changesOf(before, after)
    if (found.length > 0) this.#different += 1
    const isAllowed = this.#isAllowed(entry.event.type, [sink])
    for (const { before, after, ...one } of found) {
      const pointer = this.#reshaped.size < mostRows ? one.pointer : ""
      const row = { ...one, pointer, sink, isAllowed, ...(this.#options.reveal && { before, after }) }
      note(this.#reshaped, JSON.stringify([sink, pointer, one.change, one.why, isAllowed]), entry, row)
    }
  }

  #isDrawn(sink: string, type: string): boolean {
    const key = `${sink} ${type}`
    const seen = this.#seen.get(key) ?? 0
    this.#seen.set(key, seen + 1)
    return this.#options.isThorough || seen < firstAll || seen % thenEach === 0
  }

  get report(): Report {
    const hours = Math.max(1, (this.#last - this.#first) / hourMillis)
    const rateOf = (count: AlertCount | undefined) => ({ mean: (count?.total ?? 0) / hours, most: count?.most ?? 0 })
    const { before, after } = this.#alerts
    const former = new Map([...this.#renamed].map(([was, is]) => [is, was]))
    const removed = [...before.keys()].filter((sink) => !after.has(this.#renamed.get(sink) ?? sink))
    const moved = [...this.#moved.values()]
    return {
      events: this.#events,
      erased: this.#erased,
      first: this.#first,
      last: this.#last,
      moved: moved.reduce((sum, { events }) => sum + events, 0),
      payloads: { compared: this.#compared, different: this.#different },
      quarantined: this.#quarantined,
      sinks: moved,
      pointers: [...this.#reshaped.values()],
      alerts: [...after.keys(), ...removed].map((sink) => ({
        sink,
        before: rateOf(before.get(former.get(sink) ?? sink)),
        after: rateOf(after.get(sink)),
      })),
    }
  }
}

/** Counts an event in its row. */
const note = <Row extends Alike>(
  rows: Map<string, Row>,
  key: string,
  entry: Entry,
  row: Omit<Row, "events" | "example">,
): void => {
  const known = rows.get(key)
  if (known !== undefined) known.events += 1
  else rows.set(key, { ...row, events: 1, example: nameOf(entry) } as Row)
}
