/**
 * The lanes: one for each sink, and those that a removed sink left behind.
 */
import { Context, type Effect } from "effect"
import type { JournalError } from "../journal/Journal.ts"

export type LaneCondition =
  /** Sends as events come. */
  | "running"
  /** The sink is away or asked to wait; it probes by itself. */
  | "waiting"
  /** Nothing passes until a person mends the sink's config; it probes by itself. */
  | "misconfigured"
  /** A person paused it. */
  | "paused"
  /** Too much is parked, rejected or dead-lettered; a person must look. */
  | "blocked"
  /** It has a cursor and no sink: removed or renamed in the config. */
  | "orphaned"

export interface LaneStatus {
  readonly name: string
  /** The sink's type; empty for an orphaned lane. */
  readonly type: string
  readonly condition: LaneCondition
  /** Why, and what to do; empty while it runs. */
  readonly message: string
  /** Events routed to it and not settled, parked ones included. */
  readonly backlog: number
  readonly parked: number
  readonly deadLetters: number
  readonly cursor: number
  /** Epoch milliseconds of the oldest event that is not settled; 0 when there is none. */
  readonly oldestAt: number
  /** At most this many events would be sent twice if the process died now. */
  readonly duplicateBound: number
  /** Attempts by outcome since the start: `delivered`, or a reason's tag. */
  readonly attempts: Readonly<Record<string, number>>
}

export class Lanes extends Context.Service<
  Lanes,
  {
    readonly status: Effect.Effect<ReadonlyArray<LaneStatus>, JournalError>
    /** False when there is no such lane. */
    pause(name: string): Effect.Effect<boolean, JournalError>
    resume(name: string): Effect.Effect<boolean, JournalError>
    /** Hands what is pending to another lane; the number of events. */
    move(from: string, to: string): Effect.Effect<number, JournalError>
    /** Gives up what is pending and forgets an orphaned lane; the number of events. */
    drop(name: string): Effect.Effect<number, JournalError>
  }
>()("relay/delivery/Lanes") {}
