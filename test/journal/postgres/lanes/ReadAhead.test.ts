import { describe, expect } from "bun:test"
import { Effect, Result } from "effect"
import { unavailable } from "../../../../src/journal/Journal.ts"
import { type Part, ReadAhead } from "../../../../src/journal/postgres/lanes/StreamState.ts"
import { it } from "../../../lib/effect.ts"
import { event } from "../../samples.ts"

const entry = (sequence: number) => ({ sequence, event: event(`${sequence}`), sinks: ["lake"], replayed: false })
const sequences = (entries: ReadonlyArray<{ readonly sequence: number }>) => entries.map(({ sequence }) => sequence)

/** A log that is read four sequences at a time, and lacks some of them. `asked` has the position of each read. */
const log = (last: number, lacks: ReadonlyArray<number> = []) => {
  const asked: Array<number> = []
  const ahead = new ReadAhead(async (after) => {
    asked.push(after)
    const to = Math.min(after + 4, last)
    const all = Array.from({ length: to - after }, (_, index) => after + index + 1)
    const part: Part = { after, to, entries: all.filter((one) => !lacks.includes(one)).map(entry) }
    return Result.succeed(part)
  })
  const read = (after: number, limit = 2, reader = "lake") =>
    Effect.map(ahead.read(reader, after, limit, last), sequences)
  return { ahead, asked, read }
}

describe("what is read ahead", () => {
  it.effect("is available before it is requested, and requested once", function* () {
    const { asked, read } = log(12)
    expect(yield* read(0)).toEqual([1, 2])
    expect(asked).toEqual([0, 4])
    expect(yield* read(2)).toEqual([3, 4])
    expect(yield* read(4)).toEqual([5, 6])
    expect(asked).toEqual([0, 4, 8])
    for (const after of [6, 8, 10]) yield* read(after)
    expect(yield* read(12)).toEqual([])
    expect(asked).toEqual([0, 4, 8])
  })

  it.effect("skips rows that are gone, and ends at the last row", function* () {
    expect(yield* log(12, [3, 4, 5, 6, 7, 8]).read(2)).toEqual([9, 10])
    const { asked, read } = log(12, [9, 10, 11, 12])
    expect(yield* read(8)).toEqual([])
    expect(asked).toEqual([8])
  })

  it.effect("belongs to its reader, wherever it reads, and a forgotten reader has none", function* () {
    const { ahead, asked, read } = log(12)
    yield* read(0)
    expect(yield* read(8, 2, "audit")).toEqual([9, 10])
    expect(yield* read(6)).toEqual([7, 8])
    ahead.forget("lake")
    expect(yield* read(0)).toEqual([1, 2])
    expect(asked).toEqual([0, 4, 8, 6, 10, 0, 4])
  })

  it.effect("is read again after a failure, which is reported once", function* () {
    let fails = true
    const ahead = new ReadAhead(async (after) =>
      fails ? Result.fail(unavailable("away")) : Result.succeed({ after, to: 1, entries: [entry(1)] }),
    )
    expect((yield* Effect.flip(ahead.read("lake", 0, 1, 1))).message).toContain("away")
    fails = false
    expect(sequences(yield* ahead.read("lake", 0, 1, 1))).toEqual([1])
  })
})
