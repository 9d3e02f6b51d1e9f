import { describe, expect } from "bun:test"
import { Clock, Duration, Effect, Exit, Layer, Scope } from "effect"
import type { ChangesPolicy } from "../../src/config/Config.ts"
import type { LaneSpec } from "../../src/delivery/LaneSpec.ts"
import { Lanes } from "../../src/delivery/Lanes.ts"
import type { AlertNote, Entry } from "../../src/event/Event.ts"
import { Archive } from "../../src/journal/Archive.ts"
import { allSent, type Reason, type Sink, SinkError } from "../../src/sinks/Sink.ts"
import * as MemoryJournal from "../journal/MemoryJournal.ts"
import { it } from "../lib/effect.ts"
import {
  append,
  away,
  failed,
  firingAtOnce,
  lanesOf,
  letters,
  pass,
  rejected,
  relay,
  spec,
  statusOf,
} from "./fixture.ts"

const failure = "connected_account.refresh_failed"
const recovery = "connected_account.reconnected"

/** A sink that keeps its messages, as `1: trigger of 3`. */
const messages = (script: (message: number) => Reason | "pass" = () => "pass") => {
  const sent: Array<string> = []
  const notes: Array<AlertNote | undefined> = []
  let attempts = 0
  const sink: Sink = {
    batch: { maxEvents: 100, maxBytes: 1_000_000 },
    send: (batch: ReadonlyArray<Entry>) =>
      Effect.suspend(() => {
        const outcome = script(++attempts)
        if (outcome !== "pass") return Effect.fail(new SinkError({ reason: outcome }))
        sent.push(batch.map(({ sequence, alert }) => `${sequence}: ${alert?.action} of ${alert?.count}`).join("; "))
        notes.push(...batch.map(({ alert }) => alert))
        return Effect.succeed(allSent)
      }),
    check: Effect.void,
  }
  return { sink, sent, notes }
}

const alerting = (sink: Sink, alert: Partial<ChangesPolicy> = {}, name = "chat") =>
  spec(name, sink, { order: "key", alert: { ...firingAtOnce, ...alert } })

const fails = (count: number, account = "acct_1") =>
  append(
    count,
    ["chat"],
    () => account,
    () => failure,
  )
const recovers = (account = "acct_1") =>
  append(
    1,
    ["chat"],
    () => account,
    () => recovery,
  )

/** Returns how the event ended at the sink. */
const endOf = Effect.fnUntraced(function* (sequence: number) {
  const archive = yield* Archive
  const [found] = (yield* archive.events({ sequence, limit: 1 })).events
  const [sink] = found?.deliveries ?? []
  return `${sink?.outcome}${sink?.alert === undefined ? "" : ` in ${sink.alert}`}`
})
const ends = (...sequences: ReadonlyArray<number>) => Effect.forEach(sequences, endOf)

describe("a sink with `alert`", () => {
  it.effect("sends the first failure and the recovery, and counts the failures between them", () => {
    const chat = messages()
    return Effect.gen(function* () {
      yield* fails(3)
      yield* pass("1 second")
      expect(chat.sent).toEqual(["1: trigger of 3"])
      yield* fails(2)
      yield* pass("1 second")
      yield* recovers()
      yield* pass("1 second")
      expect(chat.sent).toEqual(["1: trigger of 3", "6: resolve of 5"])
      expect(yield* ends(1, 2, 5, 6)).toEqual(["delivered", "counted in 1", "counted in 1", "delivered"])
      expect(yield* statusOf("chat")).toMatchObject({ backlog: 0, retrying: 0 })
    }).pipe(Effect.provide(relay([alerting(chat.sink)])))
  })

  it.effect("sends nothing before `after` is reached, and keeps the alerts of other keys apart", () => {
    const chat = messages()
    const after = { count: 3, within: Duration.minutes(1) }
    return Effect.gen(function* () {
      yield* fails(2)
      yield* pass("2 minutes")
      yield* fails(2)
      yield* fails(2, "acct_2")
      yield* pass("1 second")
      expect(chat.sent).toEqual([])
      yield* fails(1)
      yield* pass("1 second")
      expect(chat.sent).toEqual(["7: trigger of 3"])
      expect(yield* ends(1, 2, 3, 5)).toEqual(["counted in 1", "counted in 1", "counted in 3", "counted in 5"])
      yield* recovers("acct_2")
      yield* pass("1 second")
      expect(chat.sent).toHaveLength(1)
      expect(yield* endOf(8)).toBe("counted in 5")
    }).pipe(Effect.provide(relay([alerting(chat.sink, { after })])))
  })

  it.effect("reminds while the alert lasts, with the failures since it began, and stops at the recovery", () => {
    const chat = messages()
    return Effect.gen(function* () {
      yield* fails(1)
      yield* pass("50 minutes")
      yield* fails(4)
      yield* pass("11 minutes")
      expect(chat.sent).toEqual(["1: trigger of 1", "6: reminder of 5"])
      yield* pass("58 minutes")
      expect(chat.sent).toHaveLength(2)
      yield* pass("3 minutes")
      expect(chat.sent).toHaveLength(3)
      yield* recovers()
      yield* pass("3 hours")
      expect(chat.sent.slice(2)).toEqual(["7: reminder of 5", "8: resolve of 5"])
      expect(yield* ends(6, 7)).toEqual(["delivered", "delivered"])
    }).pipe(Effect.provide(relay([alerting(chat.sink, { repeat: Duration.hours(1) })])))
  })

  it.effect("ends an alert without a new failure for `resolveAfter`, and tells sinks that get recoveries", () => {
    const [chat, quiet] = [messages(), messages()]
    const resolveAfter = Duration.hours(2)
    const other = alerting(quiet.sink, { resolveAfter, resolves: false }, "quiet")
    return Effect.gen(function* () {
      yield* append(1, ["chat", "quiet"], undefined, () => failure)
      yield* pass("1 hour")
      yield* append(1, ["chat", "quiet"], undefined, () => failure)
      yield* pass("119 minutes")
      expect(chat.sent).toEqual(["1: trigger of 1"])
      yield* pass("2 minutes")
      expect(chat.sent.slice(1)).toEqual([expect.stringMatching(/^[34]: resolve of 2$/)])
      expect(quiet.sent).toEqual(["1: trigger of 1"])
      yield* append(1, ["chat", "quiet"], undefined, () => failure)
      yield* pass("1 second")
      expect([chat.sent.at(-1), quiet.sent.at(-1)]).toEqual(["5: trigger of 1", "5: trigger of 1"])
    }).pipe(Effect.provide(relay([alerting(chat.sink, { resolveAfter }), other])))
  })

  it.effect("sends no reminder of an acknowledged alert, and ends one for an operator", () => {
    const chat = messages()
    return Effect.gen(function* () {
      const lanes = yield* Lanes
      yield* fails(1)
      yield* fails(1, "acct_2")
      yield* pass("1 second")
      expect(yield* lanes.ask("chat", 1, "acknowledgement")).toBe(true)
      expect(yield* lanes.ask("chat", 2, "resolution")).toBe(true)
      expect([yield* lanes.ask("chat", 3, "resolution"), yield* lanes.ask("lake", 1, "resolution")]).toEqual([
        false,
        false,
      ])
      yield* pass("1 second")
      expect(chat.sent).toEqual(["1: trigger of 1", "2: trigger of 1", "4: resolve of 1"])
      expect(yield* lanes.alerts).toMatchObject([
        { sink: "chat", id: 1, account: "acct_1", status: "acknowledged", count: 1, newest: 1, messages: 1 },
        { sink: "chat", id: 2, account: "acct_2", status: "resolved", count: 1, messages: 2 },
      ])
      yield* pass("25 minutes")
      yield* recovers()
      yield* pass("1 second")
      expect(chat.sent.slice(3)).toEqual(["5: resolve of 1"])
      expect(yield* ends(3, 4)).toEqual(["counted in 1", "delivered"])
    }).pipe(Effect.provide(relay([alerting(chat.sink, { repeat: Duration.minutes(10) })])))
  })

  it.effect("sends nothing about a muted alert, also after a restart, and one message at the end if it changed", () => {
    const chat = messages()
    const one = alerting(chat.sink, { repeat: Duration.minutes(10) })
    const run = <A, E, R>(body: Effect.Effect<A, E, R>) =>
      Effect.scoped(Effect.flatMap(Layer.build(lanesOf([one])), (lanes) => Effect.provide(body, lanes)))
    return Effect.gen(function* () {
      yield* run(
        Effect.gen(function* () {
          const { ask } = yield* Lanes
          for (const account of ["acct_1", "acct_2", "acct_3"]) yield* fails(1, account)
          yield* pass("1 second")
          const until = (yield* Clock.currentTimeMillis) + 3_600_000
          for (const id of [1, 2, 3]) expect(yield* ask("chat", id, "mute", until)).toBe(true)
          yield* pass("20 minutes")
        }),
      )
      expect(chat.sent).toEqual(["1: trigger of 1", "2: trigger of 1", "3: trigger of 1"])
      yield* run(
        Effect.gen(function* () {
          const lanes = yield* Lanes
          yield* fails(2)
          yield* recovers("acct_2")
          yield* pass("39 minutes")
          expect(chat.sent).toHaveLength(3)
          expect(yield* lanes.alerts).toMatchObject([
            { id: 1, status: "muted", count: 3, mutedUntil: 3_601_000 },
            { id: 2, status: "muted", count: 1 },
            { id: 3, status: "muted", count: 1 },
          ])
          yield* pass("62 seconds")
        }),
      )
      // The third alert has not changed. Its reminder is due, because it still lasts.
      const [first, second, third, ...rest] = chat.sent.slice(3).toSorted()
      expect(first).toMatch(/reminder of 3$/)
      expect([second, third, ...rest].join()).toMatch(/^\d+: resolve of 1,\d+: reminder of 1$/)
    }).pipe(Effect.provide(MemoryJournal.layer))
  })

  it.effect("mutes its alerts while it is paused with a digest at the end", () => {
    const chat = messages()
    return Effect.gen(function* () {
      const lanes = yield* Lanes
      yield* fails(1)
      yield* fails(1, "acct_2")
      yield* pass("1 second")
      yield* lanes.mute("chat", (yield* Clock.currentTimeMillis) + 3_600_000, "digest")
      yield* recovers("acct_2")
      for (const account of ["acct_1", "acct_3", "acct_4"]) {
        yield* fails(2, account)
        yield* pass("1 second")
      }
      yield* recovers("acct_4")
      yield* pass("59 minutes")
      expect(chat.sent).toHaveLength(2)
      yield* pass("1 minute")
      const said = chat.sent.slice(2).map((message) => message.replace(/^\d+: /, ""))
      expect(said.toSorted()).toEqual(["reminder of 3", "resolve of 1", "trigger of 2"])
      expect(yield* ends(3, 4, 5, 6, 7)).toEqual([
        "counted in 2",
        "counted in 1",
        "counted in 1",
        "counted in 6",
        "counted in 6",
      ])
      expect(yield* lanes.alerts).toMatchObject([
        { id: 6, status: "firing" },
        { id: 1, status: "firing" },
        { id: 8, status: "resolved" },
        { id: 2, status: "resolved" },
      ])
    }).pipe(Effect.provide(relay([alerting(chat.sink)])))
  })

  it.effect("counts the failures that a firing alert of their account silences, also after a restart", () => {
    const chat = messages()
    const inhibitedBy = { match: [failure], by: ["account_id"] }
    const one = {
      ...alerting(chat.sink, { inhibitedBy }),
      key: ({ event }: Entry) => `${event.accountId} ${event.type}`,
    }
    const meetingFails = append(2, ["chat"], undefined, () => "appointment.meeting.create_failed")
    const run = <A, E, R>(body: Effect.Effect<A, E, R>) =>
      Effect.scoped(Effect.flatMap(Layer.build(lanesOf([one])), (lanes) => Effect.provide(body, lanes)))
    return Effect.gen(function* () {
      yield* run(Effect.andThen(fails(1), pass("1 second")))
      yield* run(Effect.andThen(meetingFails, pass("1 second")))
      expect(chat.sent).toEqual(["1: trigger of 1"])
      expect(yield* ends(2, 3)).toEqual(["counted in 1", "counted in 1"])
    }).pipe(Effect.provide(MemoryJournal.layer))
  })

  it.effect("sends the messages of quiet hours when these end, in order, and others at once", () => {
    const chat = messages()
    // The test begins at midnight, UTC.
    const within = { hours: { from: 60, to: 120 }, timeZone: "UTC", outside: "later" } as const
    return Effect.gen(function* () {
      yield* fails(1)
      yield* pass("10 minutes")
      yield* recovers()
      yield* fails(1, "acct_2")
      yield* pass("48 minutes")
      expect(chat.sent).toEqual([])
      yield* pass("3 minutes")
      expect(chat.sent.toSorted()).toEqual(["1: trigger of 1", "2: resolve of 1", "3: trigger of 1"])
      expect(chat.sent.indexOf("1: trigger of 1")).toBeLessThan(chat.sent.indexOf("2: resolve of 1"))
      yield* recovers("acct_2")
      yield* pass("1 second")
      expect(chat.sent[3]).toBe("4: resolve of 1")
    }).pipe(Effect.provide(relay([alerting(chat.sink, { within })])))
  })

  describe("whose quiet hours end with a digest", () => {
    // The test begins at midnight, UTC.
    const within = { hours: { from: 60, to: 120 }, timeZone: "UTC", outside: "digest" } as const
    const repeat = Duration.minutes(10)

    it.effect("sends what quiet hours brought to each alert as one message, and later messages by themselves", () => {
      const chat = messages()
      const lanes = lanesOf([alerting(chat.sink, { within, repeat })])
      return Effect.gen(function* () {
        yield* Effect.andThen(fails(1), pass("15 minutes")).pipe(Effect.provide(lanes))
        yield* Effect.gen(function* () {
          yield* recovers()
          yield* fails(2, "acct_2")
          yield* pass("44 minutes")
          expect(chat.sent).toEqual([])
          yield* pass("2 minutes")
          expect(chat.sent.toSorted()).toEqual(["1: trigger of 1; 2: resolve of 1", "3: trigger of 2"])
          yield* recovers("acct_2")
          yield* pass("1 second")
          expect(chat.sent.slice(2)).toEqual(["5: resolve of 2"])
          expect(yield* ends(1, 2, 3, 4, 5)).toEqual([
            ...["delivered", "delivered", "delivered", "counted in 3", "delivered"],
          ])
        }).pipe(Effect.provide(lanes))
      }).pipe(Effect.provide(MemoryJournal.layer))
    })

    it.effect("sends all alerts in one message to a sink without recoveries, with one reminder of each", () => {
      const chat = messages()
      const evening = { ...within, hours: { from: 60, to: 3 } }
      return Effect.gen(function* () {
        yield* fails(1)
        yield* pass("4 minutes")
        expect(chat.sent).toEqual(["1: trigger of 1"])
        yield* fails(2, "acct_2")
        yield* pass("55 minutes")
        expect(chat.sent).toHaveLength(1)
        yield* pass("3 minutes")
        expect(chat.sent.slice(1)).toEqual(["2: trigger of 2; 4: reminder of 1"])
        yield* pass("10 minutes")
        expect(chat.sent.slice(2).toSorted()).toEqual(["5: reminder of 1", "6: reminder of 2"])
      }).pipe(Effect.provide(relay([alerting(chat.sink, { within: evening, repeat, resolves: false })])))
    })

    it.effect("sends a message for each alert to a sink without recoveries if each alert is an incident there", () => {
      const pager = messages()
      return Effect.gen(function* () {
        yield* fails(1)
        yield* fails(2, "acct_2")
        yield* pass("61 minutes")
        expect(pager.sent.toSorted()).toEqual(["1: trigger of 1", "2: trigger of 2"])
      }).pipe(Effect.provide(relay([alerting(pager.sink, { within, resolves: false, incidents: true })])))
    })

    it.effect("lets no later message overtake it while the sink is down, and keeps it whole", () => {
      let isDown = true
      const chat = messages(() => (isDown ? away : "pass"))
      return Effect.gen(function* () {
        yield* fails(1)
        yield* pass("61 minutes")
        yield* recovers()
        yield* pass("1 minute")
        expect(chat.sent).toEqual([])
        isDown = false
        yield* pass("1 minute")
        expect(chat.sent.join("; ")).toBe("1: trigger of 1; 2: resolve of 1")
      }).pipe(Effect.provide(relay([alerting(chat.sink, { within })])))
    })

    it.effect("lets no later message overtake it while it waits for a retry", () => {
      const chat = messages((attempt) => (attempt === 1 ? failed : "pass"))
      return Effect.gen(function* () {
        yield* fails(1)
        yield* pass("60 minutes")
        expect(yield* statusOf("chat")).toMatchObject({ retrying: 1 })
        yield* recovers()
        yield* pass("1 minute")
        expect(chat.sent.join("; ")).toBe("1: trigger of 1; 2: resolve of 1")
      }).pipe(Effect.provide(relay([alerting(chat.sink, { within })])))
    })

    it.effect("makes each event of a refused message a dead letter, whose replay is sent by itself", () => {
      const chat = messages((attempt) => (attempt === 1 ? rejected : "pass"))
      return Effect.gen(function* () {
        yield* fails(1)
        yield* recovers()
        yield* pass("61 minutes")
        expect((yield* letters("chat")).map(({ sequence }) => sequence).toSorted()).toEqual([1, 2])
        yield* (yield* Archive).replay([{ sequence: 1, sinks: ["chat"] }])
        yield* pass("1 second")
        expect(chat.sent).toEqual([expect.stringContaining(": trigger of 1")])
      }).pipe(Effect.provide(relay([alerting(chat.sink, { within })])))
    })
  })

  it.effect("keeps the messages of an alert in order while the sink is down, and reminds of none", () => {
    let isDown = true
    const chat = messages(() => (isDown ? away : "pass"))
    return Effect.gen(function* () {
      yield* fails(2)
      yield* pass("25 minutes")
      yield* recovers()
      yield* pass("1 second")
      expect(chat.sent).toEqual([])
      isDown = false
      yield* pass("10 minutes")
      expect(chat.sent).toEqual(["1: trigger of 2", "3: resolve of 2"])
    }).pipe(Effect.provide(relay([alerting(chat.sink, { repeat: Duration.minutes(10) })])))
  })

  it.effect("sends the end of an alert that waited for the sink, although another alert came and went", () => {
    let isDown = false
    const chat = messages(() => (isDown ? away : "pass"))
    const after = { count: 2, within: Duration.minutes(10) }
    return Effect.gen(function* () {
      yield* fails(2)
      yield* pass("1 second")
      isDown = true
      yield* pass("61 minutes")
      yield* fails(1)
      yield* recovers()
      yield* pass("1 second")
      isDown = false
      yield* pass("10 minutes")
      expect(chat.sent).toEqual(["2: trigger of 2", expect.stringContaining("3: resolve")])
      expect(yield* ends(3, 4, 5)).toEqual(["delivered", "counted in 4", "counted in 4"])
    }).pipe(Effect.provide(relay([alerting(chat.sink, { after, resolveAfter: Duration.hours(1) })])))
  })

  it.effect("retries a reminder, and keeps it as a dead letter if it is refused", () => {
    const chat = messages((attempt) => (attempt === 2 ? failed : attempt === 3 ? rejected : "pass"))
    return Effect.gen(function* () {
      yield* fails(1)
      yield* pass("62 minutes")
      expect(yield* letters("chat")).toMatchObject([{ sequence: 2, entry: { event: { type: "relay.alert" } } }])
      expect(chat.sent).toEqual(["1: trigger of 1"])
    }).pipe(Effect.provide(relay([alerting(chat.sink, { repeat: Duration.hours(1) })])))
  })

  it.effect(
    "wakes a lane without alerts never, and a lane with one at most once a minute until something is due",
    () => {
      /**
       * Returns how often a lane sleeps in ten minutes, without the rest of the relay. They begin 50 minutes before the
       * reminder.
       */
      const sleepsOf = Effect.fnUntraced(function* (failures: number, one: LaneSpec) {
        const clock = yield* Clock.Clock
        let sleeps = 0
        const sleep: typeof clock.sleep = (duration) => {
          sleeps += 1
          return clock.sleep(duration)
        }
        yield* Effect.gen(function* () {
          yield* fails(failures)
          yield* pass("10 minutes")
          sleeps = 0
          yield* pass("10 minutes")
        }).pipe(Effect.provide(relay([one])), Effect.provideService(Clock.Clock, { ...clock, sleep }))
        return sleeps
      })
      return Effect.gen(function* () {
        const idle = yield* sleepsOf(0, spec("chat", messages().sink))
        expect(yield* sleepsOf(0, alerting(messages().sink))).toBe(idle)
        const reminding = alerting(messages().sink, { repeat: Duration.hours(1) })
        expect(yield* sleepsOf(3, reminding)).toBeLessThanOrEqual(idle + 11)
      })
    },
  )

  it.effect("reminds on time, also after a pause and beside a newer alert", () => {
    const chat = messages()
    return Effect.gen(function* () {
      const { pause, resume } = yield* Lanes
      yield* fails(1)
      yield* pass("3599 seconds")
      expect(chat.sent).toEqual(["1: trigger of 1"])
      yield* pass("2 seconds")
      expect(chat.sent.slice(1)).toEqual(["2: reminder of 1"])
      yield* pause("chat")
      yield* pass("3 hours")
      expect(chat.sent).toHaveLength(2)
      yield* resume("chat")
      yield* pass("2 seconds")
      expect(chat.sent.slice(2)).toEqual(["3: reminder of 1"])
      yield* fails(1, "acct_2")
      yield* pass("3601 seconds")
      expect(chat.sent.slice(3).toSorted()).toEqual(["4: trigger of 1", "5: reminder of 1", "6: reminder of 1"])
    }).pipe(Effect.provide(relay([alerting(chat.sink, { repeat: Duration.hours(1) })])))
  })

  it.effect("ends an alert whose newest failure is erased, without a message", () => {
    const chat = messages()
    return Effect.gen(function* () {
      const lanes = yield* Lanes
      const archive = yield* Archive
      yield* fails(2)
      yield* pass("1 second")
      yield* archive.erase([2], false)
      yield* pass("62 minutes")
      expect(chat.sent).toEqual(["1: trigger of 2"])
      expect(yield* endOf(3)).toBe("counted in 1")
      expect(yield* lanes.alerts).toEqual([])
      expect(yield* statusOf("chat")).toMatchObject({ backlog: 0, retrying: 0 })
      yield* fails(1)
      yield* pass("1 second")
      expect(chat.sent.slice(1)).toEqual(["4: trigger of 1"])
    }).pipe(Effect.provide(relay([alerting(chat.sink, { repeat: Duration.hours(1) })])))
  })

  it.effect("continues its alerts after a restart, and ends them once it has no policy", () => {
    const chat = messages()
    const one = alerting(chat.sink, { repeat: Duration.hours(1) })
    const run = <A, E, R>(body: Effect.Effect<A, E, R>, specs = [one]) =>
      Effect.gen(function* () {
        const scope = yield* Scope.make()
        const lanes = yield* Layer.buildWithScope(lanesOf(specs), scope)
        yield* Effect.provide(body, lanes)
        yield* Scope.close(scope, Exit.void)
      })
    return Effect.gen(function* () {
      yield* run(Effect.andThen(fails(2), pass("1 second")))
      yield* run(Effect.andThen(fails(1), pass("61 minutes")))
      expect(chat.sent).toEqual(["1: trigger of 2", "4: reminder of 3"])
      yield* run(pass("1 second"), [spec("chat", chat.sink)])
      yield* run(Effect.andThen(fails(1), pass("1 second")))
      expect(chat.sent.slice(2)).toEqual(["5: trigger of 1"])
    }).pipe(Effect.provide(MemoryJournal.layer))
  })
})
