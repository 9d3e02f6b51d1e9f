/**
 * Fills a lane's queue with events from the log and with retries that are due. An
 * event for a digest goes into the retry queue first. If the backlog exceeds its
 * limit, the oldest events become dead letters.
 *
 * It limits the memory that a lane uses.
 */
import { Cause, Duration, Effect, Result } from "effect"
import { digestOf } from "../../config/Config.ts"
import type { Entry } from "../../event/Event.ts"
import { attempt, Unrenderable } from "../../formats/Rendering.ts"
import type { Mute } from "../../journal/Journal.ts"
import { ownOf, showing } from "../RelayEvents.ts"
import { type Alerts, alertKey } from "./Alerts.ts"
import type { Batcher, LaneParts } from "./Batcher.ts"
import type { RetryPolicy } from "./Outcome.ts"
import { collectMutedFor, type Item, muteCovers, muteKey, ownKeyOf } from "./Queue.ts"
import { behindEach } from "./RetryQueue.ts"

/** Maximum events that a lane holds above its cursor. */
const maxOpen = 1_024
/**
 * Maximum bytes that a lane holds in memory, exceeded by at most one event. Also the
 * maximum of one read of retries.
 */
const maxBytes = 8 * 1024 * 1024
/** Settled events that the journal has not stored. The end of a mute may drop more events than one commit should hold. */
const maxUnstored = 4_096
/** Events in one read. From the disk, this blocks all responses for about a millisecond. */
export const readAtOnce = 256
/** Minimum number of retries to read back at a time. */
const retriesAtOnce = 64
/** Milliseconds before the journal is read again for an event that it has not stored yet. */
const notStoredWait = 100

export class Intake {
  readonly #parts: LaneParts
  readonly #batcher: Batcher
  readonly #policy: RetryPolicy
  #moreToRead = false
  /** The log has no unread events for the lane up to this sequence. */
  through = 0
  /** Why the journal could not be read; empty if the last read succeeded. */
  unread = ""

  constructor(parts: LaneParts, batcher: Batcher, policy: RetryPolicy) {
    this.#parts = parts
    this.#batcher = batcher
    this.#policy = policy
  }

  /** Reports whether the log has more events for the lane than it could read at once. */
  get isBehind(): boolean {
    return this.#moreToRead
  }

  /** Reports whether the lane may take more events. */
  get hasRoom(): boolean {
    const { config, progress, refusals, state } = this.#parts
    const { events, bytes } = progress.open
    // Only a delivery ends a suspension, so events that the target refused must not block the others.
    const maxRetrying = refusals?.isSuspended === true ? Number.POSITIVE_INFINITY : config.delivery.maxRetrying
    return (
      events < maxOpen &&
      bytes < maxBytes &&
      !state.isMuted &&
      progress.unstored < maxUnstored &&
      progress.retries.hasRoom(maxRetrying, config.delivery.maxRetrying * behindEach) &&
      state.blocked === ""
    )
  }

  /** Reports whether `fill` may find more events, after an attempt has ended. */
  wantsToFill(now: number): boolean {
    const { progress, queue } = this.#parts
    return (progress.retries.nextDue <= now && this.#hasFewRetries) || (this.#moreToRead && queue.fresh < maxOpen / 2)
  }

  /** Reads events while there is space. Returns the number of events from the log and the number of due retries. */
  readonly fill = Effect.fnUntraced(function* (this: Intake) {
    const { config, log, clock, progress, state } = this.#parts
    if (this.through > progress.position) progress.pass(this.through)
    const limit = this.hasRoom ? Math.min(readAtOnce, maxOpen - progress.open.events) : 0
    const entries = limit > 0 ? yield* log.read(progress.position, limit, config.name) : []
    if (limit > 0) this.unread = ""
    if (limit > 0 && entries.length === 0) progress.pass(yield* log.pastLost(progress.position))
    const now = clock.now()
    for (const entry of entries) this.#take(entry, now)
    // Events that did not fit are read once attempts end. If there was no space to read any, the lane still remembers
    // that the log has more.
    if (limit > 0) {
      this.#moreToRead = entries.length > 0 && (entries.length === limit || progress.open.bytes >= maxBytes)
    }
    yield* this.#enforceBacklogLimit()
    const wantsDue = !state.stopped && this.#hasFewRetries
    const due = wantsDue ? yield* this.#takeDue(Math.max(this.#batcher.portion, retriesAtOnce)) : 0
    return { fresh: entries.length, due }
  })

  /**
   * Reports whether to read more retries. They are read while others are still being sent, because reading the journal
   * may take long. A digest is sent alone.
   */
  get #hasFewRetries(): boolean {
    const { config, queue } = this.#parts
    return queue.retries < (digestOf(config) === undefined ? this.#batcher.portion / 2 : 1)
  }

  /** Takes an event that was read from the log at `now`, in monotonic milliseconds. */
  #take(entry: Entry, now: number): void {
    const { progress, queue, state, alerts, events } = this.#parts
    if (!progress.take(entry)) return
    const mute = state.mute !== undefined && muteCovers(state.mute, entry) ? state.mute : undefined
    const dropsFor = mute?.ending === "drop" ? mute.by : undefined
    if (dropsFor !== undefined && alerts === undefined) {
      progress.drop(entry, dropsFor)
      return
    }
    const own = alerts?.ownKey(entry)
    const key = own ?? this.#keyOf(entry)
    if (key === undefined) return
    // An operator's replay is sent in any case. An event without a key is in no alert.
    const isOutside = entry.replayed || (key === "" && own === undefined)
    const mutedUntil = mute?.ending === "digest" ? mute.until : undefined
    const taken = isOutside ? undefined : alerts?.take(entry, key, mutedUntil)
    if (taken !== undefined) progress.alert({ key: taken.key, state: taken.state && JSON.stringify(taken.state) })
    // A dropped event counts, so that a recovery during a mute ends its alert.
    if (dropsFor !== undefined) progress.drop(entry, dropsFor)
    else if (taken?.sends === false) progress.count(entry, taken.alert)
    else {
      const message = this.#messageOf(key, mute)
      if (message === undefined) queue.add({ entry, key, previous: progress.previous }, now)
      else progress.collect({ entry, key: message.key }, message.wait)
      // An alert's message is read back once it is on disk.
      if (alerts !== undefined) events.settle()
    }
  }

  /**
   * Returns the key under which an event waits for its message, and for how many milliseconds. If the event is sent by
   * itself and at once, returns `undefined`.
   */
  #messageOf(key: string, mute: Mute | undefined): { readonly key: string; readonly wait: number } | undefined {
    const { config, clock, state, progress, alerts } = this.#parts
    const { retries } = progress
    const digest = digestOf(config)
    if (digest !== undefined) return { key, wait: Duration.toMillis(digest.wait) }
    if (alerts !== undefined) return alerts.messageOf(key, clock.wall(), retries.hasKey)
    if (state.mute === undefined) return undefined
    const together = muteKey(state.mute, key)
    // A later event of the key must not overtake those that are sent together.
    const isTogether = mute !== undefined || (key !== "" && retries.hasKey(together))
    return isTogether ? { key: together, wait: collectMutedFor } : undefined
  }

  /**
   * Takes up dead letters that an operator has replayed. They are due now, and newer events of their keys wait behind
   * them. Returns the number of events that the lane did not have yet.
   */
  readonly takeUp = Effect.fnUntraced(function* (this: Intake) {
    const { config, log, progress } = this.#parts
    const returned = this.hasRoom ? yield* log.returned(config.name) : []
    const attempts = new Map(returned.map((one) => [one.sequence, one.attempts]))
    const unknown = returned.map(({ sequence }) => sequence).filter((sequence) => !progress.has(sequence))
    const entries = yield* this.#read(unknown)
    for (const entry of entries) {
      const key = this.#parts.alerts?.ownKey(entry) ?? this.#keyOf(entry)
      if (key !== undefined) progress.takeUp({ entry, key }, attempts.get(entry.sequence) ?? 0)
    }
    return entries.length
  })

  /**
   * Events that wait for a retry go first, because they are the oldest. If they were spared, one that keeps failing
   * would make every later event a dead letter.
   */
  readonly #enforceBacklogLimit = Effect.fnUntraced(function* (this: Intake) {
    const { progress, queue } = this.#parts
    if (progress.excess <= 0) return
    const waiting = progress.retries.oldest(Math.min(progress.excess, readAtOnce))
    const entries = yield* this.#read(waiting)
    for (const entry of entries) this.#giveUp({ entry, key: progress.retries.get(entry.sequence)?.key ?? "" })
    // A wait may not be on disk yet, so its event can't be read. It becomes a dead letter next time.
    if (waiting.length > 0) return
    for (const item of queue.takeOldest(progress.excess)) this.#giveUp(item)
  })

  #giveUp(item: Item): void {
    const { suspects } = this.#parts
    this.#policy.refuse(item, "BacklogFull", "the lane's backlog is over its limit and backlog.whenFull is deadLetter")
    suspects.ended(item.entry.sequence)
  }

  /**
   * Returns the key of the event, or an empty text if the lane has no keys. If it can't be made, the event becomes a dead
   * letter, and this returns `undefined`.
   */
  #keyOf(entry: Entry): string | undefined {
    const { config, key, events, alerts } = this.#parts
    if (config.order === "none" && config.alert === undefined) return ""
    try {
      const text = key(entry)
      return alerts === undefined || text === "" ? text : alertKey(text)
    } catch (error) {
      const item = { entry, key: "" }
      if (error instanceof Unrenderable) this.#policy.refuse(item, "DeliveryRejected", error.message)
      else {
        events.defect(Cause.die(error))
        this.#policy.refuse(
          item,
          "Defect",
          "internal error while its key was computed; the log has the cause, please report it",
        )
      }
      return undefined
    }
  }

  /** Takes up due retries: up to `limit` events, or one message of several. Returns their number. */
  readonly #takeDue = Effect.fnUntraced(function* (this: Intake, limit: number) {
    const { clock, progress, suspects, events, alerts } = this.#parts
    const { retries } = progress
    const now = clock.now()
    const taken = retries.takeDue(now, Math.min(limit, readAtOnce), suspects.isIsolated)
    const mustBeWhole = alerts !== undefined || taken.some(({ key }) => retries.isOneMessage(key))
    const due = taken.map(({ sequence }) => sequence)
    const giveBack = (sequences: ReadonlyArray<number>, dueAt: number) => {
      for (const sequence of sequences) retries.giveBack(sequence, dueAt)
    }
    // Otherwise, after a crash, one digest could be sent again as two, or two as one.
    if (mustBeWhole && due.length > 0 && !progress.isWhole(due)) {
      giveBack(due, now)
      events.settle()
      return 0
    }
    const takenBack = due.filter((sequence) => progress.isTakenBack(sequence))
    const entries = yield* this.#read(due).pipe(Effect.onError(() => Effect.sync(() => giveBack(due, now))))
    const read = new Set(entries.map(({ sequence }) => sequence))
    // If one was not read, an operator replayed or dropped the dead letter before it was taken back.
    for (const sequence of takenBack) if (!read.has(sequence)) progress.lost(sequence)
    // The settlement with their waits may not be on disk yet.
    giveBack(
      due.filter((sequence) => !read.has(sequence)),
      now + notStoredWait,
    )
    const items: Array<Item> = []
    for (const entry of entries) {
      const key = retries.get(entry.sequence)?.key
      if (key === undefined) continue
      const told =
        alerts === undefined
          ? entry
          : yield* this.#told(alerts, entry, key).pipe(Effect.onError(() => Effect.sync(() => giveBack(due, now))))
      if (told !== undefined) items.push({ entry: told, key })
    }
    for (const item of items) this.#parts.queue.addRetry(item)
    return entries.length
  })

  /** Returns an alert's message. If an own entry has nothing to show, ends its alert and returns `undefined`. */
  readonly #told = Effect.fnUntraced(function* (this: Intake, alerts: Alerts, entry: Entry, key: string) {
    const { config, log, progress, events } = this.#parts
    const own = ownOf(entry.event)
    // Messages of several alerts may be sent together, under a key of none.
    const alertOf = (text: string) => ownKeyOf(key) || alertKey(text)
    if (own === undefined) {
      const text = this.#textOf(entry)
      return alerts.told(entry, alertOf(text), text)
    }
    const [found] = yield* log.read(own.failure - 1, 1)
    const failure = found?.sequence === own.failure && found.event.erased === undefined ? found.event : undefined
    const text = failure && this.#textOf(showing(entry, failure))
    // A reload may have changed the fields of the key.
    if (failure !== undefined && text !== undefined && alertKey(text) === alertOf(text)) {
      return alerts.told(entry, alertOf(text), text, failure)
    }
    const known = alerts.ownKey(entry)
    if (known) progress.alert(alerts.forget(known))
    progress.count(entry, own.alert)
    events.settle()
    yield* Effect.logWarning(
      `sink ${config.name}: the alert ${own.alert} ends without a message, because its failure ${own.failure} is erased, no longer kept, or has another key since a reload`,
    ).pipe(Effect.annotateLogs({ sink: config.name }))
    return undefined
  })

  /** Returns the text of the key, which receivers get. It could be computed when the event was taken. */
  #textOf(entry: Entry): string {
    const { key } = this.#parts
    return Result.getOrElse(
      attempt(() => key(entry)),
      () => "",
    )
  }

  /** Reads retries back from the journal. */
  readonly #read = Effect.fnUntraced(function* (this: Intake, sequences: ReadonlyArray<number>) {
    const { config, log, progress } = this.#parts
    const read: Array<Entry> = []
    for (let next = 0, bytes = 0; next < sequences.length && bytes < maxBytes; ) {
      const asked = sequences.slice(next, next + readAtOnce)
      const { entries, lost } = yield* log.readRetries(config.name, asked)
      for (const sequence of lost) progress.lost(sequence)
      for (const entry of entries) bytes += entry.event.body.length
      read.push(...entries)
      // Some events may not be stored yet, and a large result may be incomplete.
      const last = Math.max(...[...entries.map(({ sequence }) => sequence), ...lost].map((one) => asked.indexOf(one)))
      next += last < 0 ? asked.length : last + 1
    }
    return read
  })
}
