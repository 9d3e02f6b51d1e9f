/**
 * Erases the events of an account or an object, or one event, with all their copies.
 *
 * It repeats the search until it finds no more, because a replay may append a copy
 * in the meantime. Other events may have an object's id elsewhere in their body, so
 * the bodies are searched for it as text, and these events are listed.
 *
 * A search of the whole journal takes minutes if there are millions of events. It
 * rests after each page, and a pause of the database doesn't end it.
 *
 * **Guarantee.** It ends even if the sender keeps sending events of the account. It
 * starts with the events in the log, and later searches only for events received
 * until then. A copy has the same receive time as its original.
 */
import { Clock, Duration, Effect, Schedule, Schema } from "effect"
import type { Archive, EventPage, EventQuery, FoundEvent } from "../../journal/Archive.ts"
import { deliveryMatchOf, nextQuery } from "../../journal/EventQuery.ts"
import { isUnavailable, type JournalError } from "../../journal/Journal.ts"
import type { OnProgress } from "../status/RelayStatus.ts"
import { EventSelection, place, sequenceOf } from "./EventSelection.ts"

const optional = Schema.optionalKey

/** Selects events to erase with their copies: by the usual fields, an id or a position. */
export const ErasureRequest = Schema.Struct({
  ...EventSelection.fields,
  account: optional(Schema.NonEmptyString),
  /** An event's id. */
  event: optional(Schema.NonEmptyString),
  /** An event's position in the log, such as `seq_42`. */
  place: optional(Schema.String.check(Schema.isPattern(place))),
  /** Only counts the events that would be erased. */
  dryRun: optional(Schema.Boolean),
  /** First abandons events that sinks have not received; otherwise these are kept. */
  giveUp: optional(Schema.Boolean),
})
export type ErasureRequest = typeof ErasureRequest.Type

/** An event that was not erased and has the object's id elsewhere in its body. */
const Mention = Schema.Struct({ sequence: Schema.Int, id: Schema.String, type: Schema.String })

/** The result of an erasure or a dry run. */
export const Erasure = Schema.Struct({
  /** The number of events and their copies. */
  count: Schema.Int,
  /** The number of them that are dead letters of a sink, which can no longer be replayed. */
  deadLetters: Schema.Int,
  /** The number of them that a sink had not received. */
  givenUp: Schema.Int,
  /** Events that an earlier erasure erased. */
  before: Schema.Int,
  /** Events that are not erased because sinks have not received them: their number, and the first of them. */
  undelivered: Schema.Int,
  first: Schema.Array(Schema.Struct({ sequence: Schema.Int, id: Schema.String, sinks: Schema.Array(Schema.String) })),
  /**
   * Only with `object`: other events with the id anywhere in their body. They are not erased. Their number, and the
   * first of them, oldest first.
   */
  mentions: optional(Schema.Struct({ count: Schema.Int, first: Schema.Array(Mention) })),
  /** Places that may have copies which the relay can't erase, in words. */
  notReached: Schema.Array(Schema.String),
})
export type Erasure = typeof Erasure.Type

/** The number of events in one search, and maximum undelivered events and mentions that are listed. */
const pageSize = 256
const maxListed = 10
const maxMentions = 100
/** A page is read again this often while the journal is unavailable: for a minute. */
const pageRetries = { schedule: Schedule.spaced(Duration.millis(250)), times: 240 }

type Selector = Omit<EventQuery, "limit">

interface ErasingOptions {
  readonly archive: Archive["Service"]
  readonly onProgress?: OnProgress
  /** Stops the lanes of these names, runs the work, and restarts the lanes, which re-read their events. */
  readonly whileStopped: <A>(
    lanes: ReadonlyArray<string>,
    work: Effect.Effect<A, JournalError>,
  ) => Effect.Effect<A, JournalError>
}

const waitingAt = ({ deliveries }: FoundEvent): ReadonlyArray<string> =>
  deliveries.filter(({ outcome }) => outcome === "pending" || outcome === "retrying").map(({ sink }) => sink)

/** Returns more selectors for an event that was selected by its position, because its copies have the same id. */
const alsoOf = ({ event: { id, webhook, accountId }, copies = [], copyOf }: FoundEvent): ReadonlyArray<Selector> => [
  ...(id === "" ? [] : [{ id, webhook, ...(accountId !== "" && { account: accountId }) }]),
  ...[...copies, ...(copyOf === undefined ? [] : [copyOf])].map(({ sequence }) => ({ sequence })),
]

class ErasureRun {
  readonly #options: ErasingOptions
  readonly #isDry: boolean
  readonly #isGivingUp: boolean
  readonly #erased = new Set<number>()
  readonly #before = new Set<number>()
  readonly #undelivered = new Map<number, Erasure["first"][number]>()
  /** Events that the log held at the start, and events searched since then. */
  readonly #held: number
  #looked = 0
  #mentions: Erasure["mentions"]
  #deadLetters = 0
  #givenUp = 0
  /** Epoch milliseconds when the newest erased event was received, or when the command began. */
  newest: number

  private constructor(options: ErasingOptions, request: ErasureRequest, at: { readonly held: number; now: number }) {
    this.#options = options
    this.#isDry = request.dryRun === true
    this.#isGivingUp = request.giveUp === true
    this.#held = at.held
    this.newest = at.now
  }

  static readonly make = Effect.fnUntraced(function* (options: ErasingOptions, request: ErasureRequest) {
    const { head, first } = yield* options.archive.status
    return new ErasureRun(options, request, { held: head + 1 - first, now: yield* Clock.currentTimeMillis })
  })

  #searched({ looked }: EventPage): void {
    this.#looked += looked
    this.#options.onProgress?.(this.#looked / Math.max(1, this.#held))
  }

  /**
   * Runs `work` on the events of a selector, page by page. It searches for at most half of the time, so that the
   * database has time for deliveries.
   */
  readonly #eachPage = Effect.fnUntraced(
    { self: this },
    function* (
      this: ErasureRun,
      selector: Selector,
      work: (events: ReadonlyArray<FoundEvent>) => Effect.Effect<void, JournalError>,
    ): Effect.fn.Return<void, JournalError> {
      for (let query: EventQuery = { ...selector, after: "", duplicates: true, limit: pageSize }; ; ) {
        const reading = Effect.timed(this.#options.archive.events(query))
        const [took, page] = yield* Effect.retry(reading, { ...pageRetries, while: isUnavailable })
        this.#searched(page)
        yield* work(page.events)
        if (page.next === undefined) return
        query = nextQuery(query, page.next)
        yield* Effect.sleep(took)
      }
    },
  )

  /** Erases all events of a selector, and calls `onFound` with each. */
  pass(selector: Selector, onFound: (found: FoundEvent) => void): Effect.Effect<void, JournalError> {
    return this.#eachPage(selector, (events) => {
      for (const found of events) {
        onFound(found)
        if (found.event.erased !== undefined && !this.#erased.has(found.sequence)) this.#before.add(found.sequence)
      }
      const whole = events.filter(({ event }) => event.erased === undefined)
      return whole.length > 0 ? this.#erase(whole) : Effect.void
    })
  }

  /** Lists the other events that have an id anywhere in their body. */
  findMentions(id: string, through: string): Effect.Effect<void, JournalError> {
    const first: Array<typeof Mention.Type> = []
    let count = 0
    this.#looked = 0
    const isOther = ({ sequence }: FoundEvent) => !this.#erased.has(sequence) && !this.#undelivered.has(sequence)
    const found = this.#eachPage({ mentioned: id, through }, (events) => {
      const others = events.filter(isOther)
      count += others.length
      const listed = others.slice(0, maxMentions - first.length)
      first.push(...listed.map(({ sequence, event: { id, type } }) => ({ sequence, id, type })))
      return Effect.void
    })
    return Effect.map(found, () => {
      this.#mentions = { count, first }
    })
  }

  readonly #erase = Effect.fnUntraced(
    { self: this },
    function* (this: ErasureRun, events: ReadonlyArray<FoundEvent>): Effect.fn.Return<void, JournalError> {
      const { archive, whileStopped } = this.#options
      const lanes = [...new Set(events.flatMap(waitingAt))]
      const sequences = events.map(({ sequence }) => sequence)
      const { erased, undelivered } = this.#isDry
        ? this.#wouldErase(events)
        : this.#isGivingUp && lanes.length > 0
          ? yield* whileStopped(lanes, archive.erase(sequences, true))
          : yield* archive.erase(sequences, false)
      const isErased = new Set(erased)
      const left = new Map(undelivered.map((one) => [one.sequence, one.lanes]))
      for (const found of events) {
        const { sequence, event, deliveries } = found
        const sinks = left.get(sequence)
        if (sinks !== undefined) this.#undelivered.set(sequence, { sequence, id: event.id, sinks })
        if (!isErased.has(sequence) || this.#erased.has(sequence)) continue
        this.#erased.add(sequence)
        this.#undelivered.delete(sequence)
        if (deliveries.some(({ outcome }) => outcome === "dead")) this.#deadLetters++
        if (waitingAt(found).length > 0) this.#givenUp++
        this.newest = Math.max(this.newest, event.receivedAt)
      }
    },
  )

  #wouldErase(events: ReadonlyArray<FoundEvent>) {
    const isLeft = (found: FoundEvent) => !this.#isGivingUp && waitingAt(found).length > 0
    return {
      erased: events.filter((found) => !isLeft(found)).map(({ sequence }) => sequence),
      undelivered: events.filter(isLeft).map((found) => ({ sequence: found.sequence, lanes: waitingAt(found) })),
    }
  }

  get count(): number {
    return this.#erased.size
  }

  report(notReached: ReadonlyArray<string>): Erasure {
    return {
      count: this.#erased.size,
      deadLetters: this.#deadLetters,
      givenUp: this.#givenUp,
      before: this.#before.size,
      undelivered: this.#undelivered.size,
      first: [...this.#undelivered.values()].slice(0, maxListed),
      ...(this.#mentions !== undefined && { mentions: this.#mentions }),
      notReached,
    }
  }
}

/**
 * Returns the selector of a request: a selection, an id or a position. An id is never
 * read as a position, because a sender may give an event the id `seq_42`.
 */
const selectorOf = ({ event, place, dryRun: _, giveUp: __, ...selection }: ErasureRequest): Selector => {
  if (event !== undefined) return { id: event }
  const sequence = place === undefined ? undefined : sequenceOf(place)
  return sequence === undefined ? selection : { sequence }
}

/** Reports whether a selector may find an event and not its copies, which went to other sinks. */
const mayMissCopies = (selector: Selector, { copies, copyOf }: FoundEvent): boolean => {
  if (selector.sequence !== undefined) return true
  const isBySink = selector.outcome !== undefined || deliveryMatchOf(selector) !== undefined
  return isBySink && (copies !== undefined || copyOf !== undefined)
}

/** Erases the events of a request, or counts them. */
export const erase = Effect.fnUntraced(function* (
  options: ErasingOptions,
  request: ErasureRequest,
): Effect.fn.Return<Erasure, JournalError> {
  const { archive } = options
  const { dryRun = false } = request
  const run = yield* ErasureRun.make(options, request)
  const selectors = new Map<string, Selector>()
  const select = (selector: Selector) => selectors.set(JSON.stringify(selector), selector)
  select(selectorOf(request))
  const through = yield* archive.end
  for (let isFirst = true; ; isFirst = false) {
    const [names, count] = [selectors.size, run.count]
    for (const selector of [...selectors.values()]) {
      const { until = Number.POSITIVE_INFINITY } = selector
      const limit = isFirst ? { through } : { until: Math.min(until, run.newest + 1) }
      yield* run.pass({ ...selector, ...limit }, (found) => {
        if (mayMissCopies(selector, found)) for (const other of alsoOf(found)) select(other)
      })
    }
    // The search is repeated for copies that a replay made during this one.
    if (names === selectors.size && (dryRun || count === run.count)) break
  }
  if (request.object !== undefined) yield* run.findMentions(request.object, through)
  return run.report(dryRun ? [] : yield* archive.scrub)
})
