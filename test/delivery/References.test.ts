/** A service's reference to the message of an alert is stored with the alert, in the settlement of the message. */
import { describe, expect } from "bun:test"
import { Duration, Effect, Exit, Layer, Scope } from "effect"
import type { ChangesPolicy } from "../../src/config/Config.ts"
import type { Entry } from "../../src/event/Event.ts"
import { Archive } from "../../src/journal/Archive.ts"
import { fenced } from "../../src/journal/JournalError.ts"
import { allSent, type Reason, referring, type Sink, SinkError, sentAs } from "../../src/sinks/Sink.ts"
import * as MemoryJournal from "../journal/MemoryJournal.ts"
import { it } from "../lib/effect.ts"
import { append, away, failed, firingAtOnce, lanesOf, pass, relay, spec } from "./fixture.ts"

const failure = "connected_account.refresh_failed"
const fails = append(1, ["chat"], undefined, () => failure)
const recovers = append(1, ["chat"], undefined, () => "connected_account.reconnected")

type Outcome = Reason | "pass" | { readonly partly: Reason }

/**
 * A service that names its messages `m1`, `m2`, … and keeps its requests, such as `1: trigger` and `2: resolve of m1`.
 */
const naming = (script: (attempt: number) => Outcome = () => "pass") => {
  const got: Array<string> = []
  let [attempts, named] = [0, 0]
  const sink: Sink = {
    batch: { maxEvents: 1, maxBytes: 1_000_000 },
    send: ([entry]: ReadonlyArray<Entry>) =>
      Effect.suspend(() => {
        const outcome = script(++attempts)
        if (entry === undefined) return Effect.succeed(allSent)
        if (outcome !== "pass" && "_tag" in outcome) return Effect.fail(new SinkError({ reason: outcome }))
        const { sequence, alert } = entry
        const known = alert?.reference
        got.push(`${sequence}: ${alert?.action}${known === undefined ? "" : ` of ${known}`}`)
        const reference = known ?? `m${++named}`
        return outcome === "pass"
          ? Effect.succeed(sentAs(200, reference))
          : Effect.fail(referring(new SinkError({ reason: outcome.partly }), reference))
      }),
    check: Effect.void,
  }
  return { sink, got }
}

const alerting = (sink: Sink, more: Partial<ChangesPolicy> = {}) =>
  spec("chat", sink, { order: "key", alert: { ...firingAtOnce, ...more } })

describe("the reference to a message", () => {
  it.effect("is in the alert's later messages, also after a restart, and not in another alert's", () => {
    const { sink, got } = naming()
    const one = alerting(sink, { repeat: Duration.hours(1) })
    const run = <A, E, R>(body: Effect.Effect<A, E, R>) =>
      Effect.scoped(Effect.flatMap(Layer.build(lanesOf([one])), (lanes) => Effect.provide(body, lanes)))
    return Effect.gen(function* () {
      yield* run(Effect.andThen(fails, pass("61 minutes")))
      yield* run(Effect.andThen(recovers, pass("1 second")))
      yield* run(Effect.andThen(fails, pass("1 second")))
      yield* run(Effect.andThen(recovers, pass("1 second")))
      expect(got).toEqual(["1: trigger", "2: reminder of m1", "3: resolve of m1", "4: trigger", "5: resolve of m2"])
    }).pipe(Effect.provide(MemoryJournal.layer))
  })

  it.effect("is stored if the service took a part of the message, so that the next attempt completes it", () => {
    const { sink, got } = naming((attempt) => (attempt <= 2 ? { partly: attempt === 1 ? failed : away } : "pass"))
    return Effect.gen(function* () {
      yield* fails
      yield* pass("1 minute")
      expect(got).toEqual(["1: trigger", "1: trigger of m1", "1: trigger of m1"])
    }).pipe(Effect.provide(relay([alerting(sink)])))
  })

  it.effect("is lost with its settlement in a crash, and then the message is repeated", () => {
    let isKilled = false
    const { sink, got } = naming((attempt) => {
      isKilled = attempt === 1
      return "pass"
    })
    const journal = MemoryJournal.layerWith((memory) => ({
      settle: (settlements) =>
        Effect.suspend(() => (isKilled ? Effect.fail(fenced("killed")) : memory.settle(settlements))),
    }))
    return Effect.gen(function* () {
      const scope = yield* Scope.make()
      yield* Layer.buildWithScope(lanesOf([alerting(sink)]), scope)
      yield* fails
      yield* pass("1 second")
      yield* Scope.close(scope, Exit.void)
      isKilled = false
      yield* Layer.build(lanesOf([alerting(sink)]))
      yield* pass("1 second")
      yield* recovers
      yield* pass("1 second")
      expect(got).toEqual(["1: trigger", "1: trigger", "2: resolve of m2"])
    }).pipe(Effect.scoped, Effect.provide(journal))
  })

  it.effect("belongs to its own alert although others began while the sink was down", () => {
    let isDown = false
    const { sink, got } = naming(() => (isDown ? away : "pass"))
    return Effect.gen(function* () {
      for (let n = 0; n < 2; n++) {
        yield* fails
        yield* pass("1 second")
        isDown = true
        yield* recovers
        yield* pass("1 second")
      }
      yield* fails
      yield* pass("1 second")
      isDown = false
      yield* pass("10 minutes")
      yield* recovers
      yield* pass("1 second")
      expect(got).toEqual([
        ...["1: trigger", "2: resolve of m1", "3: trigger", "4: resolve of m2"],
        ...["5: trigger", "6: resolve of m3"],
      ])
    }).pipe(Effect.provide(relay([alerting(sink)])))
  })

  it.effect("stays the one of the alert's message if an operator replays a failure", () => {
    const { sink, got } = naming()
    return Effect.gen(function* () {
      const archive = yield* Archive
      yield* fails
      yield* pass("1 second")
      yield* archive.replay([{ sequence: 1, sinks: ["chat"] }])
      yield* pass("1 second")
      yield* recovers
      yield* pass("1 second")
      expect(got).toEqual(["1: trigger", "2: trigger", "3: resolve of m1"])
    }).pipe(Effect.provide(relay([alerting(sink)])))
  })
})
