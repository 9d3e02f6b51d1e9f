/** Verdicts of a comparison of two builds, and the order in which they take turns. */
import { describe, expect, test } from "bun:test"
import { Effect } from "effect"
import { costVerdict, isUndecided, mostRounds } from "./Against.ts"
import type { Load } from "./Load.ts"
import * as Report from "./Report.ts"
import * as Rounds from "./Rounds.ts"
import type { Target } from "./Target.ts"

const target = (name: string): Target => ({
  ...{ name, pid: process.pid, port: 0, alive: Effect.void, log: Effect.succeed("") },
  collections: () => 0,
})

const load: Load = { requests: 1, rate: 1, p50: 1, p99: 1, refused: 0 }

const subject = (cpus: ReadonlyArray<number>): Rounds.Subject => ({
  target: target("relay"),
  runs: cpus.map((cpu) => ({ ...load, cpu, faults: 0, collections: 0, peak: 0, behind: 0, lost: 0, surplus: 0 })),
})

/** Five rounds, in which the other build costs 100, and `again` as the second relay. */
const trio = (again: number, now: number, rounds = 5) => {
  const constant = (cpu: number) => subject(Array.from({ length: rounds }, () => cpu))
  return { other: constant(100), again: constant(again), now: constant(now) }
}

const verdict = (again: number, now: number, bound = 1.03) => costVerdict("file", trio(again, now), bound)

describe("a build against another", () => {
  test("passes up to 1.03, or the bound that was given, and fails above it", () => {
    const at = (now: number, bound?: number) => Report.statusOf([verdict(100, now, bound)])
    expect([at(90), at(103), at(104), at(104, 1.05), at(106, 1.05)]).toEqual([0, 0, 1, 0, 1])
  })

  test("shows how the other build compares with itself", () => {
    expect(verdict(102, 102).measured).toBe("1.010× [1.01..1.01]; the other of itself within 1.020×, 5 rounds")
  })

  test("isn't measurable if that differs by more than 1.02, whichever is larger, and exits 2", () => {
    for (const again of [97, 103]) {
      const noisy = verdict(again, 100)
      expect([noisy.ok, noisy.unmeasured, Report.statusOf([noisy])]).toEqual([false, true, 2])
      expect(Report.verdicts([noisy])).toContain("not measurable")
    }
  })

  test("exits 1 if another sink missed its bound", () => {
    expect(Report.statusOf([verdict(103, 100), verdict(100, 104)])).toBe(1)
  })

  test("isn't measurable with a median that is 1 by luck", () => {
    const lucky = { ...trio(100, 100), again: subject([92, 97, 100, 104, 109]) }
    expect([costVerdict("file", lucky, 1.03).unmeasured, isUndecided(lucky)]).toEqual([true, true])
    const rounds = Array.from({ length: 30 }, (_, round) => 96.5 + round / 4)
    const steady = { ...trio(100, 100, 30), again: subject(rounds) }
    expect(costVerdict("file", steady, 1.03).unmeasured).toBe(false)
  })

  test("takes another round while it is noisy, up to 30", () => {
    expect(isUndecided(trio(101, 110))).toBe(false)
    expect(isUndecided(trio(100, 100, 4))).toBe(true)
    expect(isUndecided(trio(103, 100))).toBe(true)
    expect(isUndecided(trio(103, 100, mostRounds))).toBe(false)
  })
})

test("rounds go on while nothing is decided, and each of three comes equally often at each place", async () => {
  const turns: Array<string> = []
  const drive: Rounds.Drive = ({ name }) => Effect.sync(() => turns.push(name)).pipe(Effect.as(load))
  const targets: Readonly<Record<"a" | "b" | "c", Target>> = { a: target("a"), b: target("b"), c: target("c") }
  const isShort = ({ a }: Readonly<Record<"a" | "b" | "c", Rounds.Subject>>) => a.runs.length < 6
  const { a, b } = await Effect.runPromise(Rounds.interleaved(targets, 1, Effect.void, drive, 0, isShort))
  expect([a.runs.length, b.runs.length]).toEqual([6, 6])
  const rounds = Array.from({ length: 6 }, (_, index) => turns.slice(3 * index, 3 * index + 3).join(""))
  expect(rounds.toSorted()).toEqual(["abc", "acb", "bac", "bca", "cab", "cba"])
})
