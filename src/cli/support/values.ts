/** Parses and checks values of the command line: times, patterns of event types, and event types. */
import { Clock, Duration, Effect, Option, Record, Result } from "effect"
import { nearestType } from "../../event/Nearest.ts"
import type { EpochMillis, Millis } from "../../event/Quantities.ts"
import * as Pattern from "../../routing/Pattern.ts"
import { usage } from "./CommandError.ts"
import { plain } from "./output.ts"

// Times on the command line: `2026-11-20T08:00:00Z`, `2026-11-20`, `yesterday`, or `2h` for two hours ago.

const iso = /^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2})?)?$/
const spans = /^(\d+(?:\.\d+)?) ?(?:([smhdw])|(second|minute|hour|day|week)s?)$/

const dayMillis = 86_400_000

/** The words for days and their distance from today. A day begins at midnight UTC, like a date without a zone. */
const daysAgo: Readonly<Record<string, number>> = { today: 0, yesterday: 1 }

const units: Readonly<Record<string, string>> = { s: "second", m: "minute", h: "hour", d: "day", w: "week" }

/** Returns the milliseconds of a span such as `8h`, `8 hours` or `1.5 days`, or `undefined` if the text isn't one. */
const millisOf = (text: string): Millis | undefined => {
  const [, amount, letter = "", word = units[letter]] = spans.exec(text) ?? []
  return amount === undefined ? undefined : Duration.toMillis(`${Number(amount)} ${word}s` as Duration.Input)
}

/** Returns the time or the mistake in the text. A time without a zone is UTC, so that a command means the same everywhere. */
export const parseTime = (text: string, now: EpochMillis): Result.Result<EpochMillis, string> => {
  if (iso.test(text)) {
    const zoned = /(Z|[+-]\d{2}:\d{2})$/.test(text) || text.length === 10 ? text : `${text}Z`
    const millis = Date.parse(zoned.replace(" ", "T"))
    if (!Number.isNaN(millis)) return Result.succeed(millis)
  }
  const days = daysAgo[text]
  if (days !== undefined) return Result.succeed((Math.floor(now / dayMillis) - days) * dayMillis)
  const span = millisOf(text)
  return span === undefined
    ? Result.fail("a time is 2026-11-20T08:00:00Z, 2026-11-20, yesterday, or a span ago such as 2h")
    : Result.succeed(now - span)
}

/** Returns the milliseconds of a flag's span. */
export const spanOf = (flag: string, text: string) => {
  const span = millisOf(text)
  return span === undefined ? usage(`${flag} ${plain(text)}: a span is 30m, 8h, "8 hours" or 2d`) : Effect.succeed(span)
}

const flagName = (key: string): string => key.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)

/** Returns the times of the flags that were given. The key `deliveredAfter` is the flag `--delivered-after`. */
export const timesOf = Effect.fnUntraced(function* <K extends string>(
  flags: Readonly<Record<K, Option.Option<string>>>,
) {
  const now = yield* Clock.currentTimeMillis
  const times: { [key in K]?: EpochMillis } = {}
  for (const [key, text] of Record.toEntries<K, Option.Option<string>>(flags)) {
    if (Option.isNone(text)) continue
    const time = parseTime(text.value, now)
    if (Result.isFailure(time)) return yield* usage(`--${flagName(key)} ${plain(text.value)}: ${time.failure}`)
    times[key] = time.success
  }
  return times
})

// Checks the patterns of `--type` before the relay is called.

export const requirePatterns = Effect.fnUntraced(function* (types: ReadonlyArray<string>) {
  if (types.length === 0) return
  for (const type of types) {
    const wrong = Pattern.problem(type)
    if (wrong !== undefined) return yield* usage(`--type ${plain(type)}: ${wrong}`)
  }
})

// A hint for a mistyped event type: the nearest type of the catalogue.

/** Returns `: did you mean appointment.created?`, or an empty text if no type is near. */
export const suggestType = (type: string): string => {
  const near = nearestType(type)
  if (near === undefined) return ""
  return near.isBelow ? `: did you mean one of its own, such as ${near.type}?` : `: did you mean ${near.type}?`
}
