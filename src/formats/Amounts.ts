/** Amounts as people read them. */
import type { Bytes, EpochMillis, Millis } from "../event/Quantities.ts"

/** `1 event`, `2 events`, `12,345 entries`. */
export const count = (amount: number, word: string): string => {
  const words = amount === 1 ? word : `${word.replace(/y$/, "ie")}s`
  return `${amount.toLocaleString("en-US")} ${words}`
}

/** A time in UTC: `2026-11-20T08:00:00.000Z`; its milliseconds if no date has that many. */
export const instant = (millis: EpochMillis): string => {
  const date = new Date(millis)
  return Number.isNaN(date.getTime()) ? `${millis} ms` : date.toISOString()
}

/** A time span in one unit: `12 s`, `3 min`, `5 h`, `2 d`. */
export const span = (millis: Millis): string => {
  const seconds = Math.max(0, Math.round(millis / 1000))
  if (seconds < 120) return `${seconds} s`
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`
  if (seconds < 172_800) return `${Math.round(seconds / 3600)} h`
  return `${Math.round(seconds / 86_400)} d`
}

/** A time as its distance from `now`: `in 3 h`, `5 min ago`. */
export const fromNow = (at: EpochMillis, now: EpochMillis): string =>
  at > now ? `in ${span(at - now)}` : `${span(now - at)} ago`

const units = ["bytes", "KiB", "MiB", "GiB", "TiB"]

/** A size in the largest unit: `1.5 GiB`. */
export const bytes = (amount: Bytes): string => {
  let value = amount
  let unit = 0
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024
    unit += 1
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`
}
