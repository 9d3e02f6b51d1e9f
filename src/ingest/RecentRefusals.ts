/**
 * Counts the refusals of the last hour by webhook and reason, and keeps the latest
 * refusals. `relay status` and `relay tap` show them.
 *
 * **Guarantee.** It costs nothing for accepted requests, and its memory is limited:
 * one count for each minute, and `maxDetails` details for each reason. Beyond that,
 * the least frequent and then the oldest details are dropped. So a path that a
 * sender repeats is kept although a scanner tries thousands of others.
 */
import { type Clock, Effect, Latch, Schema } from "effect"
import { EpochMillis } from "../event/Quantities.ts"
import { reasons } from "./Answers.ts"

/** One refused request. */
export const Refused = Schema.Struct({
  at: EpochMillis,
  /** The webhook's name; empty for a request to no webhook. */
  webhook: Schema.String,
  reason: Schema.Literals(reasons),
  /** The request id in its answer and in the log. */
  requestId: Schema.String,
  /** The sender's address; empty if it isn't known. */
  from: Schema.String,
  /** A detail of the request that adds to the reason, such as its path; empty if there is none. */
  detail: Schema.String,
})
export type Refused = typeof Refused.Type

/** The number of refusals within the last hour, and the time of the last one. */
const count = { count: Schema.Int, lastAt: EpochMillis }

/** The refusals of a webhook in the last hour, for one reason. */
export const Counted = Schema.Struct({
  webhook: Refused.fields.webhook,
  reason: Refused.fields.reason,
  ...count,
  /** The request id in the last answer and its log line. */
  lastRequestId: Schema.String,
  /** The address of the last sender; empty if it isn't known. */
  lastFrom: Schema.String,
  /**
   * Details such as an unknown path without its query. The ten most frequent, shortened to 200 characters. Strangers
   * may have chosen these texts.
   */
  details: Schema.Array(Schema.Struct({ detail: Schema.String, ...count })),
})
export type Counted = typeof Counted.Type

const minutes = 60
const minute = 60_000_000_000n
/** Maximum details counted for each reason, and maximum details shown. */
const maxDetails = 32
const shownDetails = 10
/** Maximum length of a detail, in UTF-16 code units. */
const maxDetail = 200
/** Number of latest refusals that are kept individually. */
const maxLatest = 256

/** A count of the last sixty minutes, including the current one. */
class HourCount {
  readonly #counts = new Uint32Array(minutes)
  #newest: number
  total = 0
  lastAt = 0

  constructor(now: number) {
    this.#newest = now
  }

  /** Forgets counts older than an hour. `now` is a minute of the monotonic clock. */
  advance(now: number): this {
    for (let at = Math.max(this.#newest, now - minutes) + 1; at <= now; at++) {
      this.total -= this.#counts[at % minutes] ?? 0
      this.#counts[at % minutes] = 0
    }
    this.#newest = now
    return this
  }

  add(now: number, lastAt: number): void {
    this.advance(now)
    this.#counts[now % minutes] = (this.#counts[now % minutes] ?? 0) + 1
    this.total += 1
    this.lastAt = lastAt
  }
}

class Reason {
  readonly count: HourCount
  readonly details = new Map<string, HourCount>()
  last: Refused

  constructor(first: Refused, now: number) {
    this.count = new HourCount(now)
    this.last = first
  }

  add(refused: Refused, now: number): void {
    this.count.add(now, refused.at)
    this.last = refused
    const { detail } = refused
    if (detail === "") return
    let counted = this.details.get(detail)
    if (counted === undefined) {
      if (this.details.size >= maxDetails) this.#dropDetail(now)
      counted = new HourCount(now)
      this.details.set(detail, counted)
    }
    counted.add(now, refused.at)
  }

  #dropDetail(now: number): void {
    let least: readonly [detail: string, count: HourCount] | undefined
    for (const detail of this.details) {
      const { total, lastAt } = detail[1].advance(now)
      if (least === undefined || total < least[1].total || (total === least[1].total && lastAt < least[1].lastAt)) {
        least = detail
      }
    }
    if (least !== undefined) this.details.delete(least[0])
  }

  counted(now: number): Counted {
    const { webhook, reason, at, requestId, from } = this.last
    const details = [...this.details]
      .map(([detail, count]) => ({ detail, count: count.advance(now).total, lastAt: count.lastAt }))
      .filter(({ count }) => count > 0)
      .toSorted((a, b) => b.count - a.count || b.lastAt - a.lastAt)
    return {
      webhook,
      reason,
      count: this.count.advance(now).total,
      lastAt: at,
      lastRequestId: requestId,
      lastFrom: from,
      details: details.slice(0, shownDetails),
    }
  }
}

/** Returns the detail, shortened to its maximum length and without characters that could control a terminal. */
const bounded = (detail: string): string => {
  const start = detail.slice(0, maxDetail).replaceAll(/[^ -~]/g, "\ufffd")
  return detail.length <= maxDetail ? start : `${start}…`
}

/** The refusals of the last hour. */
export interface RecentRefusals {
  readonly add: (refused: Omit<Refused, "at">) => void
  /** Lists the refusals of the last hour, most frequent first. */
  readonly counted: () => ReadonlyArray<Counted>
  /** The number of refusals since the start. */
  readonly total: () => number
  /** Lists the refusals after the first `seen` that are still kept. */
  readonly since: (seen: number) => ReadonlyArray<Refused>
  /** Waits until there are more than `seen` refusals. */
  readonly awaitBeyond: (seen: number) => Effect.Effect<void>
}

/** Makes an empty list that uses this clock. */
export const make = (clock: Clock.Clock): RecentRefusals => {
  const reasons = new Map<string, Reason>()
  const latest: Array<Refused> = []
  const added = Latch.makeUnsafe(false)
  let total = 0
  const now = () => Number(clock.monotonicTimeNanosUnsafe() / minute)

  return {
    add: (request) => {
      const refused = { ...request, at: clock.currentTimeMillisUnsafe(), detail: bounded(request.detail) }
      const key = `${refused.reason} ${refused.webhook}`
      let reason = reasons.get(key)
      if (reason === undefined) {
        reason = new Reason(refused, now())
        reasons.set(key, reason)
      }
      reason.add(refused, now())
      total += 1
      latest.push(refused)
      if (latest.length >= 2 * maxLatest) latest.splice(0, maxLatest)
      added.openUnsafe()
      added.closeUnsafe()
    },
    counted: () => {
      const at = now()
      const counted: Array<Counted> = []
      for (const [key, reason] of reasons) {
        const refusal = reason.counted(at)
        if (refusal.count > 0) counted.push(refusal)
        else reasons.delete(key)
      }
      return counted.toSorted((a, b) => b.count - a.count || b.lastAt - a.lastAt)
    },
    total: () => total,
    since: (seen) => (seen >= total ? [] : latest.slice(Math.max(0, latest.length - (total - seen)))),
    awaitBeyond: (seen) => Effect.suspend(() => (total > seen ? Effect.void : added.await)),
  }
}
