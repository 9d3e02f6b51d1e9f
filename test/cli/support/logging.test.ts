import { describe, expect } from "bun:test"
import { fstatSync } from "node:fs"
import { Cause, Console, Effect, Layer, Stdio } from "effect"
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

  it.effect("has a priority before each line if systemd's journal reads it, and none elsewhere", function* () {
    const { dev, ino } = fstatSync(2, { bigint: true })
    for (const [stream, prefix] of [
      [`${dev}:${ino}`, ["<4>{", "<3>{", "<6>{"]],
      [`${dev}:${ino + 1n}`, ["{", "{", "{"]],
      ["", ["{", "{", "{"]],
    ] as const) {
      const journal = stderr(false, { JOURNAL_STREAM: stream })
      const all = Effect.all([Effect.logWarning("one"), Effect.logError("two"), Effect.logInfo("three")])
      yield* all.pipe(Effect.provide(Logging.layer(true)), Effect.provide(journal.services))
      expect(journal.written.map((line) => line.slice(0, line.indexOf("{") + 1))).toEqual([...prefix])
    }
  })

  it.effect("has a priority before each line of an error with its cause", function* () {
    const { dev, ino } = fstatSync(2, { bigint: true })
    const journal = stderr(false, { JOURNAL_STREAM: `${dev}:${ino}` })
    const failed = Effect.logError("failed", Cause.die(new Error("first\nsecond")))
    yield* failed.pipe(Effect.provide(Logging.layer(false)), Effect.provide(journal.services))
    const all = journal.written.join("\n").split("\n")
    expect(all.length).toBeGreaterThan(1)
    expect(all.filter((line) => !line.startsWith("<3>"))).toEqual([])
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
