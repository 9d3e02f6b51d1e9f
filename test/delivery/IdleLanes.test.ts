import { afterEach, beforeEach, describe, expect, spyOn } from "bun:test"
import { Effect, Layer } from "effect"
import { Lanes } from "../../src/delivery/Lanes.ts"
import { Lane } from "../../src/delivery/lane/Lane.ts"
import { Progress } from "../../src/delivery/lane/Progress.ts"
import { Archive } from "../../src/journal/Archive.ts"
import * as MemoryJournal from "../journal/MemoryJournal.ts"
import { it } from "../lib/effect.ts"
import { append, lanesOf, pass, rejected, scripted, spec, statusOf } from "./fixture.ts"

/** A journal that wakes lanes for their own events only. */
const journal = MemoryJournal.layerWith(({ awaitBeyond, ...journal }) => ({
  awaitBeyond: (after, lane) =>
    Effect.flatMap(awaitBeyond(after), (through) =>
      Effect.flatMap(Effect.orDie(journal.read(through, 1_000)), (entries) =>
        lane === undefined || entries.some(({ sinks }) => sinks.includes(lane)) ? Effect.succeed(after) : Effect.never,
      ),
    ),
}))

describe("a hundred idle lanes", () => {
  const spies = () => ({ watch: spyOn(Lane.prototype, "watch"), takeChanges: spyOn(Progress.prototype, "takeChanges") })
  let spied: ReturnType<typeof spies>
  beforeEach(() => {
    spied = spies()
  })
  afterEach(() => {
    for (const spy of Object.values(spied)) spy.mockRestore()
  })
  const visits = () => ({
    watched: new Set(spied.watch.mock.contexts.map((lane) => (lane as Lane).config.name)),
    stored: spied.takeChanges.mock.calls.length,
  })
  const forget = Effect.sync(() => {
    for (const spy of Object.values(spied)) spy.mockClear()
  })

  const sink = scripted(({ event }) => (event.accountId === "bad" ? rejected : "pass"))
  const idle = Array.from({ length: 100 }, (_, n) => spec(`idle_${n}`, scripted(() => "pass").sink))
  const layer = Layer.provideMerge(lanesOf([spec("sink", sink.sink), ...idle]), journal)

  it.effect("are neither visited nor stored each second while one lane delivers and then waits", () =>
    Effect.gen(function* () {
      yield* pass("5 seconds")
      yield* forget
      yield* pass("1 minute")
      expect(visits()).toEqual({ watched: new Set(), stored: 0 })
      const lanes = yield* Lanes
      expect(lanes.busy()).toEqual([])
      yield* append(3, ["sink"])
      expect(lanes.busy()).toMatchObject([{ name: "sink", condition: "running" }])
      yield* pass("1 minute")
      const { watched, stored } = visits()
      expect(watched.difference(new Set(["sink"]))).toEqual(new Set())
      expect(stored).toBeGreaterThan(0)
      expect(stored).toBeLessThan(10)
      expect(spied.watch.mock.calls.length).toBeLessThan(5)
      expect(yield* statusOf("sink")).toMatchObject({ backlog: 0, condition: "running" })
    }).pipe(Effect.provide(layer)),
  )

  it.effect("are visited again once one has a dead letter, or is paused at another relay", () =>
    Effect.gen(function* () {
      yield* pass("5 seconds")
      yield* append(1, ["sink"], () => "bad")
      yield* pass("5 seconds")
      yield* forget
      yield* pass("5 seconds")
      expect(visits().watched).toEqual(new Set(["sink"]))
      const archive = yield* Archive
      yield* archive.dropDeadLetters(["sink:1"])
      yield* archive.setPaused("idle_7", true)
      yield* pass("5 seconds")
      expect(yield* statusOf("idle_7")).toMatchObject({ condition: "paused" })
      yield* forget
      yield* pass("5 seconds")
      expect(visits().watched).toEqual(new Set(["idle_7"]))
      yield* archive.setPaused("idle_7", false)
      yield* pass("5 seconds")
      expect(yield* statusOf("idle_7")).toMatchObject({ condition: "running" })
    }).pipe(Effect.provide(layer)),
  )
})
