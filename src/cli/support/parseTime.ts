/** Times on the command line: `2026-11-20T08:00:00Z`, `2026-11-20`, or `2 hours` for two hours ago. */
import { Duration, Effect, Option, Result } from "effect"
import { usage } from "./CommandError.ts"
import { plain } from "./output.ts"

const iso = /^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2})?)?$/
const ago = /^(\d+(?:\.\d+)?) ?(seconds?|minutes?|hours?|days?|weeks?)$/

const units: Readonly<Record<string, string>> = { s: "seconds", m: "minutes", h: "hours", d: "days", w: "weeks" }

/** Epoch milliseconds, or what is wrong with the text. A time without a zone is UTC, so that a command means the same everywhere. */
export const parseTime = (text: string, now: number): Result.Result<number, string> => {
  if (iso.test(text)) {
    const zoned = /(Z|[+-]\d{2}:\d{2})$/.test(text) || text.length === 10 ? text : `${text}Z`
    const millis = Date.parse(zoned.replace(" ", "T"))
    if (!Number.isNaN(millis)) return Result.succeed(millis)
  }
  const [, amount, unit] = ago.exec(text) ?? []
  const span = amount === undefined ? Option.none() : Duration.fromInput(`${amount} ${unit}` as Duration.Input)
  return Option.match(span, {
    onNone: () => {
      const [, short, letter = ""] = /^(\d+) ?([smhdw])$/.exec(text) ?? []
      const meant = short === undefined ? "" : `; did you mean "${short} ${units[letter]}"?`
      return Result.fail(`a time is 2026-11-20T08:00:00Z, 2026-11-20, or a span ago such as "2 hours"${meant}`)
    },
    onSome: (duration) => Result.succeed(now - Duration.toMillis(duration)),
  })
}

/** The time that a flag gives. */
export const timeFlag = (name: string, text: string, now: number) =>
  Result.match(parseTime(text, now), {
    onFailure: (why) => Effect.fail(usage(`--${name} ${plain(text)}: ${why}`)),
    onSuccess: (millis) => Effect.succeed(millis),
  })
