/** A bug of a client library closes its sink. The events in flight wait, and the sink is opened again. */
import { describe, expect } from "bun:test"
import { AsyncLocalStorage } from "node:async_hooks"
import { Effect, Logger, type Scope } from "effect"
import type { LaneSpec } from "../../src/delivery/LaneSpec.ts"
import { Lanes } from "../../src/delivery/Lanes.ts"
import { contain } from "../../src/sinks/Containment.ts"
import type { Sink } from "../../src/sinks/Sink.ts"
import { it } from "../lib/effect.ts"
import { append, letters, pass, relay, scripted, spec, statusOf } from "./fixture.ts"

/** An exception as a runtime reports it to the process. No frame of its stack belongs to a library. */
const bug = (): Error =>
  Object.assign(new TypeError("undefined is no object"), { stack: "TypeError: it\n    at node:net:1:1" })

/** A sink that counts how often it was opened and closed, and can throw as its library would. */
const buggy = (name: string, sink: Sink) => {
  const seen = { opened: 0, closed: 0, throws: (): boolean => false }
  const open: Effect.Effect<Sink, never, Scope.Scope> = Effect.acquireRelease(
    Effect.sync(() => {
      seen.opened += 1
      const inContext = AsyncLocalStorage.snapshot()
      seen.throws = () => inContext(() => contain(bug()))
      return sink
    }),
    () =>
      Effect.sync(() => {
        seen.closed += 1
      }),
  )
  const lane: LaneSpec = { ...spec(name, sink), open }
  return { seen, lane }
}

describe("a bug in a sink's library", () => {
  it.effect("costs no event and no attempt: the sink is reopened after a second, and other sinks continue", () => {
    let away = true
    const bad = scripted(() => (away ? "hang" : "pass"))
    const good = scripted(() => "pass")
    const one = buggy("bad", bad.sink)
    const two = buggy("good", good.sink)
    const lines: Array<string> = []
    const logger = Logger.layer([Logger.make(({ logLevel, message }) => void lines.push(`${logLevel} ${message}`))])
    return Effect.gen(function* () {
      yield* append(3, ["bad", "good"])
      yield* pass("1 second")
      expect(one.seen.throws()).toBe(true)
      yield* pass("100 millis")
      expect(yield* statusOf("bad")).toMatchObject({
        bugs: 1,
        backlog: 3,
        retrying: 0,
        lastFailure: { message: expect.stringContaining("a bug in its client library (TypeError)") },
      })
      expect(one.seen).toMatchObject({ opened: 1, closed: 1 })
      expect(lines.filter((line) => line.startsWith("Error"))).toEqual([
        expect.stringMatching(/^Error sink bad: a bug in its client library \(TypeError\)/),
      ])
      away = false
      yield* pass("10 seconds")
      expect(bad.delivered.toSorted()).toEqual([1, 2, 3])
      expect(one.seen).toMatchObject({ opened: 2, closed: 1 })
      expect(yield* letters("bad")).toEqual([])
      expect(yield* statusOf("good")).toMatchObject({ bugs: 0, backlog: 0 })
      expect(good.delivered.toSorted()).toEqual([1, 2, 3])
      expect(two.seen).toMatchObject({ opened: 1, closed: 0 })
    }).pipe(Effect.provide(relay([one.lane, two.lane])), Effect.provide(logger))
  })

  it.effect("that recurs makes the wait longer", () => {
    const sink = scripted(() => "pass")
    const { seen, lane } = buggy("sink", sink.sink)
    return Effect.gen(function* () {
      yield* pass("1 second")
      for (const wait of [1, 2, 4, 8]) {
        const before = sink.delivered.length
        expect(seen.throws()).toBe(true)
        yield* append(1, ["sink"])
        yield* pass((wait - 0.5) * 1_000)
        expect(sink.delivered.length).toBe(before)
        yield* pass("35 seconds")
        expect(sink.delivered.length).toBe(before + 1)
      }
      expect(seen.opened).toBe(5)
    }).pipe(Effect.provide(relay([lane])))
  })

  it.effect("while it is opened fails the opening, which would wait for ever", () => {
    let stuck = true
    let throws = (): boolean => false
    const sink = scripted(() => "pass")
    const lane: LaneSpec = {
      ...spec("sink", sink.sink),
      open: Effect.suspend(() => {
        const inContext = AsyncLocalStorage.snapshot()
        throws = () => inContext(() => contain(bug()))
        return stuck ? Effect.never : Effect.succeed(sink.sink)
      }),
    }
    return Effect.gen(function* () {
      yield* pass("1 second")
      yield* append(1, ["sink"])
      expect(throws()).toBe(true)
      stuck = false
      yield* pass("10 seconds")
      expect(sink.delivered).toEqual([1])
    }).pipe(Effect.provide(relay([lane])))
  })

  it.effect("that appears after the sink was removed ends nothing", () => {
    const sink = scripted(() => "pass")
    const { seen, lane } = buggy("sink", sink.sink)
    return Effect.gen(function* () {
      yield* pass("1 second")
      yield* Effect.flatMap(Lanes, ({ change }) => change([], Effect.void))
      expect(seen.closed).toBe(1)
      expect(seen.throws()).toBe(true)
    }).pipe(Effect.provide(relay([lane])))
  })
})
