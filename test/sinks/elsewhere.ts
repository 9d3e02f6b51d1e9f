/**
 * Opens sinks and sends by them as standard input says, one call per line. It is the other side of `elsewhereSink.ts`.
 * It runs under Bun, under Deno and compiled, so that sinks are held to their contract under each.
 */
import process from "node:process"
import { createInterface } from "node:readline"
import { Cause, Effect, Exit, Fiber, Schema, Scope } from "effect"
import type { Entry } from "../../src/event/Event.ts"
import * as Jmespath from "../../src/formats/jmespath/Jmespath.ts"
import { type Limits, type Sink, SinkError } from "../../src/sinks/Sink.ts"
import { sinkTypes } from "../../src/sinks/SinkTypes.ts"

/** Requests: test that the process answers, open a sink under a number, use it, interrupt a call by its number. */
export type Asked =
  | { readonly do: "answer" }
  | { readonly do: "open"; readonly sink: number; readonly type: string; readonly config: unknown }
  | { readonly do: "send"; readonly sink: number; readonly batch: ReadonlyArray<Entry> }
  | { readonly do: "check" | "close"; readonly sink: number }
  | { readonly do: "advise"; readonly sink: number; readonly limits: Limits }
  | { readonly do: "interrupt"; readonly call: number }

const encodeError = Schema.encodeSync(SinkError)

/** Decodes bytes from base64, because JSON has no bytes. */
const revive = (key: string, value: unknown): unknown =>
  key === "body" && typeof value === "string" ? new Uint8Array(Buffer.from(value, "base64")) : value

const opened = new Map<number, { readonly sink: Sink; readonly scope: Scope.Closeable }>()
const calls = new Map<number, Fiber.Fiber<unknown, SinkError>>()

const open = Effect.fnUntraced(function* (number: number, type: string, config: unknown) {
  const sinkType = sinkTypes[type]
  if (sinkType === undefined) return yield* Effect.die(`no sink type ${type}`)
  // Loading a config with an expression does this, too.
  yield* Jmespath.load
  const scope = yield* Scope.make()
  const decoded = Schema.decodeUnknownSync(sinkType.config)(config)
  const sink = yield* Effect.onError(Scope.provide(sinkType.open(decoded), scope), (cause) =>
    Scope.close(scope, Exit.failCause(cause)),
  )
  opened.set(number, { sink, scope })
  return { batch: sink.batch, hasAdvice: sink.advise !== undefined }
})

const answer = (asked: Asked): Effect.Effect<unknown, SinkError> => {
  if (asked.do === "answer") return Effect.void
  if (asked.do === "open") return open(asked.sink, asked.type, asked.config)
  if (asked.do === "interrupt") {
    const call = calls.get(asked.call)
    return call === undefined ? Effect.void : Fiber.interrupt(call)
  }
  const found = opened.get(asked.sink)
  if (found === undefined) return Effect.die(`no sink ${asked.sink}`)
  const { sink, scope } = found
  switch (asked.do) {
    case "send":
      return Effect.map(sink.send(asked.batch), (failures) =>
        [...failures].map(([index, error]) => [index, encodeError(error)]),
      )
    case "check":
      return sink.check
    case "advise":
      return sink.advise?.(asked.limits) ?? Effect.succeed([])
    case "close":
      return Scope.close(scope, Exit.void)
  }
}

const reply = (exit: Exit.Exit<unknown, SinkError>) => {
  if (Exit.isSuccess(exit)) return { value: exit.value ?? null }
  const error = Cause.findErrorOption(exit.cause)
  return error._tag === "Some" ? { error: encodeError(error.value) } : { defect: Cause.pretty(exit.cause) }
}

for await (const line of createInterface({ input: process.stdin })) {
  const { id, asked }: { readonly id: number; readonly asked: Asked } = JSON.parse(line, revive)
  const call = Effect.runFork(answer(asked))
  calls.set(id, call)
  call.addObserver((exit) => {
    calls.delete(id)
    process.stdout.write(`${JSON.stringify({ id, ...reply(exit) })}\n`)
  })
}
process.exit(0)
