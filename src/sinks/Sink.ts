/**
 * Defines a sink: all that an implementer must know.
 *
 * A sink sends batches and reports only its own observations. It does not retry,
 * log, count or remember: the lane does, guided by the `reason` of the error. The
 * recipe "Add a sink" in docs/development/recipes.md lists the steps.
 * `test/contract/sinkContract.ts` checks that a sink keeps the rules below.
 */
import { Effect, type Redacted, Schema, type Scope } from "effect"
import type { ConfiguredType } from "../config/schema/ConfiguredTypes.ts"
import type { Entry } from "../event/Event.ts"
import { unquoted } from "../event/Quoted.ts"

const errorFields = {
  message: Schema.String,
  /**
   * The part of the receiver's answer that is kept. It may repeat the request, so it is shown only where payloads are.
   */
  answer: Schema.optionalKey(Schema.RedactedFromValue(Schema.String)),
  /** The answer's code: the status of HTTP, the reply of SMTP. */
  code: Schema.optionalKey(Schema.Int),
  /** See {@link Failures}. The service took a part of the message before it failed. */
  reference: Schema.optionalKey(Schema.String),
}

/** The sink can't be reached; nothing is wrong with the event. The lane backs off; no attempt is used. */
export class SinkUnavailable extends Schema.TaggedError<SinkUnavailable>()("SinkUnavailable", errorFields) {}

/** The sink asks to wait. The lane pauses for `retryAfter` milliseconds, an hour at most. */
export class SinkThrottled extends Schema.TaggedError<SinkThrottled>()("SinkThrottled", {
  ...errorFields,
  retryAfter: Schema.Number,
}) {}

/** This event failed and may succeed later: the lane retries it. */
export class DeliveryFailed extends Schema.TaggedError<DeliveryFailed>()("DeliveryFailed", errorFields) {}

/**
 * This event is refused: a dead letter, unless the lane finds that the sink refuses every event (`Suspects.ts`).
 * `ofEvent` means that the event's own size or content is the reason, so other events may be accepted.
 */
export class DeliveryRejected extends Schema.TaggedError<DeliveryRejected>()("DeliveryRejected", {
  ...errorFields,
  ofEvent: Schema.optionalKey(Schema.Boolean),
}) {}

/** The receiver accepts nothing until a person acts: the lane pauses, probes, and shows the message. */
export class SinkMisconfigured extends Schema.TaggedError<SinkMisconfigured>()("SinkMisconfigured", errorFields) {}

/** The longest message, in code units: it is kept in the journal, the log and `status`. */
const longestMessage = 1_000

/** A message, cut to that length. */
export const brief = (message: string): string =>
  message.length <= longestMessage ? message : `${message.slice(0, longestMessage - 1).toWellFormed()}…`

/** The reason why a sink did not take a batch or an event. The lane decides by its tag (`Outcome.ts`). */
const Reason = Schema.Union([SinkUnavailable, SinkThrottled, DeliveryFailed, DeliveryRejected, SinkMisconfigured])
export type Reason = typeof Reason.Type
/** The tags of all reasons, for metrics and the page. */
export const reasons = Reason.members.map(({ identifier }) => identifier)

/** The one error of a sink. Its message is for an operator: no secret, no payload. */
export class SinkError extends Schema.TaggedError<SinkError>()("SinkError", { reason: Reason }) {
  override get message(): string {
    return this.reason.message
  }
}

/** The fields that an error may have beside its message: see `errorFields`. */
interface More {
  readonly answer?: Redacted.Redacted<string>
  readonly code?: number
}

/** An error with {@link SinkUnavailable}. */
export const unavailable = (message: string, more?: More): SinkError =>
  new SinkError({ reason: new SinkUnavailable({ message, ...more }) })
/** An error with {@link SinkThrottled}; `retryAfter` is in milliseconds. */
export const throttled = (message: string, retryAfter: number): SinkError =>
  new SinkError({ reason: new SinkThrottled({ message, retryAfter }) })
/** An error with {@link DeliveryFailed}. */
export const failed = (message: string, more?: More): SinkError =>
  new SinkError({ reason: new DeliveryFailed({ message, ...more }) })
/** An error with {@link DeliveryRejected}. The response doesn't show whether other events would be accepted. */
export const rejected = (message: string, more?: More): SinkError =>
  new SinkError({ reason: new DeliveryRejected({ message, ...more }) })
/** An error with {@link DeliveryRejected} for the size or the content of this event. */
export const unacceptable = (message: string, more?: More): SinkError =>
  new SinkError({ reason: new DeliveryRejected({ message, ofEvent: true, ...more }) })
/** An error with {@link SinkMisconfigured}. */
export const misconfigured = (message: string, more?: More): SinkError =>
  new SinkError({ reason: new SinkMisconfigured({ message, ...more }) })

/** Returns the error with the reference to the part of a message that the service took. */
export const referring = ({ reason }: SinkError, reference: string): SinkError =>
  new SinkError({ reason: Schema.decodeSync(Reason)({ ...Schema.encodeSync(Reason)(reason), reference }) })

/** Returns the error without the receiver's answer, for places that must not store parts of a request. */
export const withoutAnswer = ({ reason }: SinkError): SinkError => {
  const { answer: _, message, ...rest } = Schema.encodeSync(Reason)(reason)
  return new SinkError({ reason: Schema.decodeSync(Reason)({ ...rest, message: unquoted(message) }) })
}

/** Failures by index in the batch; empty when every event was sent. */
export interface Failures extends ReadonlyMap<number, SinkError> {
  /** The code of the answer, if there is one: the status of HTTP. */
  readonly code?: number
  /**
   * The service's reference to the message of an alert. The lane stores it with the alert, and later messages of the
   * alert have it (`AlertNote`). It holds no secret and no value of an event.
   */
  readonly reference?: string
}
/** Every event was sent. */
export const allSent: Failures = new Map()
const sent = new Map<number, Failures>()
/** Every event was sent, and answered with this code. */
export const sentWith = (code: number): Failures => {
  const known = sent.get(code) ?? Object.assign(new Map<number, SinkError>(), { code })
  sent.set(code, known)
  return known
}
/** Every event was sent, in a message of an alert that the service knows by `reference`. */
export const sentAs = (code: number, reference: string): Failures =>
  Object.assign(new Map<number, SinkError>(), { code, reference })
/** The outcome of a send without failures. */
export const passed = Effect.succeed(allSent)

/** After a final failure the next event of the same key may be sent. */
export const isFinal = ({ reason }: SinkError): boolean => reason._tag === "DeliveryRejected"

/** An open sink. An interrupted call must not send later, because the lane sends the batch again. */
export interface Sink {
  /** Limits of a batch. An event larger than `maxBytes` is sent alone. */
  readonly batch: {
    readonly maxEvents: number
    /** Bytes of the events' bodies, as they were signed. */
    readonly maxBytes: number
    /** Maximum time that a batch waits to fill, in milliseconds. If absent, batches don't wait. */
    readonly linger?: number
    /** The lane waits for a started call without a timeout: a repeated call would write the events twice. */
    readonly isAwaited?: boolean
  }
  /**
   * Sends a batch in its order. Success means that the sink has stored it, except for the failures. After a failure the
   * sink may have stored all, some or none of it. A timeout interrupts the call, unless it `isAwaited`, and the lane
   * treats that as `DeliveryFailed`.
   */
  send(batch: ReadonlyArray<Entry>): Effect.Effect<Failures, SinkError>
  /** Tests the connection without sending an event, for `validate` and `doctor`. */
  readonly check: Effect.Effect<void, SinkError>
  /** Lists what will fail for some events of a sink that can be reached, in sentences for `validate` and `doctor`. */
  readonly advise?: (limits: Limits) => Effect.Effect<ReadonlyArray<string>, SinkError>
}

/** The relay's own limits, which a sink compares with its receiver's. */
export interface Limits {
  /** The largest body that any webhook accepts, in bytes. It is 0 if the sink doesn't send received bodies. */
  readonly maxBody: number
  /** The known event types that routes send to the sink; all of them if absent. */
  readonly eventTypes?: ReadonlyArray<string>
}

/** Shows an event or a batch as it would be sent: a JSON object with the sink's own keys. */
export type Preview = Readonly<Record<string, unknown>>
/** Replaces each secret in a {@link Preview}. */
export const masked = "***"

/** A type of sink: the schema of its config, and how a config becomes a sink. */
export interface SinkType<Config> extends ConfiguredType<Config> {
  /** Opens a sink; it is closed with the scope. */
  open(config: Config): Effect.Effect<Sink, SinkError, Scope.Scope>
  /**
   * Shows how a batch would be sent, as one JSON object for each message. Opens nothing. The secrets of the config are
   * {@link masked} already. People see it, and golden files keep it.
   */
  preview(config: Config, batch: ReadonlyArray<Entry>): ReadonlyArray<Preview>
  /** Whether the events of a batch go out in one message, whose body and idempotency key are the batch's. */
  isBatched?(config: Config): boolean
  /**
   * The packages of its client, as a stack trace names them. `@aws-sdk/` means all packages with this prefix. See
   * `Containment.ts`.
   */
  readonly libraries?: ReadonlyArray<string>
  /** The name of the system in OpenTelemetry's conventions, if it differs from the config's name for it. */
  readonly messagingSystem?: string
}

/** A type of sink with any config: the output of `config` is the input of `open`. */
export type AnySinkType = SinkType<unknown>
