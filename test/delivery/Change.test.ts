import { describe, expect } from "bun:test"
import { Duration, Effect, Fiber, Latch, Layer } from "effect"
import type { LaneConfig } from "../../src/config/Config.ts"
import type { LaneSpec } from "../../src/delivery/LaneSpec.ts"
import { Lanes } from "../../src/delivery/Lanes.ts"
import { RelayEvents } from "../../src/delivery/RelayEvents.ts"
import { fenced, Journal, type JournalError, unavailable } from "../../src/journal/Journal.ts"
import { allSent, type Sink, SinkError, SinkMisconfigured, SinkUnavailable } from "../../src/sinks/Sink.ts"
import * as MemoryJournal from "../journal/MemoryJournal.ts"
import { event } from "../journal/samples.ts"
import { activeConfig } from "../lib/activeConfig.ts"
import { it } from "../lib/effect.ts"
import { append, failed, pass, scripted, spec, statusOf } from "./fixture.ts"

/** A sink that counts how often it is opened and closed; sinks differ by `config`. */
const counted = (name: string, sink: Sink, config: unknown = name, overrides: Partial<LaneConfig> = {}) => {
  const seen = { opened: 0, closed: 0 }
  const open = Effect.acquireRelease(
    Effect.sync(() => {
      seen.opened += 1
      return sink
    }),
    () =>
      Effect.sync(() => {
        seen.closed += 1
      }),
  )
  const given: LaneSpec = { ...spec(name, sink, { config, ...overrides }), open }
  return { ...given, seen }
}

/** A sink whose attempts end when the latch is opened. */
const slow = () => {
  const release = Latch.makeUnsafe(false)
  const delivered: Array<number> = []
  const attempted: Array<number> = []
  const sink: Sink = {
    batch: { maxEvents: 1, maxBytes: 1_000_000 },
    send: (batch) => {
      attempted.push(...batch.map(({ sequence }) => sequence))
      return release.whenOpen(
        Effect.sync(() => {
          delivered.push(...batch.map(({ sequence }) => sequence))
          return allSent
        }),
      )
    },
    check: Effect.void,
  }
  return { sink, release, delivered, attempted }
}

const { delivery } = spec("", slow().sink).config
const longTimeout = { delivery: { ...delivery, timeout: Duration.hours(1) } }

const lanes = (specs: ReadonlyArray<LaneSpec>) =>
  Lanes.layer({ specs, grace: () => Duration.seconds(10) }).pipe(
    Layer.provide(Layer.provide(RelayEvents.layer, activeConfig())),
  )
const running = (specs: ReadonlyArray<LaneSpec>) => Layer.provideMerge(lanes(specs), MemoryJournal.layer)

/**
 * A journal that refuses renames while `refuse` has given it an error. `asked` returns the number of requested renames.
 */
const renames = () => {
  let failure: JournalError | undefined
  let asked = 0
  const journal = MemoryJournal.layerWith((memory) => ({
    openLane: (name, options) =>
      Effect.suspend(() => {
        if (options?.renamedFrom === undefined) return memory.openLane(name, options)
        asked += 1
        return failure === undefined ? memory.openLane(name, options) : Effect.fail(failure)
      }),
  }))
  const refuse = (why: JournalError | undefined) => {
    failure = why
  }
  return { journal, refuse, asked: () => asked }
}

/** Changes the lanes while time passes. Returns the result, and whether the swap was made. */
const change = Effect.fnUntraced(function* (
  specs: ReadonlyArray<LaneSpec>,
  during: Effect.Effect<void, never, Lanes | Journal> = Effect.void,
) {
  const lanes = yield* Lanes
  let swapped = false
  const swap = Effect.sync(() => {
    swapped = true
  })
  const fiber = yield* Effect.forkChild(Effect.result(lanes.change(specs, swap)), { startImmediately: true })
  yield* pass("200 millis")
  yield* during
  yield* pass("30 seconds")
  return { result: yield* Fiber.join(fiber), swapped }
})

const names = Effect.flatMap(Journal, (journal) =>
  Effect.map(journal.lanes, (lanes) => lanes.map(({ name }) => name).filter((name) => name !== "_quarantine")),
)

describe("a change of sinks", () => {
  it.effect("leaves an unchanged sink running, with its attempts in flight", () => {
    const kept = slow()
    const stays = counted("stays", kept.sink, "stays", longTimeout)
    const other = scripted(() => "pass")
    return Effect.gen(function* () {
      yield* append(2, ["stays"])
      yield* pass("200 millis")
      expect(kept.attempted).toEqual([1, 2])
      expect(
        yield* change([counted("stays", kept.sink, "stays", longTimeout), counted("new", other.sink)]),
      ).toMatchObject({
        swapped: true,
      })
      yield* append(1, ["stays", "new"])
      yield* pass("200 millis")
      yield* kept.release.open
      yield* pass("1 second")
      expect(stays.seen).toEqual({ opened: 1, closed: 0 })
      expect([kept.attempted.toSorted(), kept.delivered.toSorted(), other.delivered]).toEqual([
        [1, 2, 3],
        [1, 2, 3],
        [3],
      ])
    }).pipe(Effect.provide(running([stays])))
  })

  it.effect("opens a lane before any event is routed to it, also for events at the moment of the swap", () => {
    const added = scripted(() => "pass")
    return Effect.gen(function* () {
      const lanes = yield* Lanes
      let there: ReadonlyArray<string> = []
      const swap = Effect.gen(function* () {
        there = yield* names
        yield* append(1, ["added"])
      })
      yield* append(1, ["added-not"])
      yield* lanes.change(
        [counted("added", added.sink)],
        Effect.orDie(Effect.provideContext(swap, yield* Effect.context<Journal>())),
      )
      expect(there).toContain("added")
      yield* pass("1 second")
      expect(added.delivered).toEqual([2])
    }).pipe(Effect.provide(running([])))
  })

  it.effect("lets attempts in flight end before another sink takes a lane over, and repeats nothing", () => {
    const before = slow()
    const after = scripted(() => "pass")
    const old = counted("sink", before.sink, "before")
    return Effect.gen(function* () {
      yield* append(6, ["sink"])
      yield* pass("200 millis")
      expect(before.attempted).toEqual([1, 2, 3, 4])
      const during = Effect.gen(function* () {
        expect([before.delivered, after.attempted]).toEqual([[], []])
        yield* append(1, ["sink"])
        yield* before.release.open
      })
      yield* change([counted("sink", after.sink, "after")], Effect.orDie(during))
      expect(before.delivered).toEqual([1, 2, 3, 4])
      expect(after.delivered).toEqual([5, 6, 7])
      expect(old.seen).toEqual({ opened: 1, closed: 1 })
      expect(yield* statusOf("sink")).toMatchObject({ condition: "running", backlog: 0, attempts: { delivered: 7 } })
    }).pipe(Effect.provide(running([old])))
  })

  it.effect("cuts off an attempt that does not end, and the new sink gets its event", () => {
    const stuck = scripted(() => "hang")
    const after = scripted(() => "pass")
    return Effect.gen(function* () {
      yield* append(2, ["sink"])
      yield* change([counted("sink", after.sink, "after", longTimeout)])
      expect(after.delivered).toEqual([1, 2])
    }).pipe(Effect.provide(running([counted("sink", stuck.sink, "before", longTimeout)])))
  })

  it.effect("does not wait for an attempt that can't be cut off", () => {
    const stuck: Sink = {
      batch: { maxEvents: 1, maxBytes: 1_000_000, isAwaited: true },
      send: () => Effect.uninterruptible(Effect.never),
      check: Effect.void,
    }
    const after = scripted(() => "pass")
    return Effect.gen(function* () {
      yield* append(2, ["sink"])
      yield* change([counted("sink", after.sink, "after", longTimeout)])
      expect(after.delivered).toEqual([1, 2])
    }).pipe(Effect.provide(running([counted("sink", stuck, "before", longTimeout)])))
  })

  it.effect("keeps retrying events, with their attempts, and sends them when they are due", () => {
    const failing = scripted((entry) => (entry.sequence === 1 ? failed : "pass"))
    const after = scripted(() => "pass")
    return Effect.gen(function* () {
      yield* append(3, ["sink"])
      yield* pass("1 second")
      expect(yield* statusOf("sink")).toMatchObject({ retrying: 1, attempts: { delivered: 2 } })
      yield* change([counted("sink", after.sink, "after")])
      expect(after.delivered).toEqual([1])
      expect(yield* statusOf("sink")).toMatchObject({ retrying: 0, backlog: 0 })
    }).pipe(Effect.provide(running([counted("sink", failing.sink, "before")])))
  })

  it.effect("of a lane's delivery settings keeps its connection", () => {
    const up = scripted(() => "pass")
    const before = counted("sink", up.sink)
    const after = counted("sink", up.sink, "sink", { concurrency: 1 })
    return Effect.gen(function* () {
      yield* append(1, ["sink"])
      yield* pass("200 millis")
      yield* change([after])
      yield* append(1, ["sink"])
      yield* pass("200 millis")
      expect(up.delivered).toEqual([1, 2])
      expect([before.seen, after.seen]).toEqual([
        { opened: 1, closed: 0 },
        { opened: 0, closed: 0 },
      ])
    }).pipe(Effect.provide(running([before])))
  })

  it.effect("lets a removed sink finish its pending events, and then closes it", () => {
    const up = scripted(() => "pass")
    const unhurried: Sink = { ...up.sink, send: (batch) => Effect.delay(up.sink.send(batch), "100 millis") }
    const old = counted("old", unhurried)
    return Effect.gen(function* () {
      yield* append(50, ["old"])
      const { result } = yield* change([])
      expect(result).toMatchObject({ _tag: "Success", success: [] })
      expect(up.delivered.length).toBe(50)
      expect(old.seen).toEqual({ opened: 1, closed: 1 })
      expect(yield* statusOf("old")).toMatchObject({ condition: "orphaned", backlog: 0 })
    }).pipe(Effect.provide(running([old])))
  })

  it.effect(
    "keeps the events of a removed sink that is unavailable, and names it; a sink of its name continues",
    () => {
      let isAway = true
      const sink = scripted(() => (isAway ? new SinkUnavailable({ message: "refused" }) : "pass"))
      return Effect.gen(function* () {
        yield* append(10, ["sink"])
        yield* pass("5 seconds")
        const { result } = yield* change([])
        expect(result).toMatchObject({ success: [expect.stringContaining("10 events wait for the sink sink")] })
        expect(yield* statusOf("sink")).toMatchObject({ condition: "orphaned", backlog: 10 })
        isAway = false
        yield* change([counted("sink", sink.sink, "again")])
        expect(sink.delivered.toSorted((a, b) => a - b)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
        expect(yield* statusOf("sink")).toMatchObject({ condition: "running", backlog: 0 })
      }).pipe(Effect.provide(running([counted("sink", sink.sink)])))
    },
  )

  it.effect("removes the lane of a removed sink once its events are moved to another sink", () => {
    const away = scripted(() => new SinkUnavailable({ message: "refused" }))
    const other = counted("other", away.sink)
    return Effect.gen(function* () {
      yield* append(3, ["sink"])
      yield* pass("5 seconds")
      yield* change([other])
      expect(yield* (yield* Lanes).move("sink", "other")).toBe(3)
      expect([yield* names, (yield* statusOf("other"))?.backlog]).toEqual([["other"], 3])
    }).pipe(Effect.provide(running([counted("sink", away.sink), other])))
  })

  for (const step of ["moveLane", "lanes", "dropLane"] as const) {
    it.effect(
      `loses no event that reaches the lane of a removed sink during a move, after the journal's ${step}`,
      () => {
        const away = scripted(() => new SinkUnavailable({ message: "refused" }))
        const other = counted("other", away.sink)
        let pending = 3
        let isMoving = false
        const journal = MemoryJournal.layerWith((memory) => {
          const late = (after: typeof step) =>
            Effect.suspend(() => {
              if (!isMoving || after !== step) return Effect.void
              return memory.append(event(`late_${pending++}`), ["sink"])
            })
          return {
            lanes: Effect.tap(memory.lanes, late("lanes")),
            moveLane: (from, to) => Effect.tap(memory.moveLane(from, to), late("moveLane")),
            dropLane: (name) => Effect.tap(memory.dropLane(name), late("dropLane")),
          }
        })
        return Effect.gen(function* () {
          yield* append(3, ["sink"])
          yield* pass("5 seconds")
          yield* change([other])
          isMoving = true
          yield* (yield* Lanes).move("sink", "other")
          isMoving = false
          const backlogs = yield* Effect.forEach(["sink", "other"], statusOf)
          expect(backlogs.reduce((sum, status) => sum + (status?.backlog ?? 0), 0)).toBe(pending)
        }).pipe(Effect.provide(Layer.provideMerge(lanes([counted("sink", away.sink), other]), journal)))
      },
    )
  }

  it.effect("moves the backlog of a renamed sink to its new name, over the same connection", () => {
    let isMended = false
    const sink = scripted((entry) => (entry.sequence === 1 && !isMended ? failed : "pass"))
    const before = counted("before", sink.sink, "same")
    const after = counted("after", sink.sink, "same", { renamedFrom: "before" })
    return Effect.gen(function* () {
      const { pause, resume } = yield* Lanes
      yield* append(1, ["before"])
      yield* pass("200 millis")
      yield* pause("before")
      yield* append(3, ["before"])
      yield* pass("200 millis")
      const { result } = yield* change([after], Effect.orDie(append(1, ["after"])))
      expect(result).toMatchObject({ success: [] })
      expect(yield* statusOf("after")).toMatchObject({ condition: "paused", backlog: 5 })
      isMended = true
      yield* resume("after")
      yield* pass("1 second")
      expect(sink.delivered.length).toBe(5)
      expect([before.seen.closed, after.seen.opened]).toEqual([0, 0])
      expect(yield* names).toEqual(["after"])
    }).pipe(Effect.provide(running([before])))
  })

  it.effect("tries a rename that the journal can't make again each second, beside the lane that runs", () => {
    const { journal, refuse } = renames()
    const sink = scripted(() => "pass")
    const before = counted("before", sink.sink, "same")
    const after = counted("after", sink.sink, "same", { renamedFrom: "before" })
    return Effect.gen(function* () {
      const { pause } = yield* Lanes
      yield* pause("before")
      yield* append(3, ["before"])
      refuse(unavailable("not now"))
      const { result } = yield* change([after], Effect.orDie(append(1, ["after"])))
      expect(result).toMatchObject({
        success: [
          expect.stringContaining("of before could not all be moved to after, which is tried again each second"),
        ],
      })
      expect(sink.delivered).toEqual([4])
      refuse(undefined)
      yield* pass("1 second")
      yield* (yield* Lanes).resume("after")
      yield* pass("1 second")
      expect([sink.delivered.length, yield* names]).toEqual([4, ["after"]])
      expect(yield* statusOf("after")).toMatchObject({ backlog: 0, condition: "running" })
    }).pipe(Effect.provide(Layer.provideMerge(lanes([before]), journal)))
  })

  for (const [how, next] of [
    ["removes the lane again", ["before"]],
    ["has a sink of either name", ["before", "after"]],
  ] as const) {
    it.effect(`ends the retries of an older rename, as one that ${how}`, () => {
      const { journal, refuse, asked } = renames()
      const sinks = { before: scripted(() => "pass"), after: scripted(() => "pass") }
      const specs = (names: ReadonlyArray<keyof typeof sinks>, overrides: Partial<LaneConfig> = {}) =>
        names.map((name) => counted(name, sinks[name].sink, name, overrides))
      return Effect.gen(function* () {
        const { pause, resume } = yield* Lanes
        yield* pause("before")
        yield* append(3, ["before"])
        refuse(unavailable("not now"))
        yield* change(specs(["after"], { renamedFrom: "before" }))
        yield* change(specs(next))
        refuse(undefined)
        const tries = asked()
        yield* resume("before")
        yield* pass("1 minute")
        expect([sinks.before.delivered, sinks.after.delivered, asked()]).toEqual([[1, 2, 3], [], tries])
      }).pipe(Effect.provide(Layer.provideMerge(lanes(specs(["before"])), journal)))
    })
  }

  it.effect("ends the retries of a rename when another relay has taken the stream", () => {
    const { journal, refuse, asked } = renames()
    const sink = scripted(() => "pass")
    return Effect.gen(function* () {
      yield* append(3, ["before"])
      refuse(unavailable("not now"))
      yield* change([counted("after", sink.sink, "same", { renamedFrom: "before" })])
      refuse(fenced("another relay has it"))
      yield* pass("2 seconds")
      const tries = asked()
      yield* pass("1 minute")
      expect(asked()).toBe(tries)
    }).pipe(Effect.provide(Layer.provideMerge(lanes([]), journal)))
  })

  it.effect("is refused as a whole when a new sink's config is wrong", () => {
    const up = scripted(() => "pass")
    const stays = counted("stays", up.sink)
    const [changed, fine] = [counted("stays", up.sink, "changed"), counted("fine", up.sink)]
    const wrong: LaneSpec = {
      ...counted("wrong", up.sink),
      open: Effect.fail(new SinkError({ reason: new SinkMisconfigured({ message: "no such CA file" }) })),
    }
    return Effect.gen(function* () {
      const { result, swapped } = yield* change([changed, fine, wrong])
      expect(result).toMatchObject({ failure: { _tag: "SinkUnusable", message: "sink wrong: no such CA file" } })
      expect([swapped, yield* names]).toEqual([false, ["stays"]])
      expect([changed.seen, fine.seen]).toEqual([
        { opened: 1, closed: 1 },
        { opened: 1, closed: 1 },
      ])
      yield* append(1, ["stays"])
      yield* pass("1 second")
      expect([up.delivered, stays.seen]).toEqual([[1], { opened: 1, closed: 0 }])
    }).pipe(Effect.provide(running([stays])))
  })

  it.effect("doesn't wait for a new sink that is unavailable or never opens: only its lane does", () => {
    const up = scripted(() => "pass")
    let isAway = true
    const away: LaneSpec = {
      ...counted("away", up.sink),
      open: Effect.suspend(() =>
        isAway
          ? Effect.fail(new SinkError({ reason: new SinkUnavailable({ message: "no broker" }) }))
          : Effect.succeed(up.sink),
      ),
    }
    const stuck: LaneSpec = { ...counted("stuck", up.sink), open: Effect.never }
    return Effect.gen(function* () {
      const { result, swapped } = yield* change([away, stuck])
      expect(swapped).toBe(true)
      expect(result).toMatchObject({
        success: [expect.stringContaining("away can't be reached, its lane waits: no broker")],
      })
      yield* append(1, ["away"])
      yield* pass("1 second")
      isAway = false
      yield* pass("45 seconds")
      expect(up.delivered).toEqual([1])
    }).pipe(Effect.provide(running([])))
  })

  it.effect("doesn't age the retrying events of a paused lane", () => {
    const sink = scripted((entry, attempt) => (entry.sequence === 1 && attempt <= 2 ? failed : "pass"))
    const retry = { maxAge: Duration.minutes(1), initial: Duration.seconds(30), max: Duration.seconds(30) }
    const overrides = { delivery: { ...delivery, retry } }
    return Effect.gen(function* () {
      const { pause, resume } = yield* Lanes
      yield* pass("1 second")
      yield* append(2, ["sink"])
      yield* pass("1 second")
      yield* pause("sink")
      yield* pass("45 seconds")
      yield* change([counted("sink", sink.sink, "after", overrides)])
      yield* resume("sink")
      yield* pass("31 seconds")
      expect([sink.delivered, (yield* statusOf("sink"))?.deadLetters]).toEqual([[2, 1], 0])
    }).pipe(Effect.provide(running([counted("sink", sink.sink, "before", overrides)])))
  })

  it.effect("that is interrupted by a stop loses nothing: the next start continues", () => {
    const before = slow()
    const after = scripted(() => "pass")
    return Effect.gen(function* () {
      yield* Effect.gen(function* () {
        yield* append(6, ["sink"])
        yield* pass("200 millis")
        const { change } = yield* Lanes
        yield* Effect.forkChild(change([counted("sink", after.sink, "after")], Effect.void), {
          startImmediately: true,
        })
        yield* pass("200 millis")
        yield* before.release.open
      }).pipe(Effect.provide(lanes([counted("sink", before.sink, "before")])))
      yield* Effect.provide(pass("1 second"), lanes([counted("sink", after.sink, "after")]))
      expect([...before.delivered, ...after.delivered].toSorted((a, b) => a - b)).toEqual([1, 2, 3, 4, 5, 6])
    }).pipe(Effect.provide(MemoryJournal.layer))
  })
})
