/** Commands print here: data to stdout, messages to stderr, control characters to neither. */
import { Console, Effect, Stdio } from "effect"
import { TerminalCapabilities } from "effect/cli"
import { escaped, plain, screened } from "../../formats/Terminal.ts"
import { Json } from "./flags.ts"
import { Columns, folded } from "./layout.ts"
import { Program } from "./Program.ts"

export { bytes, count, fromNow, instant, span } from "../../formats/Amounts.ts"
export { headedTable, table } from "./layout.ts"
export { plain }

/** A console that removes control characters from everything printed, logs and help included. */
export const screen = (console: Console.Console): Console.Console => {
  const through =
    (print: (...parts: ReadonlyArray<unknown>) => void) =>
    (...parts: ReadonlyArray<unknown>): void =>
      print(...parts.map((part) => (typeof part === "string" ? screened(part) : part)))
  const { log, warn, info, debug, trace } = console
  return {
    ...console,
    log: through(log),
    // On a terminal Bun's `error` makes all of a line red, whatever it says.
    error: through(warn),
    warn: through(warn),
    info: through(info),
    debug: through(debug),
    trace: through(trace),
  }
}

/** To stdout: data, which a script may read. */
export const print = (text: string): Effect.Effect<void> =>
  Effect.flatMap(Columns, ({ stdout }) => Console.log(folded(text, stdout)))
/** To stderr: messages. */
export const say = (text: string): Effect.Effect<void> =>
  Effect.flatMap(Columns, ({ stderr }) => Console.error(folded(text, stderr)))
/** Files, payloads and commands, which are copied: a terminal breaks their lines, and its copy has them whole. */
export const printWhole = (text: string): Effect.Effect<void> => Console.log(text)
export const sayWhole = (text: string): Effect.Effect<void> => Console.error(text)
/** The columns that tables on stdout have. */
export const width = Effect.map(Columns, ({ stdout }) => stdout)
export const toJson = (value: unknown, indent = 0): string => escaped(JSON.stringify(value, null, indent))
export const printJson = (value: unknown): Effect.Effect<void> => printWhole(toJson(value, 2))

/** Reports what was done: JSON for a script, a sentence otherwise. */
export const printDone = Effect.fnUntraced(function* (done: object, sentence: string) {
  yield* (yield* Json) ? printJson(done) : print(plain(sentence))
})

const codes = { red: 31, green: 32, yellow: 33, bold: 1, dim: 2 } as const
export type Paint = (style: keyof typeof codes, text: string) => string

export const painted =
  (isColoured: boolean): Paint =>
  (style, text) =>
    isColoured && text !== "" ? `\u001b[${codes[style]}m${text}\u001b[0m` : text

/** Colours where stdout is a terminal with colours and NO_COLOR is not set. */
export const paint: Effect.Effect<Paint> = Effect.map(TerminalCapabilities.TerminalCapabilities, ({ canColor }) =>
  painted(canColor),
)

const severities = { error: "red", warning: "yellow" } as const

/** A diagnostic's severity in its colour. */
export const marked =
  (style: Paint) =>
  (severity: keyof typeof severities): string =>
    style(severities[severity], severity)

/** Paints what goes to stderr. */
export const paintMessages = Effect.gen(function* () {
  const { env } = yield* Program
  const isTerminal = yield* (yield* Stdio.Stdio).stderrIsTerminal
  return painted(isTerminal && (env.NO_COLOR ?? "") === "")
})
