/**
 * A sink that is open in another process, under another runtime or in a binary. Suites for local sinks run against it
 * unchanged.
 */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import process from "node:process"
import { Effect, Schema, type Scope } from "effect"
import { type Sink, SinkError } from "../../src/sinks/Sink.ts"
import { compile, denoBinary } from "../lib/programs.ts"
import type { Asked } from "./elsewhere.ts"

const script = join(import.meta.dir, "elsewhere.ts")

/** The command that starts the program, and a function to call when it runs. */
const program = (under: string): { readonly command: Array<string>; readonly running: () => void } => {
  if (under === "binary") {
    const binary = join(mkdtempSync(join(tmpdir(), "relay-elsewhere-")), "elsewhere")
    compile(script, binary)
    // The binary has 100 MB, and `bun test` exits without notice. A running process no longer needs its file.
    return { command: [binary], running: () => rmSync(dirname(binary), { recursive: true, force: true }) }
  }
  return {
    command: under === "deno" ? [denoBinary(), "run", "-A", script] : [process.execPath, script],
    running: () => {},
  }
}

interface Reply {
  readonly value?: unknown
  readonly error?: unknown
  /** An exception thrown in the process, which is a bug. */
  readonly defect?: string
}

type Call = (asked: Asked) => Effect.Effect<unknown, SinkError>

const start = (under: string): Call => {
  const { command, running } = program(under)
  const child = Bun.spawn(command, { stdin: "pipe", stdout: "pipe", stderr: "inherit" })
  const waiting = new Map<number, (reply: Reply) => void>()
  let calls = 0
  const listen = async () => {
    const decoder = new TextDecoder()
    let text = ""
    let isFirst = true
    for await (const chunk of child.stdout) {
      if (isFirst) running()
      isFirst = false
      const lines = (text + decoder.decode(chunk, { stream: true })).split("\n")
      text = lines.pop() ?? ""
      for (const line of lines) {
        const { id, ...reply } = JSON.parse(line)
        waiting.get(id)?.(reply)
      }
    }
    for (const resume of waiting.values()) resume({ defect: `the process under ${under} ended` })
  }
  void listen()

  const ask = (asked: Asked, resume: (reply: Reply) => void): number => {
    const id = calls++
    waiting.set(id, (reply) => {
      waiting.delete(id)
      resume(reply)
    })
    child.stdin.write(`${JSON.stringify({ id, asked }, base64)}\n`)
    child.stdin.flush()
    return id
  }
  return (asked) =>
    Effect.callback((resume) => {
      const call = ask(asked, ({ value, error, defect }) => {
        if (defect !== undefined) resume(Effect.die(new Error(defect)))
        else resume(error === undefined ? Effect.succeed(value) : Effect.fail(decodeError(error)))
      })
      // The interruption completes when the call has ended in the process.
      return Effect.callback((resume) => void ask({ do: "interrupt", call }, () => resume(Effect.void)))
    })
}

/** Encodes bytes as base64. It reads the original property, because `Buffer.toJSON` has already replaced `value`. */
function base64(this: object, key: string, value: unknown): unknown {
  const own: unknown = Reflect.get(this, key)
  return own instanceof Uint8Array ? Buffer.from(own).toString("base64") : value
}

const decodeError = Schema.decodeUnknownSync(SinkError)

/** One process for each runtime. It ends with this process, when its standard input ends. */
const started = new Map<string, Call>()

const callOf = (under: string): Call => {
  const call = started.get(under) ?? start(under)
  started.set(under, call)
  return call
}

/** Starts the process, which takes a while. */
export const startElsewhere = (under: string): Promise<void> =>
  Effect.runPromise(Effect.asVoid(callOf(under)({ do: "answer" })))

let sinks = 0

/** Opens a sink under `deno` or in a `binary`, from its config as written in the file. */
export const openElsewhere = (
  under: string,
  type: string,
  config: unknown,
): Effect.Effect<Sink, SinkError, Scope.Scope> =>
  Effect.gen(function* () {
    const call = callOf(under)
    const sink = sinks++
    const opened = yield* Effect.acquireRelease(call({ do: "open", sink, type, config }), () =>
      Effect.orDie(call({ do: "close", sink })),
    )
    const { batch, hasAdvice } = opened as { readonly batch: Sink["batch"]; readonly hasAdvice: boolean }
    return {
      // JSON can't express infinity.
      batch: { ...batch, maxBytes: batch.maxBytes ?? Number.POSITIVE_INFINITY },
      send: (batch) =>
        Effect.map(
          call({ do: "send", sink, batch }),
          (failures) =>
            new Map(
              (failures as ReadonlyArray<[number, unknown]>).map(([index, error]) => [index, decodeError(error)]),
            ),
        ),
      check: Effect.asVoid(call({ do: "check", sink })),
      ...(hasAdvice && {
        advise: (limits) => Effect.map(call({ do: "advise", sink, limits }), (told) => told as ReadonlyArray<string>),
      }),
    } satisfies Sink
  })
