/**
 * The console sink: one line per event on standard output.
 *
 * **Guarantee.** A stopped terminal or a slow reader delays this sink only.
 * Without `format: "raw"` a line shows no part of the payload.
 */
import process from "node:process"
import { Effect, Schema } from "effect"
import { oneOf } from "../../config/schema/Keys.ts"
import type { Entry } from "../../event/Event.ts"
import { displayBytes, rawLine } from "../../formats/Rendering.ts"
import { escaped, plain } from "../../formats/Texts.ts"
import { codeOf } from "../../runtime/Errors.ts"
import { type Write, writeAll, writerTo } from "../../runtime/Stderr.ts"
import { type Failures, misconfigured, passed, type Sink, type SinkError, type SinkType, unavailable } from "../Sink.ts"

export const ConsoleConfig = Schema.Struct({
  format: oneOf("`summary`: time, type, ids and sinks. `raw`: the signed body", ["summary", "raw"], "summary"),
})
export type ConsoleConfig = typeof ConsoleConfig.Type

/** The target of the lines: standard output, except in tests. */
export interface Output {
  readonly write: Write
  readonly color: boolean
  /** On a terminal, control characters are written as JSON escapes. */
  readonly isTerminal: boolean
}

const summary = ({ event, sinks, replayed }: Entry, color: boolean): string => {
  const dim = (text: string) => (color ? `\x1b[2m${text}\x1b[22m` : text)
  const type = event.type === "" ? "(no envelope)" : plain(event.type)
  const ids = [event.id, event.accountId].filter((id) => id !== "").map(plain)
  const facts = [...ids, `via ${plain(event.webhook)}`, `to ${sinks.join(", ")}`, ...(replayed ? ["replayed"] : [])]
  return `${dim(new Date(event.receivedAt).toISOString())}  ${type}  ${dim(facts.join("  "))}\n`
}

const lineFeed = Buffer.from("\n")

const encode = (
  entries: ReadonlyArray<Entry>,
  { format }: ConsoleConfig,
  { color, isTerminal }: Pick<Output, "color" | "isTerminal">,
): Uint8Array => {
  if (format === "summary") return Buffer.from(entries.map((entry) => summary(entry, color)).join(""))
  const lines = Buffer.concat(entries.flatMap(({ event }) => [rawLine(event), lineFeed]))
  return isTerminal ? Buffer.from(escaped(lines.toString("utf8"))) : lines
}

export const make = (config: ConsoleConfig, output: Output): Sink => {
  // A write can't be canceled: the next one waits for it, even after an interruption.
  let last: Promise<void> = Promise.resolve()

  const send = (entries: ReadonlyArray<Entry>): Effect.Effect<Failures, SinkError> =>
    Effect.callback((resume) => {
      let isWanted = true
      const turn = last.then(() => (isWanted ? writeAll(output.write, encode(entries, config, output)) : undefined))
      last = turn.catch(() => {})
      turn.then(
        () => resume(passed),
        (error) => resume(Effect.fail(classify(error))),
      )
      return Effect.sync(() => {
        isWanted = false
      })
    })

  return { batch: { maxEvents: 256, maxBytes: 1024 * 1024, isAwaited: true }, send, check: Effect.void }
}

const stdout = (): Output => ({
  write: writerTo(1),
  color: process.stdout.isTTY === true && !process.env.NO_COLOR,
  isTerminal: process.stdout.isTTY === true,
})

const classify = (error: unknown): SinkError => {
  const code = codeOf(error)
  // This process can't open it again.
  const gone = code === "EPIPE" || code === "EBADF" || code === "EIO"
  return gone
    ? misconfigured(
        `standard output is closed (${code}): start relay again with one, or take the console sink out of the config`,
      )
    : unavailable(`standard output can't be written (${code})`)
}

export const Console: SinkType<ConsoleConfig> = {
  config: ConsoleConfig,
  concurrency: 1,
  open: (config) => Effect.sync(() => make(config, stdout())),
  preview: (config, batch) =>
    batch.map((entry) => ({
      line: displayBytes(encode([entry], config, { color: false, isTerminal: false }).subarray(0, -1)),
    })),
}
