/**
 * The part of the admin API that replays events. A replay can be started, followed
 * and cancelled. A dry run is the same without sending, so both have the same
 * report.
 */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { EpochMillis } from "../event/Quantities.ts"
import { NotFound, Refused, Unavailable } from "./ApiErrors.ts"
import { EventSelection } from "./EventSelection.ts"

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

/** The events that are sent again, or would be in a dry run. */
const Counted = Schema.Struct({
  count: Schema.Int,
  /** The largest groups of these events, each counted once for each of its sinks. */
  groups: Schema.Array(Schema.Struct({ type: Schema.String, sink: Schema.String, count: Schema.Int })),
  /** The number of events in groups that are not listed. */
  others: Schema.Int,
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
export class Replays extends HttpApiGroup.make("replays").add(
  /** Answers immediately. The replay continues in the relay. */
  HttpApiEndpoint.post("start", "/replays", {
    payload: ReplayRequest,
    success: Replay,
    error: [NotFound, Refused, Unavailable],
  }),
  /** Lists running replays and the last ones that ended, newest first. A restart forgets them. */
  HttpApiEndpoint.get("list", "/replays", { success: Schema.Array(Replay) }),
  HttpApiEndpoint.get("show", "/replays/:id", { params: id, success: Replay, error: NotFound }),
  /** Cancels a replay. Events appended by then are still delivered. For a replay that has ended, returns its result. */
  HttpApiEndpoint.post("cancel", "/replays/:id/cancel", { params: id, success: Replay, error: NotFound }),
) {}
