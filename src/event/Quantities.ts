/**
 * Types that name the unit of a number, so that an `EpochMillis` field needs no
 * comment.
 *
 * The types are aliases, so the compiler does not distinguish them. Durations in the
 * config use `Duration`; these types are for numbers that are stored, sent or
 * compared.
 */
import { DateTime, Schema } from "effect"

/** A point in time: milliseconds since 1970 in UTC. */
export const EpochMillis = Schema.Finite.annotate({ description: "Epoch milliseconds" })
export type EpochMillis = typeof EpochMillis.Type

/** A span of time. */
export const Millis = Schema.Finite.annotate({ description: "Milliseconds" })
export type Millis = typeof Millis.Type

/** A size. */
export const Bytes = Schema.Finite.annotate({ description: "Bytes" })
export type Bytes = typeof Bytes.Type

// Hours of each day by the clock of a time zone: for the silence of a sender, quiet hours of alerts, and routes.

/** Hours of each day, in minutes after midnight. If they end before they begin, they end on the next day. */
export interface Hours {
  readonly from: number
  readonly to: number
}

export interface DailyHours {
  readonly hours: Hours
  readonly timeZone: string
}

export const dayMinutes = 24 * 60

/** The length of the hours on a day without a clock change. */
export const lengthOf = ({ from, to }: Hours): Millis => (to > from ? to - from : to + dayMinutes - from) * 60_000

const twoDigits = (value: number): string => String(value).padStart(2, "0")

/** `08:00`, from minutes after midnight. */
const clockOf = (minutes: number): string => `${twoDigits(Math.floor(minutes / 60))}:${twoDigits(minutes % 60)}`

/** `08:00-18:00` */
export const hoursText = ({ from, to }: Hours): string => `${clockOf(from)}-${clockOf(to)}`

/** `08:00-18:00 Europe/Berlin` */
export const describeHours = ({ hours, timeZone }: DailyHours): string => `${hoursText(hours)} ${timeZone}`

/** Returns the beginning and the end of the hours, of the day before `at` and of all days after it. */
export function* days(
  at: EpochMillis,
  { hours, timeZone }: DailyHours,
): Generator<readonly [from: EpochMillis, to: EpochMillis]> {
  const { year, month, day } = DateTime.toParts(DateTime.makeZonedUnsafe(at, { timeZone }))
  const instant = (day: number, minute: number): EpochMillis =>
    DateTime.makeZonedUnsafe({ year, month, day, minute }, { timeZone, adjustForTimeZone: true }).epochMilliseconds
  const to = hours.to > hours.from ? hours.to : hours.to + dayMinutes
  // The hours of the day before may end after `at`.
  for (let next = day - 1; ; next++) yield [instant(next, hours.from), instant(next, to)]
}

/** Returns the first time within the hours, from `at` on. */
export const nextWithin = (at: EpochMillis, within: DailyHours): EpochMillis => {
  for (const [from, to] of days(at, within)) if (at < to) return Math.max(at, from)
  return at
}

/** Returns a function that reports whether a time is within the hours. It remembers the last answer until that changes. */
export const withinHours = (within: DailyHours): ((at: EpochMillis) => boolean) => {
  let known = { since: 0, until: 0, answer: false }
  return (at) => {
    if (at >= known.since && at < known.until) return known.answer
    for (const [from, to] of days(at, within)) {
      if (at >= to) continue
      known = at < from ? { since: at, until: from, answer: false } : { since: from, until: to, answer: true }
      break
    }
    return known.answer
  }
}
