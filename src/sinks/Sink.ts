/**
 * What a sink is: all that an implementer must know.
 *
 * A sink sends batches and reports only what it saw. It does not retry, log,
 * count or remember: the lane does, by the `reason` of the error. Add one in
 * four steps: a file here (`Console.ts` is the smallest), a line in `Sinks.ts`, a
 * test that calls the sink contract (`test/contract/sinkContract.ts`), and a
 * section of `config/README.md` with `<!-- sink: TYPE -->`, whose table
 * `bun test/config/reference.ts` writes from the schema's descriptions.
 */
import { type Effect, Schema, type Scope } from "effect"
import type { Entry } from "../event/Entry.ts"

/** Refused, reset, broker down: nothing was wrong with the event. The lane pauses and backs off; no attempt is used. */
export class SinkUnavailable extends Schema.TaggedError<SinkUnavailable>()("SinkUnavailable", {
  message: Schema.String,
}) {}

/** Asked to wait. The lane pauses for `retryAfter` milliseconds, an hour at most. */
export class SinkThrottled extends Schema.TaggedError<SinkThrottled>()("SinkThrottled", {
  message: Schema.String,
  retryAfter: Schema.Number,
}) {}

/** This event failed and may pass later: the lane parks it. */
export class DeliveryFailed extends Schema.TaggedError<DeliveryFailed>()("DeliveryFailed", {
  message: Schema.String,
}) {}

/** This event will never pass: a dead letter now. */
export class DeliveryRejected extends Schema.TaggedError<DeliveryRejected>()("DeliveryRejected", {
  message: Schema.String,
}) {}

/** Nothing will pass until a person acts: the lane pauses and probes, and says what to do. */
export class SinkMisconfigured extends Schema.TaggedError<SinkMisconfigured>()("SinkMisconfigured", {
  message: Schema.String,
}) {}

/** Code units of a message that are kept: it goes into the journal, the log and `status`. */
const longestMessage = 1_000

/** A sink's message, cut where it is too long. */
export const brief = (message: string): string =>
  message.length <= longestMessage ? message : `${message.slice(0, longestMessage - 1).toWellFormed()}…`

const Reason = Schema.Union([SinkUnavailable, SinkThrottled, DeliveryFailed, DeliveryRejected, SinkMisconfigured])
export type Reason = typeof Reason.Type

/** The one error of a sink. Its message is for an operator: no secret, no payload. */
export class SinkError extends Schema.TaggedError<SinkError>()("SinkError", { reason: Reason }) {
  override get message(): string {
    return this.reason.message
  }
}

/** Failures of a batch that partly passed: the index in the batch, and why. Empty: all passed. */
export type Failures = ReadonlyMap<number, SinkError>
export const allSent: Failures = new Map()

export interface Sink {
  /** The lane fills a batch up to both; never more. One event above `maxBytes` still comes, alone. */
  readonly batch: {
    readonly maxEvents: number
    readonly maxBytes: number
    /** Milliseconds that a batch may wait to fill; without it the lane sends what it has. */
    readonly linger?: number
  }
  /**
   * Sends a batch, in its order. Success means that the sink has it durably;
   * failing means that nothing is known to have passed. Interruptible: a
   * deadline interrupts it, and the lane treats that as `DeliveryFailed`.
   */
  send(batch: ReadonlyArray<Entry>): Effect.Effect<Failures, SinkError>
  /** Reaches the sink without sending an event: `validate` and `doctor`. */
  readonly check: Effect.Effect<void, SinkError>
  /** What will go wrong for some events although the sink can be reached: sentences for `validate` and `doctor`. */
  readonly advise?: (limits: Limits) => Effect.Effect<ReadonlyArray<string>, SinkError>
}

/** What the relay lets in, for a sink to hold against its own limits. */
export interface Limits {
  /** Bytes of the largest body that any webhook takes. */
  readonly maxBody: number
}

export type Preview = Readonly<Record<string, unknown>>
/** Stands in a {@link Preview} where a secret is. */
export const masked = "***"

/** A kind of sink: its config's schema, and how to open one. What opens is closed with the scope. */
export interface SinkType<Config> {
  readonly type: string
  /** The `type`'s own keys; the keys that every sink has are added by `config`. */
  readonly config: Schema.Codec<Config, unknown>
  /** How many batches may be in flight unless the config says otherwise. */
  readonly concurrency: number
  /** Where the lane sends digests, `group` is the template of the key that all events of a batch share. */
  readonly open: (name: string, config: Config, group?: string) => Effect.Effect<Sink, SinkError, Scope.Scope>
  /** Whether what it sends is a message of its own making: then a batch is one message, and it may have `digest` and `enrich`. */
  readonly composes?: (config: Config) => boolean
  /** Asked to say when a failure is over: the template of the key that the failure and its recovery share. */
  readonly resolves?: (config: Config) => string | undefined
  /**
   * What a batch would be sent as, a JSON object each, secrets {@link masked};
   * opens nothing. It is shown to people and kept in golden files.
   */
  readonly preview?: (config: Config, batch: ReadonlyArray<Entry>, group?: string) => ReadonlyArray<Preview>
}
