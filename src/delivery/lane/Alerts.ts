/**
 * The alerts of a lane whose policy sends changes. They decide which events send a message, and
 * which are only counted.
 *
 * An alert has a key, which its failures and their recovery share. Its state is a
 * function of the lane's events, in the order of the log. {@link next} is that
 * function. A lane stores the new state in the settlement that passes the event, so
 * a crash neither counts an event twice nor forgets one.
 *
 * Time changes no state that a message depends on. If a reminder or a newer count is due, or an alert
 * has had no failure for long, the lane appends an entry of its own to the journal,
 * for itself alone. That entry is delivered, retried and explained like any event,
 * and is in order with the alert's other messages.
 *
 * **Guarantee.** A stored state and an own entry hold no value of an event except its
 * type and its time: keys are hashes, and a reference is made by the service. A message
 * has its content from the newest failure, read when the message is sent. So an erasure
 * of events has nothing to do here.
 *
 * The policies of `resolve` and `digest` have no states. With `resolve` alone each event is a
 * message. The events of a digest are its content, so they can't be counted: a counted event has
 * ended, and retention may prune it before the sink has the message. Each of them stays in the
 * retry queue until then (`RetryQueue.ts`). So the journal knows which events are one message, an
 * erasure reaches them, and a refusal makes each a dead letter that can be replayed.
 *
 * `ARCHITECTURE.md` has the diagram of the states.
 */
import { Duration, Result, Struct } from "effect"
import type { ChangesPolicy } from "../../config/Config.ts"
import { matching } from "../../config/rules/RouteRules.ts"
import type { AlertNote, Entry, Event } from "../../event/Event.ts"
import { asFailure, failureEndedBy } from "../../event/EventType.ts"
import { sha256 } from "../../event/IdempotencyKey.ts"
import { type EpochMillis, type Millis, nextWithin } from "../../event/Quantities.ts"
import { attempt } from "../../formats/Rendering.ts"
import * as Template from "../../formats/Template.ts"
import type { AlertChange, OpenedLane } from "../../journal/Journal.ts"
import { type AlertEntry, ownOf, showing } from "../RelayEvents.ts"
import { quietKey } from "./Queue.ts"

type Status = "pending" | "firing" | "acknowledged" | "resolved"

/** A mute, which suppresses messages until it ends. */
interface AlertMute {
  readonly until: EpochMillis
  /** The status of the alert without the mute. */
  readonly status: Status
  /** Whether the receivers know the alert as open, and the number of failures at the beginning of the mute. */
  readonly isOpen: boolean
  readonly count: number
}

export interface AlertState {
  readonly status: Status | "muted"
  /** Set if it is muted. */
  readonly muted?: AlertMute
  /** The sequence of its first failure. */
  readonly id: number
  /** The type of its newest failure. */
  readonly type: string
  readonly count: number
  readonly first: EpochMillis
  readonly last: EpochMillis
  /** The sequence of its newest failure. */
  readonly newest: number
  /** While it is pending: the times of its failures within `after`. */
  readonly recent: ReadonlyArray<EpochMillis>
  /** If it may silence other failures: a hash of the fields that these have in common with it, and the number of them. */
  readonly group?: string
  readonly others?: number
  /** The number of messages while it fires, and when the last was decided. */
  readonly messages: number
  readonly sentAt: EpochMillis
  /** If messages are updated: the number of failures in the newest message, and when it was decided. */
  readonly shown?: number
  readonly shownAt?: EpochMillis
  /** Its message at the service. */
  readonly reference?: Reference
  /** The alerts of the key before it, newest first. Their messages may still wait for the sink. */
  readonly earlier?: ReadonlyArray<Pick<AlertState, "id" | "reference">>
  /** Its newest messages, oldest first. */
  readonly sent?: ReadonlyArray<SentMessage>
}

/** A message of an alert: the sequence of its event, its meaning, and when it was decided. */
export interface SentMessage {
  readonly sequence: number
  readonly action: AlertNote["action"]
  readonly at: EpochMillis
}

/** The most messages that an alert remembers. */
const maxSent = 10

/** A key keeps the messages of this number of earlier alerts. */
const maxEarlier = 4

/** A service's reference to a message, and the sequence of the event that the message was made of. */
interface Reference {
  readonly text: string
  readonly by: number
}

/** An operator's request to an alert: no more reminders, its end, or no messages until a time. */
export type Request = "acknowledgement" | "resolution" | "mute"
type Due = Exclude<AlertEntry["is"], Request>

/** An event, as its alert sees it. */
export type Signal = { readonly sequence: number; readonly at: EpochMillis } & (
  | { readonly is: "failure"; readonly type: string }
  | { readonly is: "recovery" }
  | AlertEntry
)

/** The state after an event. `sends` says whether the event is a message; if not, the alert with this id counts it. */
export interface Next {
  readonly state: AlertState | undefined
  readonly sends: boolean
  readonly alert: number
}

/** An alert that doesn't fire is kept for this long, so that a late or repeated recovery sends nothing. */
export const keptFor: Millis = 86_400_000

/** The most alerts of a lane. The events of further keys are sent without a policy. */
export const maxAlerts = 10_000

/** Decides on an event. */
export const next = (policy: ChangesPolicy, state: AlertState | undefined, signal: Signal): Next => {
  const { sequence, at } = signal
  if ("alert" in signal && signal.alert !== state?.id) return { state, sends: false, alert: signal.alert }
  if (state?.muted !== undefined) return whileMuted(policy, state, state.muted, signal)
  if (signal.is === "failure") return failed(policy, state, signal)
  // A recovery. Its failure may have been sent before the sink had a policy.
  if (state === undefined) return { state, sends: true, alert: sequence }
  const counted: Next = { state, sends: false, alert: state.id }
  switch (signal.is) {
    case "recovery":
      if (state.status === "pending") return { ...counted, state: undefined }
      return isOpen(state) ? resolved(state, at, true) : counted
    case "reminder":
      return state.status === "firing" && state.messages === signal.message ? reminded(policy, state, at) : counted
    case "update":
      if (policy.update === undefined || !isOpen(state) || !hasNews(state)) return counted
      return { ...counted, state: shownAt(policy, state, at), sends: true }
    case "expiry":
      if (!isOpen(state) || at < state.last + Duration.toMillis(policy.resolveAfter)) return counted
      return resolved(state, at, policy.resolves)
    case "acknowledgement": {
      if (state.status !== "firing") return counted
      const acknowledged = shownAt(policy, { ...state, status: "acknowledged" }, at)
      return { ...counted, state: acknowledged, sends: policy.update !== undefined }
    }
    case "resolution":
      return resolved(state, at, policy.resolves && isOpen(state))
    case "mute":
      return { ...counted, state: mutedUntil(state, signal.until ?? at) }
    case "unmuting":
      return counted
  }
}

/** Reports whether the alert was sent and is not over. For a muted alert, the status without the mute counts. */
const isOpen = ({ status, muted }: AlertState): boolean => {
  const is = muted?.status ?? status
  return is === "firing" || is === "acknowledged"
}

/** Reports whether there were failures since the newest message. */
const hasNews = ({ count, shown = 0 }: AlertState): boolean => count > shown

/** Returns the state after a message, which shows its count. */
const shownAt = ({ update }: ChangesPolicy, state: AlertState, at: EpochMillis): AlertState =>
  update === undefined ? state : { ...state, shown: state.count, shownAt: at }

/** Returns the state with a mute. If it has one, only its end changes. */
const mutedUntil = (state: AlertState, until: EpochMillis): AlertState => {
  // An alert that fired and was acknowledged during an earlier mute may never have been sent.
  const isSent = state.messages > 0 || state.shownAt !== undefined
  const muted = state.muted ?? { status: state.status as Status, isOpen: isOpen(state) && isSent, count: state.count }
  return { ...state, status: "muted", muted: { ...muted, until } }
}

/** Decides on an event of a muted alert: its failures and its end are noted, and nothing is sent. */
const whileMuted = (policy: ChangesPolicy, state: AlertState, mute: AlertMute, signal: Signal): Next => {
  const { muted: _, ...rest } = state
  const unmuted: AlertState = { ...rest, status: mute.status }
  const counted: Next = { state, sends: false, alert: state.id }
  switch (signal.is) {
    case "mute":
      return { ...counted, state: mutedUntil(state, signal.until ?? mute.until) }
    case "unmuting":
      return signal.until === mute.until ? afterMute(policy, unmuted, mute, signal.at) : counted
    case "resolution":
      return resolved(unmuted, signal.at, policy.resolves && mute.isOpen)
    default: {
      const { state: after } = next(policy, unmuted, signal)
      const noted = signal.is === "failure" ? { ...again(state, signal), recent: after?.recent ?? [] } : state
      return { ...counted, state: { ...noted, muted: { ...mute, status: (after?.status ?? "resolved") as Status } } }
    }
  }
}

/** Ends a mute. The receivers get one message if they know another state, or if there were failures meanwhile. */
const afterMute = (policy: ChangesPolicy, state: AlertState, mute: AlertMute, at: EpochMillis): Next => {
  // Failures below `after` since its end don't keep the alert open.
  const isOver = state.status === "resolved" || (state.status === "pending" && mute.isOpen)
  if (isOver) return resolved(state, at, policy.resolves && mute.isOpen)
  const isKnown = state.status !== "firing" || (mute.isOpen && state.count === mute.count)
  return isKnown ? { state, sends: false, alert: state.id } : reminded(policy, state, at)
}

/** Sends another message of a firing alert. */
const reminded = (policy: ChangesPolicy, state: AlertState, at: EpochMillis): Next => ({
  state: shownAt(policy, { ...state, messages: state.messages + 1, sentAt: at }, at),
  ...{ sends: true, alert: state.id },
})

const resolved = (state: AlertState, at: EpochMillis, sends: boolean): Next => ({
  state: { ...state, status: "resolved", sentAt: at, messages: state.messages + (sends ? 1 : 0) },
  ...{ sends, alert: state.id },
})

type FailureSignal = Extract<Signal, { readonly is: "failure" }>

/** Returns the state of an open or muted alert after another failure. */
const again = (state: AlertState, { sequence, at, type }: FailureSignal): AlertState => ({
  ...state,
  ...{ type, newest: sequence, count: state.count + 1, last: Math.max(state.last, at) },
})

const failed = (policy: ChangesPolicy, before: AlertState | undefined, signal: FailureSignal): Next => {
  const { sequence, at, type } = signal
  if (before !== undefined && isOpen(before)) return { state: again(before, signal), sends: false, alert: before.id }
  const { after } = policy
  const within = Duration.toMillis(after.within)
  const recent = (before?.status === "pending" ? before.recent : []).filter((one) => one > at - within)
  const known = before?.status === "pending" && recent.length > 0 ? before : undefined
  const fires = recent.length + 1 >= after.count
  const ended = before?.status === "resolved" ? [Struct.pick(before, ["id", "reference"])] : []
  const earlier = [...ended, ...(before?.earlier ?? [])].slice(0, maxEarlier)
  const state: AlertState = {
    status: fires ? "firing" : "pending",
    id: known?.id ?? sequence,
    ...{ type, newest: sequence },
    count: (known?.count ?? 0) + 1,
    first: known?.first ?? at,
    last: Math.max(known?.last ?? at, at),
    recent: fires ? [] : [...recent, at],
    messages: (known?.messages ?? 0) + (fires ? 1 : 0),
    ...(known?.sent !== undefined && { sent: known.sent }),
    sentAt: at,
    ...(known?.reference !== undefined && { reference: known.reference }),
    ...(earlier.length > 0 && { earlier }),
  }
  return { state: fires ? shownAt(policy, state, at) : state, sends: fires, alert: state.id }
}

/** The actions of messages by their events. The action at the end of a mute also depends on the state. */
const actionsOf: Readonly<Record<Exclude<Signal["is"], "mute" | "unmuting">, AlertNote["action"]>> = {
  failure: "trigger",
  update: "update",
  acknowledgement: "update",
  reminder: "reminder",
  recovery: "resolve",
  expiry: "resolve",
  resolution: "resolve",
}

/** Returns the action of a message, by its event and the state after the event. */
const actionOf = ({ is }: Signal, state: AlertState | undefined): AlertNote["action"] => {
  if (is !== "mute" && is !== "unmuting") return actionsOf[is]
  if (state?.status === "resolved") return "resolve"
  return (state?.messages ?? 0) > 1 ? "reminder" : "trigger"
}

const withMessage = (state: AlertState, signal: Signal): AlertState => {
  const message = { sequence: signal.sequence, action: actionOf(signal, state), at: signal.at }
  const before = state.sent ?? []
  // A newer count replaces the count before it, as at the receiver.
  const isNewer = message.action === "update" && before.at(-1)?.action === "update"
  return { ...state, sent: [...(isNewer ? before.slice(0, -1) : before), message].slice(-maxSent) }
}

/** Returns when a message that is decided at `at` may be sent: at once, or at the end of quiet hours. */
const sendsAt = ({ within }: ChangesPolicy, at: EpochMillis): EpochMillis =>
  within === undefined ? at : nextWithin(at, within)

/** Returns when an alert's next reminder is due, or `undefined` if none is. */
export const remindsAt = (policy: ChangesPolicy, { status, sentAt }: AlertState): EpochMillis | undefined =>
  policy.repeat && status === "firing" ? sendsAt(policy, sentAt) + Duration.toMillis(policy.repeat) : undefined

/** Returns when time brings something about: an entry to append, or the end of a state that no message depends on. */
const deadlines = (
  policy: ChangesPolicy,
  state: AlertState,
): ReadonlyArray<readonly [at: EpochMillis, what: Due | "forgotten"]> => {
  const { after, update, resolveAfter } = policy
  const { status, last, sentAt, muted } = state
  const updates =
    update === undefined || !hasNews(state)
      ? []
      : [[sendsAt(policy, (state.shownAt ?? sentAt) + Duration.toMillis(update)), "update"] as const]
  switch (status) {
    case "pending":
      return [[last + Duration.toMillis(after.within) + keptFor, "forgotten"]]
    case "resolved":
      return [[sentAt + keptFor, "forgotten"]]
    case "muted":
      return [[muted?.until ?? 0, "unmuting"]]
    case "acknowledged":
      return [[last + Duration.toMillis(resolveAfter), "expiry"], ...updates]
    case "firing": {
      const end = [last + Duration.toMillis(resolveAfter), "expiry"] as const
      const reminder = remindsAt(policy, state)
      return [end, ...(reminder === undefined ? [] : [[reminder, "reminder"] as const]), ...updates]
    }
  }
}

/** Returns what time has brought about. The end of an alert goes before a reminder. */
export const dueAt = (policy: ChangesPolicy, state: AlertState, now: EpochMillis): Due | "forgotten" | undefined =>
  deadlines(policy, state).find(([at]) => now >= at)?.[1]

/** Returns the key of an alert from the text that its events have in common. */
export const alertKey = (text: string): string => sha256(text).slice(0, 32)

/** Finds the alert that silences a failure: a firing alert of a type that `inhibitedBy` matches, with the same fields. */
class Causes {
  readonly #isCause: (type: string) => boolean
  readonly #groupOf: (entry: Entry) => string
  /** The keys of alerts by their groups. An event without the fields is in no group. */
  readonly #keys = new Map<string, Set<string>>()

  constructor({ match, by }: NonNullable<ChangesPolicy["inhibitedBy"]>) {
    this.#isCause = matching(match)
    const { render } = Template.compile(Template.keyOfFields(by), "key")
    this.#groupOf = (entry) => {
      const text = Result.getOrElse(
        attempt(() => render(entry)),
        () => "",
      )
      return text === "" ? "" : alertKey(text)
    }
  }

  /** Returns the state with the group of the failure that began it, if its type is a cause. */
  grouped(state: AlertState, entry: Entry): AlertState {
    if (!this.#isCause(state.type) || state.group !== undefined) return state
    const group = this.#groupOf(entry)
    return group === "" ? state : { ...state, group }
  }

  /** Returns the keys of the alerts that may silence an event. */
  of(entry: Entry): Iterable<string> {
    if (this.#keys.size === 0) return []
    return this.#isCause(asFailure(entry.event).type) ? [] : (this.#keys.get(this.#groupOf(entry)) ?? [])
  }

  /** Notes the new state of an alert, or its end. */
  note(key: string, before: AlertState | undefined, state: AlertState | undefined): void {
    if (before?.group !== undefined && before.group !== state?.group) {
      const others = this.#keys.get(before.group)
      others?.delete(key)
      if (others?.size === 0) this.#keys.delete(before.group)
    }
    if (state?.group === undefined) return
    const keys = this.#keys.get(state.group) ?? new Set()
    this.#keys.set(state.group, keys.add(key))
  }
}

/** The alerts of a lane, by their keys. */
export class Alerts {
  readonly #policy: ChangesPolicy
  readonly #causes: Causes | undefined
  readonly #states = new Map<string, AlertState>()
  /** The keys by the ids of their alerts. */
  readonly #keys = new Map<number, string>()
  /** Nothing is due before this time. It may be too early, because a new failure delays the end of an alert. */
  #notBefore = Number.POSITIVE_INFINITY

  constructor(policy: ChangesPolicy, stored: NonNullable<OpenedLane["alerts"]>) {
    this.#policy = policy
    this.#causes = policy.inhibitedBy && new Causes(policy.inhibitedBy)
    for (const { key, state } of stored) this.#put(key, JSON.parse(state))
  }

  get size(): number {
    return this.#states.size
  }

  /** The earliest time at which something may be due, in epoch milliseconds, or infinity without alerts. */
  get nextDue(): EpochMillis {
    return this.size === 0 ? Number.POSITIVE_INFINITY : this.#notBefore
  }

  /** Returns the key of an alert's own entry, or `undefined` if the event isn't one. It is empty if the alert is gone. */
  ownKey({ event }: Entry): string | undefined {
    const own = ownOf(event)
    return own && (this.#keys.get(own.alert) ?? "")
  }

  /**
   * Decides on an event of a key. The result's `key` names the alert that has the event from now on. If the sink was
   * muted when the event was received, the alert is muted until the sink's mute ends.
   */
  take(entry: Entry, key: string, sinkMutedUntil?: EpochMillis): Next & { readonly key: string } {
    const before = this.#states.get(key)
    const signal = this.#signalOf(entry)
    const cause = this.#causeOf(entry, signal, before)
    if (cause !== undefined) {
      const state = { ...cause.state, others: (cause.state.others ?? 0) + 1 }
      this.#put(cause.key, state)
      return { key: cause.key, state, sends: false, alert: state.id }
    }
    if (before === undefined && signal.is === "failure" && this.size >= maxAlerts) {
      return { key, state: undefined, sends: true, alert: entry.sequence }
    }
    const decided = this.#decide(before, signal, sinkMutedUntil)
    const noted = decided.sends && decided.state ? withMessage(decided.state, signal) : decided.state
    const state = noted && (this.#causes?.grouped(noted, entry) ?? noted)
    if (state !== before) this.#put(key, state)
    return { ...decided, key, state }
  }

  #decide(state: AlertState | undefined, signal: Signal, sinkMutedUntil = 0): Next {
    const isMuting = (state?.muted?.until ?? 0) < sinkMutedUntil && !("alert" in signal)
    const before = isMuting && state !== undefined ? mutedUntil(state, sinkMutedUntil) : state
    const decided = next(this.#policy, before, signal)
    if (!isMuting || before !== undefined || decided.state === undefined) return decided
    // The alert begins with this event, and the receivers don't know it.
    const muted = { until: sinkMutedUntil, status: decided.state.status as Status, isOpen: false, count: 0 }
    return { ...decided, sends: false, state: { ...decided.state, status: "muted", messages: 0, muted } }
  }

  /**
   * Returns the alert that silences an event. An alert that was sent before its cause stays. A recovery of a failure
   * that was silenced is silenced, too, also for a time after the end of the cause.
   */
  #causeOf(entry: Entry, { is }: Signal, before: AlertState | undefined) {
    if (this.#causes === undefined || (before !== undefined && isOpen(before))) return undefined
    if (is !== "failure" && (is !== "recovery" || before !== undefined)) return undefined
    for (const key of this.#causes.of(entry)) {
      const state = this.#states.get(key)
      if (state === undefined) continue
      if (is === "failure" ? isOpen(state) : (state.others ?? 0) > 0) return { key, state }
    }
    return undefined
  }

  /**
   * Returns the key under which an alert's message waits, and for how many milliseconds. The messages of quiet hours may
   * be sent together, and no later one overtakes them. `waits` reports whether a message of a key waits.
   */
  messageOf(
    key: string,
    now: EpochMillis,
    waits: (key: string) => boolean,
  ): { readonly key: string; readonly wait: Millis } {
    const { within, resolves, incidents } = this.#policy
    const wait = sendsAt(this.#policy, now) - now
    if (within?.outside !== "digest" || waits(key)) return { key, wait }
    // A recovery is sent with the messages of its alert alone, so that it ends no other. A message of several alerts would
    // be one incident, under the key of the last.
    const together = quietKey(resolves || incidents ? key : "")
    return { key: wait > 0 || waits(together) ? together : key, wait }
  }

  /** Reports whether nothing is added to the alert yet, because a message waits for the sink. */
  isWaiting(alert: string, what: Due | "forgotten", now: EpochMillis, waits: (key: string) => boolean): boolean {
    const { key, wait } = this.messageOf(alert, now, waits)
    if (key !== quietKey("")) return waits(key)
    // The message is of all alerts. Quiet hours add a reminder of each to it.
    return waits(key) && (what === "update" || (what === "reminder" && wait === 0))
  }

  /** Reports whether an alert counts the event, after the time before it. For events that were received earlier. */
  joins(entry: Entry, key: string): boolean {
    const state = this.#states.get(key)
    const due = state && dueAt(this.#policy, state, entry.event.receivedAt)
    if (due === "expiry" || due === "forgotten") this.forget(key)
    return !this.take(entry, key).sends
  }

  /** Returns the alerts that have something due. */
  due(
    now: EpochMillis,
  ): ReadonlyArray<{ readonly key: string; readonly state: AlertState; readonly what: Due | "forgotten" }> {
    this.#notBefore = Number.POSITIVE_INFINITY
    return [...this.#states].flatMap(([key, state]) => {
      this.#noteDue(state)
      const what = dueAt(this.#policy, state, now)
      return what === undefined ? [] : { key, state, what }
    })
  }

  /** All alerts with their keys. */
  all(): Iterable<readonly [key: string, state: AlertState]> {
    return this.#states
  }

  /** Returns the state of an alert by its id. */
  get(id: number): AlertState | undefined {
    return this.#states.get(this.#keys.get(id) ?? "")
  }

  /** Ends an alert. Returns the change to store. */
  forget(key: string): AlertChange {
    this.#put(key, undefined)
    return { key, state: undefined }
  }

  /** Returns the entry as its message's. `text` is the text of the key. An own entry shows `failure`. */
  told(entry: Entry, key: string, text: string, failure?: Event): Entry {
    const { event } = entry
    const signal = this.#signalOf(entry)
    const state = this.#states.get(key)
    // An alert that began later is another one.
    const known = state !== undefined && state.id <= entry.sequence ? state : undefined
    const { count = 1, first = event.receivedAt, last = event.receivedAt } = known ?? {}
    const action = known?.sent?.find(({ sequence }) => sequence === entry.sequence)?.action ?? actionOf(signal, known)
    const status = action === "resolve" ? "resolved" : known?.status === "acknowledged" ? "acknowledged" : "firing"
    const { reference: sent } = this.#ownerOf(entry, state) ?? {}
    // The first message of an alert changes no other, unless a part of it was sent before.
    const reference = sent !== undefined && (action !== "trigger" || sent.by === entry.sequence) ? sent.text : undefined
    const alert: AlertNote = {
      key: text,
      action,
      status,
      count,
      first,
      last,
      ...(reference !== undefined && { reference }),
    }
    return { ...(failure === undefined ? entry : showing(entry, failure)), alert }
  }

  /** Returns the alert that a message is of. A replay is of none. */
  #ownerOf({ sequence, replayed }: Entry, state: AlertState | undefined) {
    if (state === undefined || replayed) return undefined
    return state.id <= sequence ? state : state.earlier?.find(({ id }) => id <= sequence)
  }

  /** Keeps the service's reference to a message of an alert. Returns the new state to store, if it differs. */
  refer(entry: Entry, key: string, text: string): AlertChange | undefined {
    const state = this.#states.get(key)
    const owner = this.#ownerOf(entry, state)
    if (state === undefined || owner === undefined || owner.reference?.text === text) return undefined
    const reference = { text, by: entry.sequence }
    const { earlier = [] } = state
    const next =
      owner === state
        ? { ...state, reference }
        : { ...state, earlier: earlier.map((one) => (one === owner ? { ...one, reference } : one)) }
    this.#put(key, next)
    return { key, state: JSON.stringify(next) }
  }

  #signalOf({ sequence, event }: Entry): Signal {
    const { type, receivedAt: at } = event
    const own = ownOf(event)
    if (own !== undefined) return { sequence, at, ...own }
    return this.#policy.resolves && failureEndedBy(type) !== undefined
      ? { is: "recovery", sequence, at }
      : { is: "failure", sequence, at, type }
  }

  #noteDue(state: AlertState): void {
    for (const [at] of deadlines(this.#policy, state)) this.#notBefore = Math.min(this.#notBefore, at)
  }

  #put(key: string, state: AlertState | undefined): void {
    const before = this.#states.get(key)
    this.#causes?.note(key, before, state)
    if (before !== undefined) this.#keys.delete(before.id)
    if (state === undefined) this.#states.delete(key)
    else {
      this.#noteDue(state)
      this.#states.set(key, state)
      this.#keys.set(state.id, key)
    }
  }
}
