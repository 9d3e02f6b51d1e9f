/**
 * The part of the admin API that replays events. A replay can be started, followed
 * and cancelled. A dry run is the same without sending, so both have the same
 * report.
 */
import { Duration, Effect, Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import type { RelayConfig } from "../../config/Config.ts"
import { EpochMillis } from "../../event/Quantities.ts"
import type { Archive, FoundEvent } from "../../journal/Archive.ts"
import { NotFound, Refused, Unavailable } from "../api/ApiParts.ts"
import { EventSelection } from "../api/EventSelection.ts"

const optional = Schema.optionalKey

/** Selects events: all given fields must match. If empty, selects all events in the journal. */
export const ReplayEvents = Schema.Struct({
  /** An event's id, or its position in the log, such as `seq_42`. */
  id: optional(Schema.String),
  /** When replayed to the routed sinks, an event goes only to the sinks at which it matches the selection. */
  ...EventSelection.fields,
  /** Only events after this position, such as `reached` of an earlier replay. */
  after: optional(Schema.String),
  /** Only events up to this position (default: the newest event at the start). */
  through: optional(Schema.String),
})
export type ReplayEvents = typeof ReplayEvents.Type

/** Quarantined events that still can't be routed, by reason. */
export const Stayed = Schema.Array(Schema.Struct({ why: Schema.String, count: Schema.Int }))

/** Maximum events per second, so that a receiver that has just recovered is not flooded. */
export const Rate = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 1e6 }))

/** The events to replay, and the sinks to send them to. */
export const ReplayRequest = Schema.Struct({
  events: ReplayEvents,
  /** One sink, or the sinks that each event was routed to when it was accepted. */
  to: Schema.Union([Schema.Literal("routed"), Schema.Struct({ sink: Schema.String })]),
  /** Only counts, and sends nothing. */
  dryRun: optional(Schema.Boolean),
  rate: optional(Rate),
})
export type ReplayRequest = typeof ReplayRequest.Type

const Shown = Schema.Array(
  Schema.Struct({
    /** The position in the log. */
    sequence: Schema.Int,
    id: Schema.String,
    type: Schema.String,
    accountId: Schema.String,
    receivedAt: EpochMillis,
    sinks: Schema.Array(Schema.String),
  }),
)

/** Delivered events of a sink that are newer than replayed events of their keys. */
export const Newer = Schema.Struct({
  sink: Schema.String,
  count: Schema.Int,
  /** Set if there may be more, because counting stopped early. */
  atLeast: Schema.optionalKey(Schema.Literal(true)),
})
export type Newer = typeof Newer.Type

/** The events that are sent again, or would be in a dry run. */
const Counted = Schema.Struct({
  count: Schema.Int,
  /** The largest groups of these events, each counted once for each of its sinks. */
  groups: Schema.Array(Schema.Struct({ type: Schema.String, sink: Schema.String, count: Schema.Int })),
  /** The number of events in groups that are not listed. */
  others: Schema.Int,
  /**
   * In a dry run, for each sink with `order: "key"`: the number of delivered events that are newer than a replayed event
   * of the same key. The sink would get the older event last.
   */
  newer: Schema.Array(Newer),
  /** Up to five events that are sent first. */
  first: Shown,
  /** Up to five events that are sent last, without those in `first`. */
  last: Shown,
})

/** The preview of a replay of dead letters. */
export const DeadLettersPreview = Schema.Struct({ ...Counted.fields, stayed: Stayed, erased: Schema.Int })
export type DeadLettersPreview = typeof DeadLettersPreview.Type

/** A replay or dry run, during and after its run. */
export const Replay = Schema.Struct({
  id: Schema.String,
  /** The request with `through` set. After a dry run, it starts the replay of the same events. */
  events: ReplayEvents,
  to: ReplayRequest.fields.to,
  rate: optional(Rate),
  dryRun: Schema.Boolean,
  /** `waiting`: a sink has many pending events, or the journal has little space. */
  state: Schema.Literals(["running", "waiting", "finished", "cancelled", "failed"]),
  /** The reason why it waits or failed; otherwise empty. */
  message: Schema.String,
  startedAt: EpochMillis,
  endedAt: optional(EpochMillis),
  /** From 0 to 1. */
  share: Schema.Finite,
  /** The replay has finished all events up to this position. */
  reached: Schema.String,
  ...Counted.fields,
  /**
   * The number of events in `count` that are still pending or retrying at one of the sinks, which receives them twice.
   */
  undelivered: Schema.Int,
  /** Events that were found and left out. */
  leftOut: Schema.Struct({
    /** Copies made by earlier replays, moves and imports. A copy is replayed only if it is selected by its position. */
    copies: Schema.Int,
    /** Quarantined events, which are dead letters of `_quarantine`. */
    quarantined: Schema.Int,
    /** Events whose bodies were erased. */
    erased: Schema.Int,
    /** Events routed to no sink of the config. */
    unrouted: Schema.Int,
    /** Events that are unreadable, or were pruned after they were found. */
    gone: Schema.Int,
  }),
  /** Sinks that events were routed to and that are no longer in the config. */
  removedSinks: Schema.Array(Schema.Struct({ sink: Schema.String, count: Schema.Int })),
})
export type Replay = typeof Replay.Type

const id = { id: Schema.String }

/** Replays of events. 404: the replay or sink doesn't exist. 409: the request is wrong, or too many replays run. */
export class ReplayGroup extends HttpApiGroup.make("replays").add(
  /** Answers immediately. The replay continues in the relay. */
  HttpApiEndpoint.post("start", "/replays", {
    payload: ReplayRequest,
    success: Replay,
    error: [NotFound, Refused, Unavailable],
  }),
  /** Lists running and recently ended replays, newest first. A restart forgets them. */
  HttpApiEndpoint.get("list", "/replays", { success: Schema.Array(Replay) }),
  HttpApiEndpoint.get("show", "/replays/:id", { params: id, success: Replay, error: NotFound }),
  /** Cancels a replay. Events appended by then are still delivered. For a replay that has ended, returns its result. */
  HttpApiEndpoint.post("cancel", "/replays/:id/cancel", { params: id, success: Replay, error: NotFound }),
) {}

/** Limits on groups, because a sender may invent any number of types. Types beyond the limit are counted together. */
const most = { groups: 10_000, listed: 100, shown: 5 } as const

/** Why an event is left out. */
export type LeftOut = keyof Replay["leftOut"]

/**
 * Counts the events that a replay sends, and those that it leaves out, by reason. Its size does not depend on the
 * number of events.
 */
export class Summary {
  #count = 0
  #undelivered = 0
  #others = 0
  readonly #leftOut: Record<LeftOut, number> = { copies: 0, quarantined: 0, erased: 0, unrouted: 0, gone: 0 }
  /** Counts by sink and type. */
  readonly #groups = new Map<string, Map<string, number>>()
  #groupsInAll = 0
  readonly #removedSinks = new Map<string, number>()
  /** The events counted first, and those counted last. */
  readonly #ends: Array<Replay["first"][number]> = []
  readonly #isNewestFirst: boolean

  /** `isNewestFirst` means that events are counted in reverse order of sending. */
  constructor({ isNewestFirst = false } = {}) {
    this.#isNewestFirst = isNewestFirst
  }

  sent(found: Pick<FoundEvent, "sequence" | "event" | "deliveries">, sinks: ReadonlyArray<string>): void {
    const { sequence, event } = found
    const { id, type, accountId, receivedAt } = event
    this.#count++
    if (this.#ends.length === 2 * most.shown) this.#ends.splice(most.shown, 1)
    this.#ends.push({ sequence, id, type, accountId, receivedAt, sinks })
    for (const sink of sinks) this.#group(type, sink)
    // A dead letter is kept until an operator replays it, so the sink doesn't also receive it by itself.
    const isWaiting = found.deliveries.some(
      ({ sink, outcome }) => sinks.includes(sink) && (outcome === "pending" || outcome === "retrying"),
    )
    if (isWaiting) this.#undelivered++
  }

  leftOut(why: LeftOut): void {
    this.#leftOut[why]++
  }

  /** Counts an event that was routed to a sink that is not in the config. */
  removedSink(sink: string): void {
    this.#removedSinks.set(sink, (this.#removedSinks.get(sink) ?? 0) + 1)
  }

  #group(type: string, sink: string): void {
    const sinks = this.#groups.get(type) ?? new Map<string, number>()
    const count = sinks.get(sink)
    if (count === undefined && this.#groupsInAll >= most.groups) {
      this.#others++
      return
    }
    if (count === undefined) this.#groupsInAll++
    sinks.set(sink, (count ?? 0) + 1)
    this.#groups.set(type, sinks)
  }

  get counts(): Pick<
    Replay,
    "count" | "groups" | "others" | "first" | "last" | "undelivered" | "leftOut" | "removedSinks"
  > {
    const ends = this.#isNewestFirst ? this.#ends.toReversed() : this.#ends
    const groups = [...this.#groups]
      .flatMap(([type, sinks]) => [...sinks].map(([sink, count]) => ({ type, sink, count })))
      .toSorted((a, b) => b.count - a.count)
    return {
      count: this.#count,
      groups: groups.slice(0, most.listed),
      others: this.#others + groups.slice(most.listed).reduce((sum, { count }) => sum + count, 0),
      first: ends.slice(0, most.shown),
      last: ends.slice(most.shown),
      undelivered: this.#undelivered,
      leftOut: { ...this.#leftOut },
      removedSinks: [...this.#removedSinks].map(([sink, count]) => ({ sink, count })),
    }
  }
}

/** Slices per second, so that a receiver doesn't get a whole second's events at once. */
const perSecond = 4

/** Returns the pace for a rate in events per second (default: no limit). */
export const paceOf = (rate = Number.POSITIVE_INFINITY) => ({
  /** Maximum events in a slice. */
  most: Math.max(1, Math.floor(rate / perSecond)),
  /** Returns the wait after a slice of this many events. */
  rest: (events: number): Duration.Duration => Duration.millis((events / rate) * 1000),
})

/** A replay waits while this many events wait for a sink, or fewer if the sink's `backlog.max` is lower. */
const maxWaiting = 10_000

/**
 * Returns how many more events may wait for each of these sinks, and if none may, the reason. A replay leaves half of a
 * sink's backlog limit to new events.
 */
export const roomAt = Effect.fnUntraced(function* (archive: Archive["Service"], sinks: RelayConfig["sinks"]) {
  const lanes = new Map((yield* archive.lanes).map(({ name, backlog }) => [name, backlog]))
  let [events, why] = [Number.POSITIVE_INFINITY, ""]
  for (const { name, backlog } of sinks) {
    const most = Math.max(1, Math.min(maxWaiting, Math.floor((backlog?.max ?? Number.POSITIVE_INFINITY) / 2)))
    const waiting = lanes.get(name) ?? 0
    events = Math.min(events, most - waiting)
    if (waiting >= most) why = `${waiting} events wait for the sink ${name}`
  }
  return { events, why }
})
