import { describe, expect, test } from "bun:test"
import { Effect, Fiber } from "effect"
import { type ConsoleConfig, make, type Output } from "../../../src/sinks/console/Console.ts"
import { it } from "../../lib/effect.ts"
import { bodies as linesOf } from "../../lib/lines.ts"
import { preview } from "../preview.ts"
import { bytes, entries, entry, envelope, reasonOf } from "../samples.ts"

/** An output that records the bytes written to it, at most `atOnce` a call. */
const captured = (atOnce = Number.POSITIVE_INFINITY, color = false, isTerminal = false) => {
  const chunks: Array<Uint8Array> = []
  const output: Output = {
    color,
    isTerminal,
    write: async (bytes) => {
      const written = bytes.slice(0, atOnce)
      chunks.push(written)
      return written.length
    },
  }
  return { output, bytes: () => Buffer.concat(chunks), text: () => Buffer.concat(chunks).toString() }
}

const raw: ConsoleConfig = { format: "raw" }
const summary: ConsoleConfig = { format: "summary" }

const failing = (code: string): Output => ({
  color: false,
  isTerminal: false,
  write: () => Promise.reject(Object.assign(new Error(`${code}: broken`), { code })),
})

describe("the console", () => {
  it.live("shows time, type, ids, webhook and sinks of an event, and nothing of its content", function* () {
    const { output, text } = captured()
    yield* make(summary, output).send([entry(1, { body: bytes('{"email":"a@example.com"}') })])
    expect(text()).toBe("2026-11-21T08:00:01.000Z  appointment.created  evt_1  acct_1  via scheduling  to audit\n")
  })

  it.live("shows that an event has no envelope, and that it is a replay", function* () {
    const { output, text } = captured()
    yield* make(summary, output).send([{ ...entry(1, { id: "", type: "", accountId: "" }), replayed: true }])
    expect(text()).toBe("2026-11-21T08:00:01.000Z  (no envelope)  via scheduling  to audit  replayed\n")
  })

  it.live("does not let an id steer the terminal", function* () {
    const { output, text } = captured()
    yield* make(summary, output).send([entry(1, { id: "evt_\x1b[2J\x07\r\n\u202eevil", type: "a.\x00b" })])
    expect(text()).not.toMatch(/\p{C}(?!$)/u)
    expect(text().split("\n")).toHaveLength(2)
  })

  it.live(
    "shows the signed JSON on a terminal without direction marks, and writes the exact bytes to a pipe",
    function* () {
      const body = '{"note":"a\u202eb\u200b\u2028\u{e0041}"}'
      const [pipe, terminal] = [captured(), captured(Number.POSITIVE_INFINITY, false, true)]
      yield* make(raw, pipe.output).send([entry(1, { body: bytes(body) })])
      yield* make(raw, terminal.output).send([entry(1, { body: bytes(body) })])
      expect(pipe.text()).toBe(`${body}\n`)
      expect(terminal.text()).toMatch(/^[ -~]+\n$/)
      expect(JSON.parse(terminal.text())).toEqual(JSON.parse(body))
    },
  )

  it.live("dims less important parts if there is color, and writes no escapes otherwise", function* () {
    const [plain, colored] = [captured(), captured(Number.POSITIVE_INFINITY, true)]
    yield* make(summary, plain.output).send([entry(1)])
    yield* make(summary, colored.output).send([entry(1)])
    expect(colored.text()).toContain("\x1b[2m")
    expect(colored.text().replaceAll("\x1b[2m", "").replaceAll("\x1b[22m", "")).toBe(plain.text())
  })

  it.live("says that a person must act when standard output is closed", function* () {
    for (const code of ["EPIPE", "EBADF"]) {
      const reason = yield* reasonOf(make(raw, failing(code)).send([entry(1)]))
      expect(reason).toMatchObject({ _tag: "SinkMisconfigured", message: expect.stringContaining(code) })
    }
    expect((yield* reasonOf(make(raw, failing("ENOSPC")).send([entry(1)])))?._tag).toBe("SinkUnavailable")
  })

  it.live("continues where a full pipe stopped it", function* () {
    const { output, bytes } = captured(10)
    let calls = 0
    const full: Output = {
      color: false,
      isTerminal: false,
      write: (bytes) => {
        calls += 1
        return calls % 3 === 0 ? Promise.resolve(0) : output.write(bytes)
      },
    }
    yield* make(raw, full).send(entries(1))
    expect(linesOf(bytes())).toHaveLength(1)
  })

  it.live("is not overtaken by a retry while its terminal has stopped", function* () {
    const { output, bytes } = captured()
    let release = () => {}
    const stopped = new Promise<void>((resolve) => {
      release = resolve
    })
    let begun = () => {}
    const hasBegun = new Promise<void>((resolve) => {
      begun = resolve
    })
    let writes = 0
    const sink = make(raw, {
      color: false,
      isTerminal: false,
      write: async (bytes) => {
        writes += 1
        begun()
        if (writes === 1) await stopped
        return await output.write(bytes)
      },
    })
    const first = yield* Effect.forkChild(sink.send([entry(1)]), { startImmediately: true })
    yield* Effect.promise(() => hasBegun)
    const second = yield* Effect.forkChild(sink.send([entry(2)]), { startImmediately: true })
    yield* Fiber.interrupt(first)
    yield* Fiber.interrupt(second)
    const third = yield* Effect.forkChild(sink.send([entry(3)]), { startImmediately: true })
    release()
    yield* Fiber.join(third)
    // The first write was in progress and can't be cancelled. The second had not started.
    expect(linesOf(bytes()).map((body) => JSON.parse(Buffer.from(body).toString()).id)).toEqual(["evt_1", "evt_3"])
  })
})

test("a preview of the console has its line", () => {
  expect(preview("console", { format: "raw" })).toEqual({ line: JSON.parse(JSON.stringify(envelope(1))) })
  expect(preview("console", {}).line).toBe(
    "2026-11-21T08:00:01.000Z  appointment.created  evt_1  acct_1  via scheduling  to audit",
  )
})
