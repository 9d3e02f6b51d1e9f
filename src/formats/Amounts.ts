/** Amounts as people read them. */

/** `1 event`, `2 events`, `12,345 events`. */
export const count = (amount: number, word: string): string =>
  `${amount.toLocaleString("en-US")} ${word}${amount === 1 ? "" : "s"}`

/** Entries of the log: events, and the copies that replays and moves append. */
export const entries = (amount: number): string =>
  `${amount.toLocaleString("en-US")} ${amount === 1 ? "entry" : "entries"}`

/** A time in UTC: `2026-11-20T08:00:00.000Z`; its milliseconds where no date has so many. */
export const instant = (millis: number): string => {
  const date = new Date(millis)
  return Number.isNaN(date.getTime()) ? `${millis} ms` : date.toISOString()
}

/** A time span in one unit: `12 s`, `3 min`, `5 h`, `2 d`. */
export const span = (millis: number): string => {
  const seconds = Math.max(0, Math.round(millis / 1000))
  if (seconds < 120) return `${seconds} s`
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`
  if (seconds < 172_800) return `${Math.round(seconds / 3600)} h`
  return `${Math.round(seconds / 86_400)} d`
}

const units = ["bytes", "KiB", "MiB", "GiB", "TiB"]

/** A size in the largest unit: `1.5 GiB`. */
export const bytes = (amount: number): string => {
  let value = amount
  let unit = 0
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024
    unit += 1
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`
}
