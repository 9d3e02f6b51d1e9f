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
import * as Raw from "../formats/Raw.ts"
import type { Entry } from "../journal/Journal.ts"
import {
  allSent,
  type Failures,
  type Sink,
  SinkError,
  SinkMisconfigured,
  type SinkType,
  SinkUnavailable,
} from "./Sink.ts"

// --- config ------------------------------------------------------------------

export const ConsoleConfig = Schema.Struct({
  format: Schema.Literals(["summary", "raw"])
    .annotate({ description: "`summary`: time, type, ids and sinks. `raw`: the signed body", default: "summary" })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed("summary"))),
})
export type ConsoleConfig = typeof ConsoleConfig.Type

/** Where lines go; standard output unless a test brings another. Never called before the last call came back. */
export interface Output {
  /** Writes some or all of the bytes: how many, or the system's error. */
  readonly write: (bytes: Uint8Array, done: (error: Error | null, written: number) => void) => void
  readonly color: boolean
}

// --- encode ------------------------------------------------------------------

/** Ids come from outside and must not steer a terminal. */
const plain = (text: string): string => text.replace(/\p{C}+/gu, "?")

const summary = ({ event, sinks, replayed }: Entry, color: boolean): string => {
  const dim = (text: string) => (color ? `\x1b[2m${text}\x1b[22m` : text)
  const type = event.type === "" ? "(no envelope)" : plain(event.type)
  const ids = [event.id, event.accountId].filter((id) => id !== "").map(plain)
  const facts = [...ids, `via ${plain(event.webhook)}`, `to ${sinks.join(", ")}`, ...(replayed ? ["replayed"] : [])]
  return `${dim(new Date(event.receivedAt).toISOString())}  ${type}  ${dim(facts.join("  "))}\n`
}

const lineFeed = Buffer.from("\n")

const encode = (entries: ReadonlyArray<Entry>, { format }: ConsoleConfig, color: boolean): Uint8Array =>
  format === "raw"
    ? Buffer.concat(entries.flatMap(({ event }) => [Raw.line(event), lineFeed]))
    : Buffer.from(entries.map((entry) => summary(entry, color)).join(""))

// --- send --------------------------------------------------------------------

/** A full pipe that does not block is looked at again after so many milliseconds. */
const lookAgain = 20

export const make = (config: ConsoleConfig, output: Output): Sink => {
  // A write can't be called back: one that its deadline gave up on is still under way, and none may overtake it.
  let writing = false

  const writeAll = (bytes: Uint8Array, ended: (error: Error | null) => void): void => {
    output.write(bytes, (error, written) => {
      if (error === null && written >= bytes.length) return ended(null)
      if (error === null) return writeAll(bytes.subarray(written), ended)
      if (codeOf(error) === "EAGAIN") setTimeout(() => writeAll(bytes, ended), lookAgain)
      else ended(error)
    })
  }

  return {
    batch: { maxEvents: 256, maxBytes: 1024 * 1024 },
    send: (entries) =>
      Effect.callback<Failures, SinkError>((resume) => {
        if (writing) return resume(Effect.fail(stuck))
        writing = true
        writeAll(encode(entries, config, output.color), (error) => {
          writing = false
          resume(error === null ? passed : Effect.fail(classify(error)))
        })
      }),
    check: Effect.void,
  }
}

const passed = Effect.succeed(allSent)

const stdout = (): Output => ({
  write: (bytes, done) => writeFile(1, bytes, done),
  color: process.stdout.isTTY === true && !process.env["NO_COLOR"],
})

// --- classify ----------------------------------------------------------------

const codeOf = (error: Error): string => ("code" in error && typeof error.code === "string" ? error.code : error.name)

const stuck = new SinkError({
  reason: new SinkUnavailable({ message: "standard output takes no lines: its terminal or reader has stopped" }),
})

const classify = (error: Error): SinkError => {
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
}
