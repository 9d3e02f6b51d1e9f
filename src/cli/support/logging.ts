/**
 * The log of `relay run`, on stderr: text on a terminal, JSON lines elsewhere.
 * Repeated lines are counted and reported together (`telemetry/Repeats.ts`).
 */
import { Cause, Clock, Effect, Formatter, Logger, Stdio } from "effect"
import { Flag } from "effect/cli"
import { escaped } from "../../formats/Terminal.ts"
import { Stderr } from "../../runtime/Stderr.ts"
import { limit } from "../../telemetry/Repeats.ts"
import { Json } from "./flags.ts"
import { count, type Paint, paintMessages, plain } from "./output.ts"

export const formatFlag = Flag.Literals("log-format", ["auto", "text", "json"]).pipe(
  Flag.withDescription("The log's format; auto: text on a terminal, JSON elsewhere"),
  Flag.withDefault("auto"),
)

/** Whether the log is JSON: by the flags, or because stderr is not a terminal. */
export const isJson = Effect.fnUntraced(function* (format: "auto" | "text" | "json") {
  if ((yield* Json) || format === "json") return true
  return format === "auto" && !(yield* (yield* Stdio.Stdio).stderrIsTerminal)
})

const text = (value: unknown): string => (typeof value === "string" ? value : Formatter.format(value))

/** A line's words, and its fields that hold something. */
const record = Logger.map(Logger.formatStructured, ({ timestamp, level, message, annotations, cause }) => ({
  timestamp,
  level,
  message: (Array.isArray(message) ? message : [message]).map(text).join(" "),
  fields: Object.fromEntries(Object.entries(annotations).filter(([, value]) => value !== "" && value != null)),
  cause,
}))

/** `{"timestamp":"…","level":"WARN","message":"…","sink":"lake","reason":"SinkUnavailable"}`. */
const json = Logger.map(record, ({ fields, cause, ...line }) =>
  escaped(Formatter.formatJson({ ...line, ...fields, cause })),
)

const styles: Readonly<Record<string, Parameters<Paint>[0]>> = { WARN: "yellow", ERROR: "red", FATAL: "red" }

/** `2026-11-21T03:04:55.694Z WARN  what happened  key=value`, without the fields that the words hold already. */
const lines = (style: Paint) =>
  Logger.map(record, ({ timestamp, level, message, fields, cause }) => {
    const said = new Set(message.split(/[\s,;()]+|:(?=\s|$)/))
    const facts = Object.entries(fields)
      .filter(([, value]) => !said.has(text(value)))
      .map(([key, value]) => `  ${plain(key)}=${plain(text(value))}`)
    const shown = style(styles[level] ?? "dim", level.padEnd(5))
    return `${style("dim", timestamp)} ${shown} ${plain(message)}${style("dim", facts.join(""))}${cause === undefined ? "" : `\n${cause}`}`
  })

const formatOf = (isJson: boolean) => (isJson ? Effect.succeed(json) : Effect.map(paintMessages, lines))

export const layer = (isJson: boolean) =>
  Logger.layer([Effect.flatMap(formatOf(isJson), (format) => limit(Logger.withConsoleError(format)))])

/** From here on the relay runs: a reader of stderr that stops must not stop it. */
export const neverBlock = Effect.fnUntraced(function* (isJson: boolean) {
  const format = yield* formatOf(isJson)
  const run = Effect.runSyncWith(yield* Effect.context<never>())
  const line = (message: string, dropped: number) =>
    Effect.withFiber((fiber) =>
      Effect.map(Clock.currentTimeMillis, (now) =>
        format.log({ message, logLevel: "Warn", cause: Cause.empty, fiber, date: new Date(now) }),
      ),
    ).pipe(Effect.annotateLogs({ dropped }))
  const notice = (dropped: number): string =>
    run(
      line(
        `${count(dropped, "line")} of the log ${dropped === 1 ? "is" : "are"} missing here: stderr was not read`,
        dropped,
      ),
    )
  const stderr = yield* Stderr
  yield* Effect.sync(() => stderr.neverBlock(notice))
})
