import { describe, expect, test } from "bun:test"
import { Effect } from "effect"
import { EventLoop } from "../../src/event/EventLoop.ts"

/** A loop whose time passes only in steps and in pauses. It notes for each run in a row which steps it had. */
const looped = () => {
  let now = 1_000
  const later: Array<() => void> = []
  const pauses: Array<number> = []
  const runs: Array<Array<string>> = [[]]
  const loop = new EventLoop(
    () => now,
    (run, millis) => {
      pauses.push(millis)
      runs.push([])
      later.push(() => {
        now += millis
        run()
      })
    },
  )
  return {
    loop,
    runs,
    pauses,
    /** A step that takes this long. */
    step: (name: string, millis: number) => () => {
      runs.at(-1)?.push(name)
      now += millis
    },
    /** Lets all pauses pass, and deliveries arrive meanwhile. */
    pass: () => {
      for (let run = later.shift(); run !== undefined; run = later.shift()) {
        loop.delivery()
        run()
      }
    },
    wait: (millis: number) => {
      now += millis
    },
  }
}

describe("the event loop", () => {
  test("runs all steps immediately without deliveries", () => {
    const { loop, runs, step } = looped()
    for (const name of ["a", "b", "c"]) loop.run(step(name, 10))
    expect(runs).toEqual([["a", "b", "c"]])
  })

  test("pauses for as long as the steps took while deliveries arrive, whoever asked for them", () => {
    const { loop, runs, pauses, step, pass } = looped()
    loop.delivery()
    for (let lane = 1; lane <= 100; lane++) loop.run(step(`lane ${lane}`, 1))
    expect(runs).toEqual([["lane 1", "lane 2"], []])
    pass()
    expect(runs.map((steps) => steps.length)).toEqual([...Array.from({ length: 50 }, () => 2), 0])
    expect(runs.flat()).toEqual(Array.from({ length: 100 }, (_, index) => `lane ${index + 1}`))
    expect(pauses.every((millis) => millis === 2)).toBe(true)
  })

  test("runs one long step before it pauses", () => {
    const { loop, runs, pauses, step, pass } = looped()
    loop.delivery()
    for (const name of ["a", "b"]) loop.run(step(name, 5))
    expect(runs).toEqual([["a"], []])
    pass()
    expect(runs).toEqual([["a"], ["b"], []])
    expect(pauses).toEqual([5, 5])
  })

  test("counts no time in which no step ran", () => {
    const { loop, runs, step, wait } = looped()
    for (let count = 0; count < 10; count++) {
      loop.delivery()
      loop.run(step("a", 1))
      wait(1)
    }
    expect(runs).toEqual([Array.from({ length: 10 }, () => "a")])
  })

  test("takes all time again when no delivery has arrived for a while", () => {
    const { loop, runs, step, wait } = looped()
    loop.delivery()
    wait(300)
    for (const name of ["a", "b", "c"]) loop.run(step(name, 10))
    expect(runs).toEqual([["a", "b", "c"]])
  })

  test("runs a step once that asks for its time twice", () => {
    const { loop, runs, step, pass } = looped()
    loop.delivery()
    loop.run(step("a", 5))
    const b = step("b", 5)
    loop.run(b)
    loop.run(b)
    pass()
    expect(runs).toEqual([["a"], ["b"], []])
  })

  test("continues after a step that throws", () => {
    const { loop, runs, step, pass } = looped()
    expect(() =>
      loop.run(() => {
        throw new Error("a bug")
      }),
    ).toThrow("a bug")
    loop.run(step("a", 1))
    pass()
    expect(runs.flat()).toEqual(["a"])
  })

  test("gives each turn to one waiting fiber after the other, and lets deliveries in between", async () => {
    const { loop, runs, step, pass } = looped()
    loop.delivery()
    const slice = (name: string) => Effect.andThen(loop.turn, Effect.sync(step(name, 3)))
    const all = Effect.runPromise(Effect.all(["a", "b", "c"].map(slice), { concurrency: "unbounded" }))
    await new Promise(setImmediate)
    expect(runs).toEqual([["a"], []])
    pass()
    await all
    expect(runs).toEqual([["a"], ["b"], ["c"], []])
  })
})
