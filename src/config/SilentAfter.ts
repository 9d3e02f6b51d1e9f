/** When a sender that sends nothing counts as silent. */
import { DateTime, Duration } from "effect"
import type { EpochMillis, Millis } from "../event/Quantities.ts"

/** Hours of each day, in minutes after midnight. If they end before they begin, they end on the next day. */
export interface Hours {
  readonly from: number
  readonly to: number
}

export interface SilentAfter {
  readonly duration: Duration.Duration
  /** Only time within these hours counts; all time does without them. */
  readonly within?: { readonly hours: Hours; readonly timeZone: string }
}

const twoDigits = (value: number): string => String(value).padStart(2, "0")

/** `08:00`, from minutes after midnight. */
export const clockOf = (minutes: number): string => `${twoDigits(Math.floor(minutes / 60))}:${twoDigits(minutes % 60)}`

const dayMinutes = 24 * 60

/** The length of the hours on a day without a clock change. */
export const lengthOf = ({ from, to }: Hours): Millis => (to > from ? to - from : to + dayMinutes - from) * 60_000

/** The instant from which on a sender is silent that last sent at `since`. */
export const silentAt = (since: EpochMillis, { duration, within }: SilentAfter): EpochMillis => {
  let left = Duration.toMillis(duration)
  if (within === undefined) return since + left
  const { hours, timeZone } = within
  const { year, month, day } = DateTime.toParts(DateTime.makeZonedUnsafe(since, { timeZone }))
  const instant = (day: number, minute: number): EpochMillis =>
    DateTime.makeZonedUnsafe({ year, month, day, minute }, { timeZone, adjustForTimeZone: true }).epochMilliseconds
  const to = hours.to > hours.from ? hours.to : hours.to + dayMinutes
  // The hours of the day before may end after `since`.
  for (let next = day - 1; ; next++) {
    const from = Math.max(since, instant(next, hours.from))
    const length = Math.max(0, instant(next, to) - from)
    if (length >= left) return from + left
    left -= length
  }
}
