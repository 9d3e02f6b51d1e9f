/** The journal's knowledge of a lane and its stored events. */
import type { Entry } from "../event/Event.ts"
import type { EpochMillis } from "../event/Quantities.ts"
import type { Attempt } from "./DeliveryStatus.ts"
import type { Cursor, Wait } from "./Settlement.ts"

/** Whether an operator paused a lane. A time in epoch milliseconds is the end of the pause. */
export type Paused = boolean | EpochMillis

/**
 * The fates of the events that a lane gets during a pause, once the pause has ended by itself: delivered as usual, sent
 * as one message, or dropped.
 */
export const endings = ["deliver", "digest", "drop"] as const

/** The rule for events received during a pause, once the pause has ended by itself. */
export interface Mute {
  /** The earliest receive time, in epoch milliseconds. */
  readonly from: EpochMillis
  /** The end of the pause. Events received from then on are delivered as usual. */
  readonly until: EpochMillis
  readonly ending: Exclude<(typeof endings)[number], "deliver">
  /** The operator who paused the lane. */
  readonly by: string
}

export interface LaneInfo {
  readonly name: string
  readonly cursor: Cursor
  /** Number of events that wait for a retry. */
  readonly retrying: number
  /** Number of replayed dead letters that the lane has not taken up yet. */
  readonly returned: number
  readonly deadLetters: number
  /** Bytes of their events, attempts and answers. */
  readonly deadLetterBytes: number
  /** Number of unsettled events routed to it: in the log above the cursor, waiting for a retry, or returned. */
  readonly backlog: number
  /** The lowest sequence of these events except returned ones, or 0 if there are none. */
  readonly oldest: number
  /** True if an operator paused it (`lanes pause`). It stays paused across restarts. */
  readonly paused: Paused
  /** The rule of its last pause. It is kept after the pause has ended, until an operator changes the pause. */
  readonly mute?: Mute
}

/** A lane's pause, and the rule for the events received meanwhile. */
export type Pause = Pick<LaneInfo, "paused" | "mute">

/**
 * The refusal to move or drop the lane of a sink, which would miss the events. It follows the word "the". `relays` are
 * the other relays that have the sink in their config.
 */
export const inUse = (name: string, relays: ReadonlyArray<string> = []): string =>
  `sink ${name} is in the config${relays.length === 0 ? "" : ` of ${relays.join(", ")}`}: only a lane without a sink can be moved or dropped`

/** An opened lane with its retries. `readRetries` reads their bytes. */
export interface OpenedLane extends LaneInfo {
  /** Total milliseconds of its pauses. */
  readonly pausedFor: number
  readonly retries: ReadonlyArray<Retry>
  /** Its alerts, if it ever had a policy of alerts. */
  readonly alerts?: ReadonlyArray<StoredAlert>
}

/** The state of an alert, as a text that only `Alerts.ts` reads. */
export interface StoredAlert {
  readonly key: string
  readonly state: string
}

/** A replayed dead letter. It waits among the retries until its lane takes it up. */
export interface Returned {
  readonly sequence: number
  /** Number of attempts before the replay. */
  readonly attempts: number
}

/** The delay of a retry that its lane has not taken up yet. Its key is empty, because only the lane knows the key. */
export const returnedDelay = -1

/** Returns a dead letter as a retry that waits for its lane from `now` on, in epoch milliseconds. */
export const returning = (sequence: number, now: number): Wait => ({
  ...{ sequence, key: "", due: Math.round(now), delay: returnedDelay, firstAttemptAt: 0, tried: 0 },
})

export interface RetryEntries {
  /** In the order of the request. */
  readonly entries: ReadonlyArray<Entry>
  /** Events whose bytes differ from the written ones: they are lost, and removed. */
  readonly lost: ReadonlyArray<number>
}

export interface DeadLetterQuery {
  readonly lane?: string
  /** A pattern of event types. */
  readonly type?: string
  /** Only dead letters older than this id, for paging. Newest first. */
  readonly before?: string
  readonly limit: number
}

/** A stored event that waits for a retry. */
export interface Retry extends Wait {
  /** The reason of its newest failed attempt, e.g. `DeliveryFailed`; empty if there is none. */
  readonly lastFailure: string
  /** Number of attempts, including those before a replay. */
  readonly attempts: number
}

export interface StoredDeadLetter {
  /** The id on the command line: the lane and the sequence, `lake:42`. */
  readonly id: string
  readonly lane: string
  readonly sequence: number
  /** Epoch milliseconds. */
  readonly at: number
  readonly attempts: ReadonlyArray<Attempt>
  readonly entry: Entry
}

/**
 * Returns lanes by name. The cursor and the pause are from the first stream that has the lane, and the oldest event
 * is from the first that has one.
 */
export const laneTotals = (streams: ReadonlyArray<ReadonlyArray<LaneInfo>>): ReadonlyArray<LaneInfo> => {
  const [only, ...others] = streams
  if (only !== undefined && others.length === 0) return only
  const all = new Map<string, LaneInfo>()
  for (const lane of streams.flat()) {
    const known = all.get(lane.name)
    all.set(
      lane.name,
      known === undefined
        ? lane
        : {
            ...known,
            backlog: known.backlog + lane.backlog,
            oldest: known.oldest === 0 ? lane.oldest : known.oldest,
            retrying: known.retrying + lane.retrying,
            returned: known.returned + lane.returned,
            deadLetters: known.deadLetters + lane.deadLetters,
            deadLetterBytes: known.deadLetterBytes + lane.deadLetterBytes,
          },
    )
  }
  return [...all.values()].sort((a, b) => (a.name < b.name ? -1 : 1))
}

/** The id of a dead letter for operators: its lane and its sequence, `lake:42`. */

export interface DeadLetterKey {
  readonly lane: string
  readonly sequence: number
}

/** Returns the id of a lane's dead letter. */
export const letterId = (lane: string, sequence: number): string => `${lane}:${sequence}`

/** Splits an id. Returns `undefined` if the string isn't one. */
export const parseLetterId = (id: string | undefined): DeadLetterKey | undefined => {
  const match = /^(.+):([1-9][0-9]{0,15})$/.exec(id ?? "")
  return match === null ? undefined : { lane: match[1] ?? "", sequence: Number(match[2]) }
}
