import { describe, expect, test } from "bun:test"
import { Context, Effect, Exit, Layer, Logger, Redacted, Scope } from "effect"
import { TestClock } from "effect/testing"
import { RelayEvents } from "../../src/delivery/RelayEvents.ts"
import * as Warnings from "../../src/delivery/Warnings.ts"
import { Journal } from "../../src/journal/Journal.ts"
import { servicesOf } from "../../src/journal/JournalType.ts"
import { webhook } from "../ingest/fixture.ts"
import * as MemoryJournal from "../journal/MemoryJournal.ts"
import { whole } from "../journal/whole.ts"
import { activeConfig } from "../lib/activeConfig.ts"
import { it } from "../lib/effect.ts"
import { seeded } from "../lib/seeded.ts"

const day = 86_400_000
const expires = 100 * day
const secrets = [
  { name: "old", value: Redacted.make("a"), expires },
  { name: "new", value: Redacted.make("b") },
]
const route = { name: "own", match: ["relay.*"], except: [], where: {}, to: ["chat"] }

/** A journal, and relays that start and stop on it. `emitted` returns the own events about secrets in the journal. */
const starting = Effect.fnUntraced(function* (config: Parameters<typeof activeConfig>[0]) {
  const context = yield* Layer.build(MemoryJournal.layer)
  const journal = Context.get(context, Journal)
  const run = Effect.fnUntraced(function* () {
    const scope = yield* Scope.make()
    yield* Layer.build(
      Warnings.layer.pipe(
        Layer.provide(RelayEvents.layer),
        Layer.provide(activeConfig({ ...config, routes: [route] })),
        Layer.provide(Layer.succeedContext(context)),
      ),
    ).pipe(Scope.provide(scope))
    return { stop: Scope.close(scope, Exit.void) }
  })
  const emitted = Effect.map(Effect.orDie(journal.read(0, 100)), (entries) =>
    entries.map(({ event, sinks }) => {
      const { data, created_at } = JSON.parse(Buffer.from(event.body).toString())
      return { type: event.type, sinks, at: created_at, ...data.object }
    }),
  )
  return { run, emitted }
})

const start = starting({ webhooks: [webhook({ secrets })] })

describe("a certificate that expires", () => {
  const certificate = (notBefore: number, notAfter: number) => ({
    key: "tls.certificate",
    subject: "hooks.example.com",
    notBefore: notBefore * day,
    notAfter: notAfter * day,
    fingerprint: "AA",
  })
  const given = Effect.fnUntraced(function* (one: ReturnType<typeof certificate>, days: ReadonlyArray<number>) {
    const { run, emitted } = yield* starting({ certificates: [one] })
    const counts: Array<number> = []
    for (const at of days) {
      yield* TestClock.setTime(at * day - 1_800_000)
      const { stop } = yield* run()
      yield* TestClock.adjust("1 hour")
      yield* stop
      counts.push((yield* emitted).length)
    }
    return { counts, emitted: yield* emitted }
  })

  it.effect("is given 14 days before and when it has expired, once each", function* () {
    const { counts, emitted } = yield* given(certificate(0, 90), [75, 76, 76.5, 90, 90.5])
    expect(counts).toEqual([0, 1, 1, 2, 2])
    const facts = { sinks: ["chat"], certificate: "tls.certificate", subject: "hooks.example.com" }
    const expires_at = "1970-04-01T00:00:00.000Z"
    expect(emitted).toEqual([
      { ...facts, type: "relay.certificate_expiring", expires_at, at: "1970-03-18T00:00:00Z" },
      { ...facts, type: "relay.certificate_expired", expires_at, at: "1970-04-01T00:00:00Z" },
    ])
  })

  it.effect("is announced at the last third of its lifetime if that is shorter", function* () {
    expect((yield* given(certificate(0, 6), [3, 4, 5, 6])).counts).toEqual([0, 1, 1, 2])
  })
})

describe("a secret that expires", () => {
  it.effect("is announced 14 days, 3 days and 1 day before, once each; a secret without an expiry never", function* () {
    const { run, emitted } = yield* start
    for (const [at, count] of [
      [85, 0],
      [86, 1],
      [97, 2],
      [99, 3],
      [100, 3],
    ] as const) {
      yield* TestClock.setTime(at * day - 1_800_000)
      const { stop } = yield* run()
      yield* TestClock.adjust("1 hour")
      yield* TestClock.adjust("1 hour")
      yield* stop
      expect(yield* emitted).toHaveLength(count)
    }
    const expires_at = "1970-04-11T00:00:00.000Z"
    const facts = { type: "relay.secret_expiring", sinks: ["chat"], webhook: "scheduling", secret: "old", expires_at }
    expect(yield* emitted).toEqual([
      { ...facts, at: "1970-03-28T00:00:00Z" },
      { ...facts, at: "1970-04-08T00:00:00Z" },
      { ...facts, at: "1970-04-10T00:00:00Z" },
    ])
  })

  it.effect("is given once however often the relay starts", function* () {
    const { run, emitted } = yield* start
    yield* TestClock.adjust("90 days")
    for (let n = 0; n < 5; n++) {
      const { stop } = yield* run()
      yield* TestClock.adjust("1 hour")
      yield* stop
    }
    expect(yield* emitted).toHaveLength(1)
  })
})

describe("the log", () => {
  it.effect("names the secret and its day, once a notice", () => {
    const lines: Array<string> = []
    return Effect.gen(function* () {
      const { run } = yield* start
      yield* TestClock.setTime(90 * day)
      yield* run()
      yield* TestClock.adjust("3 hours")
      expect(lines).toEqual([
        "the secret old of the webhook scheduling expires within 14 days, at 1970-04-11T00:00:00.000Z: add its successor next to it",
      ])
    }).pipe(Effect.provide(Logger.layer([Logger.make(({ message }) => void lines.push(String(message)))])))
  })

  it.effect("names a certificate once before it expires, and once after", () => {
    const lines: Array<string> = []
    const facts = { key: "tls.certificate", subject: "hooks.example.com", fingerprint: "AA" }
    return Effect.gen(function* () {
      const { run } = yield* starting({ certificates: [{ ...facts, notBefore: 0, notAfter: 90 * day }] })
      yield* TestClock.setTime(90 * day - 3_600_000)
      yield* run()
      yield* TestClock.adjust("3 hours")
      expect(lines).toEqual(
        ["expires", "expired"].map(
          (word) =>
            `the certificate tls.certificate (hooks.example.com) ${word} at 1970-04-01T00:00:00.000Z: renew it, then reload`,
        ),
      )
    }).pipe(Effect.provide(Logger.layer([Logger.make(({ message }) => void lines.push(String(message)))])))
  })
})

test("the due notice is the shortest that has begun (1,000 seeds)", () => {
  for (let seed = 1; seed <= 1_000; seed++) {
    const left = Math.floor((seeded(seed)() - 0.2) * 25 * day)
    const due = Warnings.dueNotice(expires, expires - left)
    expect(due).toBe(
      left <= 0 || left > 14 * day ? undefined : left <= day ? day : left <= 3 * day ? 3 * day : 14 * day,
    )
  }
})

describe("a journal that is red", () => {
  it.effect("is logged at ERROR at each start, and as an event once, when the journal takes one", () => {
    const lines: Array<string> = []
    const logger = Logger.make(({ message, logLevel }) => void lines.push(`${logLevel}: ${message}`))
    return Effect.gen(function* () {
      const context = yield* Layer.build(MemoryJournal.layer)
      const memory = yield* Effect.provideContext(whole, context)
      let health: "starting" | "red" = "starting"
      let problems = ["Events 5 to 9 of the journal j.db are lost."]
      const status = Effect.map(memory.status, (status) => ({
        ...status,
        health,
        alarm: { lines: problems, since: 86_400_000 },
      }))
      const journal = Layer.succeedContext(servicesOf({ ...memory, status }))
      const run = Effect.fnUntraced(function* () {
        const scope = yield* Scope.make()
        yield* Layer.build(
          Warnings.layer.pipe(
            Layer.provide(RelayEvents.layer),
            Layer.provide(activeConfig({ routes: [route] })),
            Layer.provide(journal),
          ),
        ).pipe(Scope.provide(scope))
        yield* TestClock.adjust("10 seconds")
        return { stop: Scope.close(scope, Exit.void) }
      })
      const emitted = Effect.map(memory.read(0, 100), (entries) =>
        entries.map(({ event, sinks }) => {
          const { data, created_at } = JSON.parse(Buffer.from(event.body).toString())
          return [event.type, sinks, created_at, data.object.problem]
        }),
      )
      const first = yield* run()
      expect(yield* emitted).toEqual([])
      health = "red"
      yield* TestClock.adjust("10 seconds")
      problems = [...problems, "The journal j.db was deleted or emptied."]
      yield* TestClock.adjust("10 seconds")
      yield* first.stop
      yield* run()
      expect(yield* emitted).toEqual(
        problems.map((problem) => ["relay.journal_red", ["chat"], "1970-01-02T00:00:00Z", problem]),
      )
      const said = problems.map((problem) => `Error: the journal is red: ${problem}`)
      expect(lines).toEqual([...said, ...said])
    }).pipe(Effect.provide(Logger.layer([logger])))
  })
})
