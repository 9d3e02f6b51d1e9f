import { expect, test } from "bun:test"
import { isPassed, later, rowsOf, settledAt, whyUnstorable } from "../../../src/journal/stream/Cursors.ts"
import { letter, retrying, settlement } from "../samples.ts"
import { cursorOf, entryOf, forSeeds } from "./policies.ts"

const head = 40
const sequences = Array.from({ length: head }, (_, index) => index + 1)

test("a cursor has passed the sequences up to it and in its ranges, and no others", () => {
  forSeeds(50, (random) => {
    const cursor = cursorOf(random, head)
    const settled = new Set(cursor.settled.flatMap(([from, to]) => sequences.filter((at) => from <= at && at <= to)))
    for (const at of sequences) expect(isPassed(cursor, at)).toBe(at <= cursor.sequence || settled.has(at))
  })
})

test("a cursor passes one more sequence once it is settled, and all that it passed before", () => {
  forSeeds(50, (random) => {
    const before = cursorOf(random, head)
    for (const settled of sequences) {
      const after = settledAt(before, settled)
      const passed = sequences.filter((at) => at === settled || isPassed(before, at))
      expect(sequences.filter((at) => isPassed(after, at))).toEqual(passed)
    }
  })
  const ranges = [
    [5, 6],
    [8, 9],
  ] as const
  expect(settledAt({ sequence: 3, settled: ranges }, 4)).toEqual({ sequence: 6, settled: [[8, 9]] })
})

test("a settlement can be stored unless any of its numbers is a fraction", () => {
  const [wait, dead] = [retrying(1), letter(1)]
  const { failed: _, refunded: _refunded, ...taken } = wait
  const counted = { sequence: 1, at: 9, alert: 1 }
  const whole = { retry: [wait], takeBack: [taken], deadLetter: [dead], counted: [counted] }
  expect(whyUnstorable(settlement("lake", 1, whole))).toBeUndefined()
  for (const fraction of [
    { retry: [{ ...wait, due: 0.5 }] },
    { takeBack: [{ ...taken, due: 0.5 }] },
    { deadLetter: [{ ...dead, at: 0.5 }] },
    { counted: [{ ...counted, at: 0.5 }] },
    { pausedFor: 0.5 },
  ]) {
    const why = whyUnstorable(settlement("lake", 1, { ...whole, ...fraction }))
    expect(why?.message).toContain("The lane lake settled a number that is not an integer")
  }
})

test("a cursor never moves back", () => {
  forSeeds(50, (random) => {
    const [before, after] = [cursorOf(random, head), cursorOf(random, head)]
    const cursor = later(before, after)
    expect(cursor.sequence).toBe(Math.max(before.sequence, after.sequence))
    expect([before, after]).toContain(cursor)
  })
  const cursor = { sequence: 3, settled: [] }
  expect(later(undefined, cursor)).toBe(cursor)
  expect(later({ sequence: 3, settled: [[5, 6]] }, cursor)).toBe(cursor)
})

test("each event that a cursor passes undelivered becomes a retry or a dead letter, or is reported as lost", () => {
  forSeeds(100, (random) => {
    const changed = random.some(sequences)
    const dead = changed.filter(() => random.below(2) === 0)
    const retries = changed.filter((at) => !dead.includes(at))
    const [kept, logged] = [new Set(random.some(changed)), new Set(random.some(changed))]
    const readable = new Set(random.some([...kept]))
    const rows = rowsOf(
      settlement("lake", head, { retry: retries.map((at) => retrying(at)), deadLetter: dead.map(letter) }),
      (at) =>
        kept.has(at) ? { attempts: [], entry: () => (readable.has(at) ? entryOf(random, at) : undefined) } : undefined,
      (at) => (logged.has(at) ? entryOf(random, at) : undefined),
    )
    const isLost = (at: number) => (kept.has(at) ? dead.includes(at) && !readable.has(at) : !logged.has(at))
    expect(rows.retries.map(({ change }) => change.sequence)).toEqual(retries.filter((at) => !isLost(at)))
    expect(rows.letters.map(({ entry }) => entry.sequence)).toEqual(dead.filter((at) => !isLost(at)))
    expect([...rows.lost].sort((a, b) => a - b)).toEqual(changed.filter(isLost))
    expect(rows.ends).toEqual(dead)
    // A record is written only if the journal has none yet.
    for (const { change, entry } of rows.retries)
      expect(entry?.sequence).toBe(kept.has(change.sequence) ? undefined : change.sequence)
  })
})
