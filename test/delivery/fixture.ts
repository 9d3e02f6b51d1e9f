/** Lanes over scripted sinks, a journal in memory and the test clock. */
import { Clock, Duration, Effect, Layer, Redacted } from "effect"
import { TestClock } from "effect/testing"
import type { ChangesPolicy, LaneConfig } from "../../src/config/Config.ts"
import type { LaneSpec } from "../../src/delivery/LaneSpec.ts"
import { Lanes } from "../../src/delivery/Lanes.ts"
import { RelayEvents } from "../../src/delivery/RelayEvents.ts"
import type { Entry } from "../../src/event/Event.ts"
import { Archive } from "../../src/journal/Archive.ts"
import { Journal } from "../../src/journal/Journal.ts"
import type * as Router from "../../src/routing/Router.ts"
import {
  allSent,
  DeliveryFailed,
  DeliveryRejected,
  type Failures,
  type Reason,
  type Sink,
  SinkError,
  SinkUnavailable,
} from "../../src/sinks/Sink.ts"
import * as MemoryJournal from "../journal/MemoryJournal.ts"
import { activeConfig } from "../lib/activeConfig.ts"

/** Decides how a scripted sink treats an event: it passes, it fails for a reason, or it is never answered. */
export type Script = (entry: Entry, attempt: number) => Reason | "pass" | "hang"

export const failed = new DeliveryFailed({ message: "answered 500", answer: Redacted.make("an error") })
export const rejected = new DeliveryRejected({ message: "answered 400", answer: Redacted.make("a refusal") })
export const tooLarge = new DeliveryRejected({ message: "larger than the sink accepts", ofEvent: true })
export const away = new SinkUnavailable({ message: "refused" })

export const scripted = (script: Script, maxEvents = 1) => {
  const tries = new Map<number, number>()
  const delivered: Array<number> = []
  const attempted: Array<number> = []
  const sink: Sink = {
    batch: { maxEvents, maxBytes: 1_000_000 },
    send: (batch) =>
      Effect.suspend((): Effect.Effect<Failures, SinkError> => {
        const failures = new Map<number, SinkError>()
        for (const [index, entry] of batch.entries()) {
          const attempt = (tries.get(entry.sequence) ?? 0) + 1
          tries.set(entry.sequence, attempt)
          attempted.push(entry.sequence)
          const outcome = script(entry, attempt)
          if (outcome === "hang") return Effect.never
          if (outcome === "pass") delivered.push(entry.sequence)
          else failures.set(index, new SinkError({ reason: outcome }))
        }
        return Effect.succeed(failures.size === 0 ? allSent : failures)
      }),
    check: Effect.void,
  }
  return { sink, delivered, attempted }
}

/** A policy whose alerts fire at their first failure. */
export const firingAtOnce: ChangesPolicy = {
  sends: "changes",
  resolves: true,
  after: { count: 1, within: Duration.minutes(10) },
  resolveAfter: Duration.days(1),
}

export const spec = (name: string, sink: Sink, overrides: Partial<LaneConfig> = {}): LaneSpec => ({
  config: {
    name,
    type: "scripted",
    delivery: {
      timeout: Duration.seconds(10),
      retry: { maxAge: Duration.hours(72), initial: Duration.seconds(1), max: Duration.seconds(5) },
      pauseAfter: 5,
      maxRetrying: 10_000,
      maxDeadLetters: 1_000_000_000,
    },
    concurrency: 4,
    order: "none",
    key: "{{account_id}}",
    config: undefined,
    ...overrides,
  },
  open: Effect.succeed(sink),
  key: (entry) => entry.event.accountId,
})

export const append = (
  count: number,
  sinks: ReadonlyArray<string>,
  account: (n: number) => string = () => "acct_1",
  type: (n: number) => string = () => "appointment.created",
) =>
  Effect.gen(function* () {
    const journal = yield* Journal
    const receivedAt = yield* Clock.currentTimeMillis
    const before = yield* journal.head
    for (let n = 1; n <= count; n++) {
      yield* Effect.forkChild(
        journal.append(
          {
            id: `evt_${before + n}`,
            type: type(n),
            accountId: account(n),
            webhook: "scheduling",
            webhookId: "wh_1",
            signature: "sha256=…",
            secret: "dev",
            receivedAt,
            body: new TextEncoder().encode(`{"n":${before + n}}`),
          },
          sinks,
        ),
        { startImmediately: true },
      )
    }
    yield* journal.awaitBeyond(before + count - 1)
  })

/** Advances the clock. All waits that end meanwhile end in order, each at its time. */
export const pass = (time: Duration.Input) => TestClock.adjust(time)

export const lanesOf = (specs: ReadonlyArray<LaneSpec>, routes: ReadonlyArray<Router.Route> = []) =>
  Lanes.layer({ specs, grace: () => Duration.zero }).pipe(
    Layer.provide(Layer.provide(RelayEvents.layer, activeConfig({ routes }))),
  )

export const relay = (specs: ReadonlyArray<LaneSpec>, routes: ReadonlyArray<Router.Route> = []) =>
  lanesOf(specs, routes).pipe(Layer.provideMerge(MemoryJournal.layer))

export const statusOf = Effect.fnUntraced(function* (name: string) {
  const lanes = yield* Lanes
  return (yield* lanes.status).find((lane) => lane.name === name)
})

export const letters = Effect.fnUntraced(function* (lane: string) {
  const archive = yield* Archive
  return yield* archive.deadLetters({ lane, limit: 1_000 })
})
