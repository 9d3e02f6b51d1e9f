import { describe, expect } from "bun:test"
import { Duration, Effect, Exit, Latch, Layer, Scope } from "effect"
import type { DigestPolicy } from "../../src/config/Config.ts"
import { RetryQueue } from "../../src/delivery/lane/RetryQueue.ts"
import type { Entry } from "../../src/event/Event.ts"
import { allSent, type Reason, type Sink, SinkError } from "../../src/sinks/Sink.ts"
import * as MemoryJournal from "../journal/MemoryJournal.ts"
import { whole } from "../journal/whole.ts"
import { it } from "../lib/effect.ts"
import { seeded } from "../lib/seeded.ts"
import { tries } from "../lib/tries.ts"
import { append, away, failed, lanesOf, letters, pass, rejected, relay, spec, statusOf } from "./fixture.ts"

/**
 * A sink that sends a batch as one message. `sent` has the batches sent to it, and `passed` the batches that it
 * accepted.
 */
const messages = (script: (message: number) => Reason | "pass" = () => "pass") => {
  const sent: Array<ReadonlyArray<number>> = []
  const passed: Array<ReadonlyArray<number>> = []
  const sink: Sink = {
    batch: { maxEvents: 1, maxBytes: 1_000 },
    send: (batch: ReadonlyArray<Entry>) =>
      Effect.suspend(() => {
        const sequences = batch.map((entry) => entry.sequence)
        sent.push(sequences)
        const outcome = script(sent.length)
        if (outcome !== "pass") return Effect.fail(new SinkError({ reason: outcome }))
        passed.push(sequences)
        return Effect.succeed(allSent)
      }),
    check: Effect.void,
  }
  return { sink, sent, passed }
}

const digests = (sink: Sink, digest: Partial<DigestPolicy> = {}) =>
  spec("chat", sink, {
    alert: { sends: "digest", resolves: false, wait: Duration.seconds(30), maxEvents: 100, ...digest },
  })

const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => from + index)

describe("a digest", () => {
  it.effect("is one message with all events of its group, when the window of the first of them ends", () => {
    const chat = messages()
    return Effect.gen(function* () {
      yield* append(3, ["chat"])
      yield* pass("20 seconds")
      yield* append(2, ["chat"])
      yield* pass("9 seconds")
      expect(chat.sent).toEqual([])
      yield* pass("2 seconds")
      expect(chat.sent).toEqual([[1, 2, 3, 4, 5]])
      yield* append(1, ["chat"])
      yield* pass("31 seconds")
      expect(chat.sent).toEqual([[1, 2, 3, 4, 5], [6]])
      expect(yield* statusOf("chat")).toMatchObject({ backlog: 0, retrying: 0, attempts: { delivered: 6 } })
    }).pipe(Effect.provide(relay([digests(chat.sink)])))
  })

  it.effect("holds one group only, and one group does not wait for another", () => {
    const chat = messages()
    return Effect.gen(function* () {
      yield* append(4, ["chat"], (n) => `acct_${n % 2}`)
      yield* pass("31 seconds")
      expect([...chat.sent].sort()).toEqual([
        [1, 3],
        [2, 4],
      ])
    }).pipe(Effect.provide(relay([digests(chat.sink)])))
  })

  it.effect("goes before its window ends once it is full", () => {
    const chat = messages()
    return Effect.gen(function* () {
      yield* append(7, ["chat"])
      yield* pass("1 second")
      expect(chat.sent).toEqual([
        [1, 2, 3],
        [4, 5, 6],
      ])
      yield* pass("31 seconds")
      expect(chat.sent.slice(2)).toEqual([[7]])
    }).pipe(Effect.provide(relay([digests(chat.sink, { maxEvents: 3 })])))
  })

  // Otherwise a crash in between would send the events of one message again as two messages. Found by the simulation.
  it.effect("goes when all of it is on disk, and the one before it is stored as sent", () => {
    const chat = messages()
    const disk = Latch.makeUnsafe(true)
    const slow = MemoryJournal.layerWith((journal) => ({
      settle: (settlements) => disk.whenOpen(journal.settle(settlements)),
    }))
    return Effect.gen(function* () {
      yield* pass("1 second")
      disk.closeUnsafe()
      yield* append(3, ["chat"])
      yield* pass("4 seconds")
      expect(chat.sent).toEqual([])
      disk.openUnsafe()
      yield* pass("1 second")
      expect(chat.sent).toEqual([[1, 2, 3]])
      yield* append(2, ["chat"])
      yield* pass("500 millis")
      yield* append(2, ["chat"], () => "acct_2")
      yield* pass("1 second")
      disk.closeUnsafe()
      yield* pass("4 seconds")
      expect(chat.sent.slice(1)).toEqual([[4, 5]])
      disk.openUnsafe()
      yield* pass("1 second")
      expect(chat.sent.slice(1)).toEqual([
        [4, 5],
        [6, 7],
      ])
    }).pipe(
      Effect.ensuring(Effect.sync(() => disk.openUnsafe())),
      Effect.provide(lanesOf([digests(chat.sink, { wait: Duration.seconds(2) })]).pipe(Layer.provideMerge(slow))),
    )
  })

  it.effect("is retried unchanged; events that arrive meanwhile form the next digest, which waits behind it", () => {
    let isDown = true
    const chat = messages(() => (isDown ? failed : "pass"))
    return Effect.gen(function* () {
      yield* append(3, ["chat"])
      yield* pass("31 seconds")
      yield* append(2, ["chat"])
      yield* pass("5 seconds")
      expect(chat.passed).toEqual([])
      isDown = false
      yield* pass("10 seconds")
      expect(chat.passed).toEqual([[1, 2, 3]])
      yield* pass("30 seconds")
      expect(chat.passed).toEqual([
        [1, 2, 3],
        [4, 5],
      ])
      const tries = chat.sent.slice(0, -1)
      expect(tries.length).toBeGreaterThan(2)
      expect(tries).toEqual(tries.map(() => [1, 2, 3]))
    }).pipe(Effect.provide(relay([digests(chat.sink)])))
  })

  it.effect("is given up as a whole: each event is a dead letter with the reason, the first with the answer", () => {
    const chat = messages((message) => (message === 1 ? failed : message === 2 ? rejected : "pass"))
    return Effect.gen(function* () {
      yield* append(30, ["chat"])
      // The digest's window, and the longest time that a retry waits.
      yield* pass("35 seconds")
      const dead = yield* letters("chat")
      expect(dead.map((letter) => letter.sequence).sort((a, b) => a - b)).toEqual(range(1, 30))
      expect(new Set(dead.map((letter) => letter.attempts.at(-1)?.reason))).toEqual(new Set(["DeliveryRejected"]))
      const answers = dead.map(({ sequence, attempts }) => [sequence, attempts.map(({ answer }) => answer)])
      expect(answers.toSorted()).toEqual(
        range(1, 30)
          .map((sequence) => [sequence, sequence === 1 ? ["an error", "a refusal"] : [undefined, undefined]])
          .toSorted(),
      )
      // Thirty events were rejected, but they were one message, so the lane is not blocked.
      yield* append(1, ["chat"])
      yield* pass("31 seconds")
      expect(chat.passed).toEqual([[31]])
    }).pipe(Effect.provide(relay([digests(chat.sink)])))
  })

  it.effect("that fails alone is not an outage, however many events it holds", () => {
    const chat = messages((message) => (message <= 8 ? failed : "pass"))
    return Effect.gen(function* () {
      yield* append(50, ["chat"])
      yield* pass("60 seconds")
      expect(yield* statusOf("chat")).toMatchObject({ condition: "running" })
      yield* pass("60 seconds")
      expect(chat.passed).toEqual([range(1, 50)])
    }).pipe(Effect.provide(relay([digests(chat.sink)])))
  })

  it.effect("waits out an outage and then goes once, with its attempts refunded", () => {
    let up = false
    const chat = messages(() => (up ? "pass" : away))
    return Effect.gen(function* () {
      yield* append(5, ["chat"], (n) => `acct_${n}`)
      yield* pass("2 minutes")
      expect(yield* statusOf("chat")).toMatchObject({ condition: "waiting", backlog: 5, deadLetters: 0 })
      up = true
      yield* pass("1 minute")
      expect(chat.passed.flat().sort()).toEqual([1, 2, 3, 4, 5])
    }).pipe(Effect.provide(relay([digests(chat.sink)])))
  })

  it.effect("survives a restart in the middle of its window", () => {
    const chat = messages()
    const run = <A, E, R>(body: Effect.Effect<A, E, R>) =>
      Effect.gen(function* () {
        const scope = yield* Scope.make()
        const lanes = yield* Layer.buildWithScope(lanesOf([digests(chat.sink)]), scope)
        const result = yield* Effect.provide(body, lanes)
        yield* Scope.close(scope, Exit.void)
        return result
      })
    return Effect.gen(function* () {
      yield* run(Effect.andThen(append(3, ["chat"]), pass("10 seconds")))
      expect(chat.sent).toEqual([])
      yield* run(Effect.andThen(append(2, ["chat"]), pass("15 seconds")))
      expect(chat.sent).toEqual([])
      yield* run(pass("6 seconds"))
      expect(chat.sent).toEqual([[1, 2, 3, 4, 5]])
      const journal = yield* whole
      expect((yield* journal.lanes).find(({ name }) => name === "chat")).toMatchObject({ backlog: 0, retrying: 0 })
    }).pipe(Effect.provide(MemoryJournal.layer))
  })

  it.effect("turns a thousand failures within a minute into a few messages, and loses none", () => {
    const chat = messages()
    return Effect.gen(function* () {
      for (let second = 0; second < 60; second += 10) {
        yield* append(167, ["chat"])
        yield* pass("10 seconds")
      }
      yield* pass("30 seconds")
      expect(chat.passed.flat()).toEqual(range(1, 6 * 167))
      expect(chat.passed.length).toBe(2)
      expect(yield* statusOf("chat")).toMatchObject({ backlog: 0 })
    }).pipe(Effect.provide(relay([digests(chat.sink, { maxEvents: 10_000 })])))
  })

  it.effect("counts as one message for the sink's rate limit", () => {
    const chat = messages()
    return Effect.gen(function* () {
      yield* append(300, ["chat"], (n) => `acct_${n % 3}`)
      yield* pass("40 seconds")
      expect(chat.passed.length).toBe(3)
    }).pipe(
      Effect.provide(
        relay([
          {
            ...digests(chat.sink),
            config: { ...digests(chat.sink).config, rateLimit: { events: 1, per: Duration.seconds(1) } },
          },
        ]),
      ),
    )
  })
})

describe("the retry queue of digests", () => {
  it.effect("returns each event once, in the order of its group, and at most one group's limit at a time", () =>
    Effect.sync(() => {
      for (let seed = 1; seed <= tries(200); seed++) {
        const random = seeded(seed)
        const most = 2 + Math.floor(random() * 5)
        const retries = new RetryQueue(most)
        const given = new Map<string, Array<number>>()
        let now = 0
        let sequence = 0
        const take = () => {
          for (let group = retries.takeDue(now, 1); group.length > 0; group = retries.takeDue(now, 1)) {
            expect(group.length).toBeLessThanOrEqual(most)
            const [first] = group
            expect(group.every(({ key }) => key === first?.key)).toBe(true)
            for (const one of group) {
              given.set(one.key, [...(given.get(one.key) ?? []), one.sequence])
              retries.remove(one.sequence, now)
            }
          }
        }
        const expected = new Map<string, Array<number>>()
        for (let step = 0; step < 100; step++) {
          now += Math.floor(random() * 10)
          const key = `acct_${Math.floor(random() * 3)}`
          sequence += 1
          expected.set(key, [...(expected.get(key) ?? []), sequence])
          retries.put({
            sequence,
            key,
            dueAt: now + 20,
            due: now + 20,
            delay: 20,
            firstAttemptAt: 0,
            tried: 0,
            defects: 0,
            taken: false,
          })
          if (random() < 0.5) take()
        }
        now += 1_000
        take()
        expect(given).toEqual(expected)
        expect(retries.size).toBe(0)
      }
    }),
  )
})
