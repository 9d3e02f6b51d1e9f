/**
 * The console sink: a line an event on standard output, for a first look.
 * Without `format: "raw"` it shows what an event is, never what it holds.
 */
import { writeSync } from "node:fs"
import process from "node:process"
import { Effect, Schema } from "effect"
import { line } from "../formats/Lines.ts"
import { allSent, type Sink, SinkError, type SinkType, SinkUnavailable } from "./Sink.ts"

// --- config ------------------------------------------------------------------

export const ConsoleConfig = Schema.Struct({
  format: Schema.Literals(["summary", "raw"])
    .annotate({ description: "`summary`: time, type, ids. `raw`: the signed body" })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed("summary"))),
})
export type ConsoleConfig = typeof ConsoleConfig.Type

/** Where lines go; standard output unless a test brings another. */
export type Write = (bytes: Uint8Array) => void

const stdout: Write = (bytes) => {
  let written = 0
  while (written < bytes.length) written += writeSync(1, bytes, written)
}

// --- encode ------------------------------------------------------------------

const dim = (text: string): string =>
  process.stdout.isTTY === true && !process.env.NO_COLOR ? `\x1b[2m${text}\x1b[22m` : text

// --- send --------------------------------------------------------------------

export const make = (name: string, config: ConsoleConfig, write: Write = stdout): Sink => ({
  batch: { maxEvents: 256, maxBytes: 1024 * 1024 },
  send: (batch) =>
    Effect.try({
      try: () => {
        const lines = batch.map(({ event }) =>
          config.format === "raw"
            ? Buffer.concat([line(event), Buffer.from("\n")])
            : Buffer.from(
                `${dim(new Date(event.receivedAt).toISOString())} ${name}: ${event.type || "(no envelope)"} ${dim(`${event.id} ${event.accountId} via ${event.webhook}`)}\n`,
              ),
        )
        write(Buffer.concat(lines))
        return allSent
      },
      catch: (error) => classify(error),
    }),
  check: Effect.void,
})

// --- classify ----------------------------------------------------------------

const classify = (error: unknown): SinkError => {
  const code = error instanceof Error && "code" in error ? String(error.code) : "error"
  return new SinkError({ reason: new SinkUnavailable({ message: `standard output can't be written (${code})` }) })
}

export const Console: SinkType<ConsoleConfig> = {
  type: "console",
  config: ConsoleConfig,
  concurrency: 1,
  open: (name, config) => Effect.sync(() => make(name, config)),
}
