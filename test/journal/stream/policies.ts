/** Random lanes, entries and ranges, for properties of the decisions that both journals share. */
import type { Entry } from "../../../src/event/Event.ts"
import type { Cursor } from "../../../src/journal/Settlement.ts"
import { seeded } from "../../lib/seeded.ts"
import { tries } from "../../lib/tries.ts"
import { event } from "../samples.ts"

export interface Random {
  /** A whole number from 0 up to `end`, which is excluded. */
  readonly below: (end: number) => number
  readonly some: <A>(all: ReadonlyArray<A>) => ReadonlyArray<A>
}

/** Runs a property for each of `count` seeds. */
export const forSeeds = (count: number, property: (random: Random) => void): void => {
  for (let seed = 1; seed <= tries(count); seed++) {
    const next = seeded(seed)
    const below = (end: number) => Math.floor(next() * end)
    property({ below, some: (all) => all.filter(() => below(2) === 0) })
  }
}

export const lanes = ["lake", "oncall", "mail"]

export const entryOf = ({ below, some }: Random, sequence: number): Entry => ({
  sequence,
  event: event(`evt_${sequence}`, { body: new Uint8Array(below(400_000)) }),
  sinks: some(lanes),
  replayed: below(4) === 0,
})

/** A cursor among the first `head` sequences, with settled ranges above it. */
export const cursorOf = ({ below }: Random, head: number): Cursor => {
  const sequence = below(head)
  const settled: Array<readonly [number, number]> = []
  for (let from = sequence + 2; from < head; from += 3 + below(4)) settled.push([from, from + below(2)])
  return { sequence, settled }
}
