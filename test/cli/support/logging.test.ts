import { describe, expect } from "bun:test"
import { Console, Effect, Layer, Stdio } from "effect"
import { Json } from "../../../src/cli/support/flags.ts"
import * as Logging from "../../../src/cli/support/lifecycle.ts"
import { Program } from "../../../src/cli/support/Program.ts"
import { it } from "../../lib/effect.ts"

/** Makes a standard error that is a terminal or not. `written` has the lines written to it. */
const stderr = (isTerminal: boolean, env: Readonly<Record<string, string>> = {}) => {
  const written: Array<string> = []
  const console: Console.Console = { ...globalThis.console, error: (text: string) => void written.push(text) }
  const services = Layer.mergeAll(
    Stdio.layerTest({ stderrIsTerminal: Effect.succeed(isTerminal) }),
    Layer.succeed(Program, Program.of({ entry: new URL("file:///"), command: "relay", env })),
    Layer.succeed(Console.Console, console),
  )
  return { written, services }
}

const chosen = (isTerminal: boolean, format: "auto" | "text" | "json", json: boolean) =>
  Logging.isJson(format).pipe(Effect.provide(stderr(isTerminal).services), Effect.provideService(Json, json))

const say = Effect.logWarning("the sink said\u001b[2J").pipe(Effect.annotateLogs({ event: "evt_1" }))

describe("the log", () => {
  it.effect("is JSON without a terminal, unless a flag chooses otherwise", function* () {
    expect(yield* chosen(true, "auto", false)).toBe(false)
    expect(yield* chosen(false, "auto", false)).toBe(true)
    expect(yield* chosen(false, "text", false)).toBe(false)
    expect(yield* chosen(true, "json", false)).toBe(true)
    expect(yield* chosen(true, "text", true)).toBe(true)
  })

  it.effect("is a line a fact for a person, without anything that would speak to the terminal", function* () {
    const plain = stderr(false)
    yield* say.pipe(Effect.provide(Logging.layer(false)), Effect.provide(plain.services))
    expect(plain.written).toEqual(["1970-01-01T00:00:00.000Z WARN  the sink said\ufffd[2J  event=evt_1"])
  })

  it.effect("has colours on a terminal, and none with NO_COLOR", function* () {
    for (const [env, coloured] of [
      [{}, true],
      [{ NO_COLOR: "1" }, false],
    ] as const) {
      const terminal = stderr(true, env)
      yield* say.pipe(Effect.provide(Logging.layer(false)), Effect.provide(terminal.services))
      expect(terminal.written[0]?.includes("\u001b[33mWARN")).toBe(coloured)
    }
  })

  it.effect("reverses no text, as lines or as JSON, and keeps its content", function* () {
    for (const json of [false, true]) {
      const pipe = stderr(false)
      const line = Effect.logWarning("refused by a\u202eb\u200b").pipe(Effect.annotateLogs({ "k\u202e": "v\u2066" }))
      yield* line.pipe(Effect.provide(Logging.layer(json)), Effect.provide(pipe.services))
      expect(pipe.written.join("")).not.toMatch(/[\p{Cc}\p{Cf}]/u)
      if (json) {
        expect(JSON.parse(pipe.written[0] ?? "")).toMatchObject({
          message: "refused by a\u202eb\u200b",
          "k\u202e": "v\u2066",
        })
      }
    }
  })

  it.effect("is one JSON object per line for machines, with separate fields and none that is empty", function* () {
    const pipe = stderr(false)
    const line = Effect.annotateLogs(say, { webhook: "", status: 401 })
    yield* line.pipe(Effect.provide(Logging.layer(true)), Effect.provide(pipe.services))
    expect(pipe.written).toHaveLength(1)
    expect(pipe.written[0]).not.toContain("\n")
    expect(JSON.parse(pipe.written[0] ?? "")).toEqual({
      timestamp: "1970-01-01T00:00:00.000Z",
      level: "WARN",
      message: "the sink said\u001b[2J",
      event: "evt_1",
      status: 401,
    })
  })

  it.effect("shows people only once what is both in the text and in a field", function* () {
    const terminal = stderr(false)
    const line = Effect.logInfo("sink lake: answered 503, again").pipe(
      Effect.annotateLogs({ sink: "lake", status: 503, reason: "SinkThrottled" }),
    )
    yield* line.pipe(Effect.provide(Logging.layer(false)), Effect.provide(terminal.services))
    expect(terminal.written).toEqual([
      "1970-01-01T00:00:00.000Z INFO  sink lake: answered 503, again  reason=SinkThrottled",
    ])
  })
})
