/** Texts for people: amounts, times, and escaping for terminals. */
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

/** A duration in one unit, exact below ten seconds: `12 ms`, `1.2 s`, `3 min`. */
export const duration = (millis: Millis): string => {
  if (millis < 1_000) return `${Math.round(millis)} ms`
  return millis < 9_950 ? `${(millis / 1_000).toFixed(1)} s` : span(millis)
}

/** The bound of a duration that was counted in buckets: at most `millis`, or above it. */
interface Bound {
  readonly millis: Millis
  readonly isAbove?: true
}

/** A bound: `≤ 1.0 s`, `> 24 h`. */
export const bounded = ({ millis, isAbove }: Bound): string => `${isAbove === true ? ">" : "≤"} ${duration(millis)}`

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

/**
 * Text for a terminal.
 *
 * **Gotcha.** Names, types, answers and files come from outside. Control characters
 * in them could steer the terminal, marks of direction (U+202E) could reverse the
 * text, and characters without width could make two names look alike: none of them
 * is printed.
 */

/** Control and format characters, lone surrogates, private use, and line and paragraph separators. */
const steering = "\\p{Cc}\\p{Cf}\\p{Cs}\\p{Co}\\p{Zl}\\p{Zp}"
const instead = "\ufffd"

const any = new RegExp(`[${steering}]`, "gu")
/** Text from outside, for use within a line. */
export const plain = (text: string): string => text.replace(any, instead)

const oursOrAny = new RegExp(`(\\n|\\t|\\u001b\\[[\\d;]*m)|[${steering}]`, "gu")
/** The last filter of everything that is printed: of the control characters only lines, tabs and colours pass. */
export const screened = (text: string): string => text.replace(oursOrAny, (_, ours?: string) => ours ?? instead)

const inJson = /[\u007f-\u009f\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/gu
const unit = (code: number): string => `\\u${code.toString(16).padStart(4, "0")}`
/** JSON with such characters written as escapes; the value stays the same. */
export const escaped = (json: string): string =>
  json.replace(inJson, (odd) => [...Array(odd.length).keys()].map((at) => unit(odd.charCodeAt(at))).join(""))

// Text for a shell.

/** Quoted for a shell where necessary. */
export const quoted = (text: string): string =>
  /^[A-Za-z0-9_./:=@%+,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`

/** The words as a line of a shell; none of them steers the terminal that shows it. */
export const shellLine = (...words: ReadonlyArray<string>): string => words.map((word) => quoted(plain(word))).join(" ")

/** `relay dlq replay crm:7` */
export const relayCommand = (...words: ReadonlyArray<string>): string => `relay ${shellLine(...words)}`
