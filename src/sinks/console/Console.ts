/**
 * The console sink: a line an event on standard output, for a first look.
 *
 * **Promise.** A terminal that was stopped or a reader that is slow holds
 * nothing up but this sink. Without `format: "raw"` a line shows what an event
 * is, never what it holds.
 */
import { write as writeFile } from "node:fs"
import process from "node:process"
import { Effect, Schema } from "effect"
import type { Entry } from "../../event/Entry.ts"
import * as Shown from "../../formats/DisplayBytes.ts"
import * as Raw from "../../formats/Raw.ts"
import { escaped, plain } from "../../formats/Terminal.ts"
import {
  allSent,
  type Failures,
  type Sink,
  SinkError,
  SinkMisconfigured,
  type SinkType,
  SinkUnavailable,
} from "../Sink.ts"

// --- config ------------------------------------------------------------------

export const ConsoleConfig = Schema.Struct({
  format: Schema.Literals(["summary", "raw"])
    .annotate({ description: "`summary`: time, type, ids and sinks. `raw`: the signed body", default: "summary" })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed("summary"))),
})
export type ConsoleConfig = typeof ConsoleConfig.Type

/** Where lines go; standard output unless a test brings another. */
export interface Output {
  /** Writes some or all of the bytes: how many, or the system's error. Never called before the last call ended. */
  readonly write: (bytes: Uint8Array) => Promise<number>
  readonly color: boolean
  /** Whether a person looks: what is signed is then written as the same JSON without characters that steer. */
  readonly isTerminal: boolean
}

// --- encode ------------------------------------------------------------------

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
  const lines = Buffer.concat(entries.flatMap(({ event }) => [Raw.line(event), lineFeed]))
  return isTerminal ? Buffer.from(escaped(lines.toString("utf8"))) : lines
}

// --- send --------------------------------------------------------------------

/** A full pipe that does not block is looked at again after so many milliseconds. */
const lookAgain = 20

export const make = (config: ConsoleConfig, output: Output): Sink => {
  const writeAll = async (bytes: Uint8Array): Promise<void> => {
    for (let at = 0; at < bytes.length; ) {
      try {
        at += await output.write(bytes.subarray(at))
      } catch (error) {
        if (codeOf(error) !== "EAGAIN") throw error
        await new Promise((resolve) => setTimeout(resolve, lookAgain))
      }
    }
  }

  // A write can't be called back: the next waits for it even where its own deadline gave up on it.
  let last: Promise<void> = Promise.resolve()

  const send = (entries: ReadonlyArray<Entry>): Effect.Effect<Failures, SinkError> =>
    Effect.callback((resume) => {
      let isWanted = true
      const turn = last.then(() => (isWanted ? writeAll(encode(entries, config, output)) : undefined))
      last = turn.catch(() => {})
      turn.then(
        () => resume(passed),
        (error) => resume(Effect.fail(classify(error))),
      )
      return Effect.sync(() => {
        isWanted = false
      })
    })

  return { batch: { maxEvents: 256, maxBytes: 1024 * 1024 }, send, check: Effect.void }
}

const passed = Effect.succeed(allSent)

const stdout = (): Output => ({
  write: (bytes) =>
    new Promise((resolve, reject) => {
      writeFile(1, bytes, (error, written) => (error === null ? resolve(written) : reject(error)))
    }),
  color: process.stdout.isTTY === true && !process.env.NO_COLOR,
  isTerminal: process.stdout.isTTY === true,
})

// --- classify ----------------------------------------------------------------

const codeOf = (error: unknown): string => {
  if (!(error instanceof Error)) return "unknown error"
  return "code" in error && typeof error.code === "string" ? error.code : error.name
}

const classify = (error: unknown): SinkError => {
  const code = codeOf(error)
  // Nobody can open it again for this process.
  const gone = code === "EPIPE" || code === "EBADF" || code === "EIO"
  return new SinkError({
    reason: gone
      ? new SinkMisconfigured({
          message: `standard output is closed (${code}): start relay again with one, or take the console sink out of the config`,
        })
      : new SinkUnavailable({ message: `standard output can't be written (${code})` }),
  })
}

export const Console: SinkType<ConsoleConfig> = {
  type: "console",
  config: ConsoleConfig,
  concurrency: 1,
  open: (_, config) => Effect.sync(() => make(config, stdout())),
  preview: (config, batch) =>
    batch.map((entry) => ({
      line: Shown.show(encode([entry], config, { color: false, isTerminal: false }).subarray(0, -1)),
    })),
}
