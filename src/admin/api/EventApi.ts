/** The admin API of events: listing, explaining and erasing them. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { EpochMillis } from "../../event/Quantities.ts"
import { CopyLink, DeliveryStatus } from "../../journal/DeliveryStatus.ts"
import { Explanation } from "../../routing/Explanation.ts"
import { Refused, Unavailable } from "./ApiParts.ts"
import { Erasure, ErasureRequest } from "./ErasureApi.ts"
import { EpochMillisFromString, selectionQuery } from "./EventSelection.ts"

const optional = Schema.optionalKey
const limit = optional(Schema.FiniteFromString.check(Schema.isBetween({ minimum: 1, maximum: 1000 })))

/** The state of an event at a sink. */
const EventAtSink = Schema.Struct({
  ...DeliveryStatus.fields,
  /** Only with the outcome `retrying`: the event is in a digest that was not attempted yet. */
  collecting: optional(Schema.Literal(true)),
})

/** A step in an event's history. `at` is absent if the time is unknown or in the future. */
const Step = Schema.Struct({
  at: optional(EpochMillis),
  sink: optional(Schema.String),
  what: Schema.String,
  /** For an attempt: its duration in milliseconds, the response code, and whether it delivered the event. */
  attempt: Schema.optionalKey(
    Schema.Struct({
      took: Schema.optionalKey(Schema.Finite),
      code: Schema.optionalKey(Schema.Int),
      delivered: Schema.Boolean,
    }),
  ),
})
export type Step = typeof Step.Type

/** An event without its payload: its facts, its state at each sink and its history. */
export const Event = Schema.Struct({
  /** The position in the log. */
  sequence: Schema.Int,
  origin: Schema.Literals(["delivered", "replayed", "moved"]),
  id: Schema.String,
  type: Schema.String,
  accountId: Schema.String,
  webhook: Schema.String,
  receivedAt: EpochMillis,
  /** When its body, signature and answers were erased. */
  erased: optional(EpochMillis),
  sinks: Schema.Array(EventAtSink),
  copyOf: optional(CopyLink),
  copies: optional(Schema.Array(CopyLink)),
  /** In chronological order. */
  timeline: Schema.Array(Step),
})
export type Event = typeof Event.Type

/** The events that the journal still has. */
export const Kept = Schema.Struct({
  /** When the oldest of them was received; absent if the journal has no events. */
  since: optional(EpochMillis),
  /** Whether older events were deleted. */
  pruned: Schema.Boolean,
})
export type Kept = typeof Kept.Type

/**
 * A page of events. `looked` is the number of events searched, and `lookedTo` is
 * when the last of them was received. `next` is absent on the last page.
 */
const pageOf = <S extends Schema.Top>(event: S) =>
  Schema.Struct({
    events: Schema.Array(event),
    looked: Schema.Int,
    lookedTo: EpochMillis,
    next: optional(Schema.String),
    /** Set if the whole journal was searched and no event was found. */
    kept: optional(Kept),
  })

export const EventPage = pageOf(Event)

/** The full report on an event. */
export const EventReport = Schema.Struct({
  ...Event.fields,
  webhookId: Schema.String,
  /** The signature header as received, and the name of the secret that verified it; empty for the relay's own events. */
  signature: Schema.String,
  secret: Schema.String,
  /** Why the event is in quarantine. */
  problem: optional(Schema.String),
  /** Size of the body in bytes. */
  size: Schema.Int,
  sinks: Schema.Array(
    Schema.Struct({
      ...EventAtSink.fields,
      /** Why its lane waits, while the event is pending or retrying. */
      lane: optional(Schema.String),
      /** The payload, rendered now by the active config. */
      payload: optional(Schema.Unknown),
      /** Set if the sink sends digests or batches. With several events, the body and the idempotency key differ. */
      sentIn: optional(Schema.Literals(["digest", "batch"])),
      /** Why the payload is absent. */
      note: optional(Schema.String),
    }),
  ),
  /** The verdicts of the active routes; empty for an event without a type. */
  routes: Schema.Array(Explanation),
})
export type EventReport = typeof EventReport.Type

export const EventReports = pageOf(EventReport)
export type EventReports = typeof EventReports.Type

/** Lists the journal's events, newest first, and erases them. */
export class EventGroup extends HttpApiGroup.make("events").add(
  HttpApiEndpoint.get("list", "/events", {
    query: {
      ...selectionQuery,
      /** Delivered to a sink at or after this time. */
      deliveredAfter: optional(EpochMillisFromString),
      /** With more attempts than this at a sink. */
      attemptsOver: optional(Schema.FiniteFromString.check(Schema.isBetween({ minimum: 0, maximum: 1e9 }))),
      /** Counted by the alert with this id. Alerts of several sinks can have the same id, so `sink` belongs to it. */
      alert: optional(Schema.FiniteFromString.check(Schema.isInt())),
      /** The `next` of the previous page. */
      before: optional(Schema.String),
      limit,
    },
    success: EventPage,
    error: [Refused, Unavailable],
  }),
  /**
   * Finds the event by its id or by its position in the log, such as `seq_42`. Personal data is masked unless `reveal`
   * is `true`.
   */
  HttpApiEndpoint.get("explain", "/events/:id", {
    params: { id: Schema.String },
    query: { reveal: optional(Schema.Literal("true")) },
    success: EventReports,
    error: Unavailable,
  }),
  /** Overwrites bodies, answers and signatures. Responds when this is done. */
  HttpApiEndpoint.post("erase", "/events/erase", {
    payload: ErasureRequest,
    success: Erasure,
    error: [Refused, Unavailable],
  }),
) {}
