/**
 * The log of `relay run`, on stderr: text on a terminal, JSON lines elsewhere.
 * Repeated lines are counted and reported together (`telemetry/Repeats.ts`).
 */
import { Effect, Formatter, Logger, Stdio } from "effect"
import { Flag } from "effect/cli"
import { escaped } from "../../formats/Terminal.ts"
import { limit } from "../../telemetry/Repeats.ts"
import { Json } from "./flags.ts"
import { type Paint, painted, plain } from "./output.ts"
import { Program } from "./Program.ts"

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

const styles: Readonly<Record<string, Parameters<Paint>[0]>> = { WARN: "yellow", ERROR: "red", FATAL: "red" }

/** `2026-11-21T03:04:55.694Z WARN  what happened  key=value`. */
const lines = (style: Paint) =>
  Logger.map(Logger.formatStructured, ({ timestamp, level, message, annotations, cause }) => {
    const words = (Array.isArray(message) ? message : [message]).map((part) => plain(text(part))).join(" ")
    const facts = Object.entries(annotations).map(([key, value]) => `  ${plain(key)}=${plain(text(value))}`)
    const shown = style(styles[level] ?? "dim", level.padEnd(5))
    return `${style("dim", timestamp)} ${shown} ${words}${style("dim", facts.join(""))}${cause === undefined ? "" : `\n${cause}`}`
  })

const onStderr = Effect.fnUntraced(function* (json: boolean) {
  const { env } = yield* Program
  const isColoured = (yield* (yield* Stdio.Stdio).stderrIsTerminal) && (env.NO_COLOR ?? "") === ""
  return yield* limit(
    Logger.withConsoleError(json ? Logger.map(Logger.formatJson, escaped) : lines(painted(isColoured))),
  )
})

export const layer = (json: boolean) => Logger.layer([onStderr(json)])
