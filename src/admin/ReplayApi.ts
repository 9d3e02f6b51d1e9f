/**
 * The part of the admin API that replays events. A replay is started, asked
 * about while it runs, and cancelled. A dry run is the same without sending
 * anything, so both are told in the same form.
 */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { EpochMillis } from "../event/Quantities.ts"
import { NotFound, Refused, Unavailable } from "./ApiErrors.ts"
import { EventSelection } from "./EventSelection.ts"

const optional = Schema.optionalKey

/** Which events: all that is given must hold. Empty, all that the journal holds. */
export const ReplayEvents = Schema.Struct({
  /** An event's id, or its place in the log: `seq_42`. */
  id: optional(Schema.String),
  /** To the sinks that it was routed to, an event goes to those where the selection finds it. */
  ...EventSelection.fields,
  /** Only beyond this place: where an earlier replay had come to, its `reached`. */
  after: optional(Schema.String),
  /** No further than this place. Without it, no further than the newest event at the start. */
  through: optional(Schema.String),
})
export type ReplayEvents = typeof ReplayEvents.Type

/** Quarantined events that still can't be routed, by reason. */
export const Stayed = Schema.Array(Schema.Struct({ why: Schema.String, count: Schema.Int }))

/** Events a second, at most: a receiver that has just recovered is not flooded. */
export const Rate = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 1e6 }))

/** Which events, and to which sinks. */
export const ReplayRequest = Schema.Struct({
  events: ReplayEvents,
  /** One sink, or those that each event was routed to when it was accepted. */
  to: Schema.Union([Schema.Literal("routed"), Schema.Struct({ sink: Schema.String })]),
  /** Counts and sends nothing. */
  dryRun: optional(Schema.Boolean),
  rate: optional(Rate),
})
export type ReplayRequest = typeof ReplayRequest.Type

const Shown = Schema.Array(
  Schema.Struct({
    /** Its place in the log. */
    sequence: Schema.Int,
    id: Schema.String,
    type: Schema.String,
    accountId: Schema.String,
    receivedAt: EpochMillis,
    sinks: Schema.Array(Schema.String),
  }),
)

/** Events that are sent again, or in a dry run would be. */
const Counted = Schema.Struct({
  count: Schema.Int,
  /** The largest groups of these events, each counted once for each of its sinks. */
  groups: Schema.Array(Schema.Struct({ type: Schema.String, sink: Schema.String, count: Schema.Int })),
  /** Counted in groups that are not listed. */
  others: Schema.Int,
  /** The events that are sent first, up to five. */
  first: Shown,
  /** The events that are sent last, up to five; none of `first`. */
  last: Shown,
})

/** The effect that a replay of dead letters would have. */
export const DeadLettersPreview = Schema.Struct({ ...Counted.fields, stayed: Stayed, erased: Schema.Int })
export type DeadLettersPreview = typeof DeadLettersPreview.Type

/** A replay or dry run, while it runs and after its end. */
export const Replay = Schema.Struct({
  id: Schema.String,
  /** The request, with `through`: after a dry run this starts the replay of the same events. */
  events: ReplayEvents,
  to: ReplayRequest.fields.to,
  rate: optional(Rate),
  dryRun: Schema.Boolean,
  /** It waits while a sink has many events waiting, or the journal little room. */
  state: Schema.Literals(["running", "waiting", "finished", "cancelled", "failed"]),
  /** The reason why it waits or failed; else empty. */
  message: Schema.String,
  startedAt: EpochMillis,
  endedAt: optional(EpochMillis),
  /** From 0 to 1. */
  share: Schema.Finite,
  /** Everything up to this place is done. */
  reached: Schema.String,
  ...Counted.fields,
  /** How many of `count` are still pending or retrying at one of the sinks: it receives them twice. */
  undelivered: Schema.Int,
  /** Events that were found and left out. */
  leftOut: Schema.Struct({
    /** Copies that earlier replays made, or moves and imports; named by its place, a copy is replayed. */
    copies: Schema.Int,
    /** In quarantine: dead letters of `_quarantine`. */
    quarantined: Schema.Int,
    /** Their bodies were erased. */
    erased: Schema.Int,
    /** Routed to no sink of the config. */
    unrouted: Schema.Int,
    /** Pruned after they were found, or unreadable. */
    gone: Schema.Int,
  }),
  /** Sinks that events were routed to and that the config does not have any more. */
  removedSinks: Schema.Array(Schema.Struct({ sink: Schema.String, count: Schema.Int })),
})
export type Replay = typeof Replay.Type

const id = { id: Schema.String }

/** Replays of events. 404: no such replay or sink; 409: the request is wrong, or too many run. */
export class Replays extends HttpApiGroup.make("replays").add(
  /** Answers at once; the replay goes on in the relay. */
  HttpApiEndpoint.post("start", "/replays", {
    payload: ReplayRequest,
    success: Replay,
    error: [NotFound, Refused, Unavailable],
  }),
  /** Replays that run and the last that ended, newest first. A restart forgets them. */
  HttpApiEndpoint.get("list", "/replays", { success: Schema.Array(Replay) }),
  HttpApiEndpoint.get("show", "/replays/:id", { params: id, success: Replay, error: NotFound }),
  /** An event that was sent until then is delivered. Of one that has ended, how it ended. */
  HttpApiEndpoint.post("cancel", "/replays/:id/cancel", { params: id, success: Replay, error: NotFound }),
) {}
