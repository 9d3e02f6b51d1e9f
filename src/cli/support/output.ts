/** Prints the output of commands: data to stdout, messages to stderr. Control characters are removed. */
import { Console, Context, Effect, Stdio } from "effect"
import { TerminalCapabilities } from "effect/cli"
import { escaped, plain, screened } from "../../formats/Texts.ts"
import { Json } from "./flags.ts"
import { Program } from "./Program.ts"

// The layout of text for the terminal's width. Words are never broken or left out.

/** The columns of the terminal; `Infinity` if the stream isn't a terminal, so that a script reads whole lines. */
export class Columns extends Context.Reference<{ readonly stdout: number; readonly stderr: number }>(
  "relay/cli/Columns",
  { defaultValue: () => ({ stdout: Number.POSITIVE_INFINITY, stderr: Number.POSITIVE_INFINITY }) },
) {}

const esc = "\u001b"
const colours = new RegExp(`${esc}\\[[\\d;]*m`, "g")
const lengthOf = (text: string): number => text.replace(colours, "").length

/** Matches words. A command in backticks is one word, so that it is never split into lines. */
const words = /( *)((?:`[^`]*`|\S)+)/g

/** Returns the indent of continued lines. In a table's row it is the start of the last cell, if that is in the left half. */
const hangOf = (line: string, width: number): number => {
  const cells = [...line.matchAll(/\S {2,}(?=\S)/g)].map(({ 0: gap, index }) => index + gap.length)
  return cells.findLast((start) => start <= width / 2) ?? line.search(/\S/) + 2
}

/** Reports whether a line is a diagnostic's excerpt of a file or the mark below it. */
const isExcerpt = (line: string): boolean => /^ *\d* \| /.test(line)

const foldLine = (line: string, width: number): ReadonlyArray<string> => {
  if (lengthOf(line) <= width || isExcerpt(line)) return [line]
  const hang = hangOf(line.replace(colours, ""), width)
  const lines: Array<string> = []
  let last = ""
  for (const [, gap = "", word = ""] of line.matchAll(words)) {
    const longer = `${last}${gap}${word}`
    if (lengthOf(longer) <= width) {
      last = longer
      continue
    }
    if (last !== "") lines.push(last)
    const most = Math.max(0, width - lengthOf(word))
    last = `${" ".repeat(Math.min(last === "" ? gap.length : hang, most))}${word}`
  }
  return [...lines, last]
}

/** Breaks lines longer than `width` between words. A longer word gets its own line. */
export const folded = (text: string, width: number): string =>
  width === Number.POSITIVE_INFINITY
    ? text
    : text
        .split("\n")
        .flatMap((line) => foldLine(line, width))
        .join("\n")

type Row = ReadonlyArray<string>

const widthsOf = (rows: ReadonlyArray<Row>): Array<number> => {
  const widths: Array<number> = []
  for (const row of rows) {
    row.forEach((cell, column) => {
      widths[column] = Math.max(widths[column] ?? 0, cell.length)
    })
  }
  return widths
}

const margin = "  "

const aligned = (rows: ReadonlyArray<Row>): ReadonlyArray<string> => {
  const widths = widthsOf(rows)
  return rows.map(
    (row) =>
      margin +
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join("  ")
        .trimEnd(),
  )
}

/** Aligns columns without a heading. No column is cut, because names must be complete to be typed. */
export const table = (rows: ReadonlyArray<Row>): string => aligned(rows.map((row) => row.map(plain))).join("\n")

const fits = (lines: ReadonlyArray<string>, width: number): boolean => lines.every((line) => line.length <= width)

/** The minimum width of the last column when its text is broken into lines. */
const leastText = 24

/**
 * Returns the rows with the text of the last column broken into lines, or `undefined` if the other columns leave too
 * little space.
 */
const withText = (rows: ReadonlyArray<Row>, width: number): ReadonlyArray<string> | undefined => {
  const others = widthsOf(rows.map((row) => row.slice(0, -1)))
  const room = width - others.reduce((sum, one) => sum + one + 2, margin.length)
  const texts = rows.map((row) => folded(row.at(-1) ?? "", room).split("\n"))
  if (room < leastText || !texts.every((lines) => fits(lines, room))) return undefined
  return aligned(
    rows.flatMap((row, index) =>
      (texts[index] ?? []).map((text, line) => [...row.slice(0, -1).map((cell) => (line === 0 ? cell : "")), text]),
    ),
  )
}

/** Renders each row as a block with a line for each cell. */
const blocks = ([heading = [], ...rows]: ReadonlyArray<Row>, width: number): string =>
  rows
    .map((row) => folded(aligned(row.map((cell, column) => [heading[column] ?? "", cell])).join("\n"), width))
    .join("\n\n")

/**
 * Renders a table whose first row is the heading. If it is too wide, the columns of `spare` are left out one by one.
 * Then the last column's text is broken between words. If that still does not fit, each row is a block.
 */
export const headedTable = (width: number, rows: ReadonlyArray<Row>, spare: Row = []): string => {
  const clean = rows.map((row) => row.map(plain))
  const lines = aligned(clean)
  if (fits(lines, width)) return lines.join("\n")
  const [first, ...others] = spare
  if (first === undefined) return withText(clean, width)?.join("\n") ?? blocks(clean, width)
  const left = clean[0]?.indexOf(first) ?? -1
  const fewer = clean.map((row) => row.filter((_, column) => column !== left))
  return headedTable(width, fewer, others)
}

export { bytes, count, duration, fromNow, instant, span } from "../../formats/Texts.ts"
export { plain }

/** Makes a console that removes control characters from everything printed, including logs and help. */
export const screen = (console: Console.Console): Console.Console => {
  const through =
    (print: (...parts: ReadonlyArray<unknown>) => void) =>
    (...parts: ReadonlyArray<unknown>): void =>
      print(...parts.map((part) => (typeof part === "string" ? screened(part) : part)))
  const { log, warn, info, debug, trace } = console
  return {
    ...console,
    log: through(log),
    // On a terminal, Bun's `error` colours the whole line red.
    error: through(warn),
    warn: through(warn),
    info: through(info),
    debug: through(debug),
    trace: through(trace),
  }
}

/** Prints data to stdout, where a script may read it. */
export const print = (text: string): Effect.Effect<void> =>
  Effect.flatMap(Columns, ({ stdout }) => Console.log(folded(text, stdout)))
/** Prints a message to stderr. */
export const say = (text: string): Effect.Effect<void> =>
  Effect.flatMap(Columns, ({ stderr }) => Console.error(folded(text, stderr)))
/** Prints files, payloads and commands without breaking lines, so that they can be copied whole. */
export const printWhole = (text: string): Effect.Effect<void> => Console.log(text)
export const sayWhole = (text: string): Effect.Effect<void> => Console.error(text)
/** The width of tables on stdout. */
export const width = Effect.map(Columns, ({ stdout }) => stdout)
export const toJson = (value: unknown, indent = 0): string => escaped(JSON.stringify(value, null, indent))
export const printJson = (value: unknown): Effect.Effect<void> => printWhole(toJson(value, 2))

/** Reports a completed change: JSON for a script, a sentence otherwise. */
export const printDone = Effect.fnUntraced(function* (done: object, sentence: string) {
  yield* (yield* Json) ? printJson(done) : print(plain(sentence))
})

const codes = { red: 31, green: 32, yellow: 33, bold: 1, dim: 2 } as const
export type Paint = (style: keyof typeof codes, text: string) => string

export const painted =
  (isColoured: boolean): Paint =>
  (style, text) =>
    isColoured && text !== "" ? `\u001b[${codes[style]}m${text}\u001b[0m` : text

/** Adds colours if stdout is a terminal with colours and NO_COLOR is not set. */
export const paint: Effect.Effect<Paint> = Effect.map(TerminalCapabilities.TerminalCapabilities, ({ canColor }) =>
  painted(canColor),
)

const severities = { error: "red", warning: "yellow" } as const

/** Marks a diagnostic's severity with its colour. */
export const marked =
  (style: Paint) =>
  (severity: keyof typeof severities): string =>
    style(severities[severity], severity)

/** Paints messages for stderr. */
export const paintMessages = Effect.gen(function* () {
  const { env } = yield* Program
  const isTerminal = yield* (yield* Stdio.Stdio).stderrIsTerminal
  return painted(isTerminal && (env.NO_COLOR ?? "") === "")
})
