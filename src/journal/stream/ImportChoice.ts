/**
 * Which events of another journal an import appends.
 *
 * **Guarantee.** An event is imported once for each lane, however often it is
 * imported. A delivery that was received again meanwhile is known.
 */
import type { ImportCounts, UndeliveredEvent } from "../Archive.ts"
import type { LetterToPut } from "./Cursors.ts"
import type { Reappended } from "./Reappended.ts"

/** An event to append, with its lanes that it was not imported for. A dead letter has no sinks: no lane sends it from the log. */
export interface ChosenImport extends UndeliveredEvent, Reappended {}

/** Whether it may have been received again: a replay, a dead letter, and what could not be routed are imported in any case. */
export const mayBeReceived = ({ dead, replayed, event }: UndeliveredEvent): boolean =>
  dead === undefined && !replayed && event.problem === undefined

/** Chooses from events; `importedFor` gives the lanes that an event was imported for before. */
export const chooseImports = (
  events: ReadonlyArray<UndeliveredEvent>,
  importedFor: (sequence: number) => Iterable<string>,
  isReceived: (one: UndeliveredEvent) => boolean,
): {
  readonly chosen: ReadonlyArray<ChosenImport>
  /** By sequence, the lanes that an event is imported for from now on. */
  readonly lanesOf: ReadonlyMap<number, ReadonlySet<string>>
  /** How many are known already, counted once per lane. */
  readonly known: number
} => {
  const lanesOf = new Map<number, Set<string>>()
  const chosen: Array<ChosenImport> = []
  let known = 0
  for (const one of events) {
    const lanes = lanesOf.get(one.sequence) ?? new Set(importedFor(one.sequence))
    lanesOf.set(one.sequence, lanes)
    const pending = one.pending.filter((lane) => !lanes.has(lane))
    const isKnown = pending.length === 0 || (mayBeReceived(one) && isReceived(one))
    known += isKnown ? one.pending.length : one.pending.length - pending.length
    if (isKnown) continue
    for (const lane of pending) lanes.add(lane)
    // It is appended as well, to get a sequence.
    chosen.push({ ...one, pending, sinks: one.dead === undefined ? pending : [] })
  }
  return { chosen, lanesOf, known }
}

/** The dead letters among what was appended; the first one has the sequence `first`. */
export const importedLetters = (chosen: ReadonlyArray<ChosenImport>, first: number): ReadonlyArray<LetterToPut> =>
  chosen.flatMap(({ event, pending, dead }, index) =>
    dead === undefined
      ? []
      : pending.map((lane) => ({
          lane,
          ...dead,
          entry: { sequence: first + index, event, sinks: [lane], replayed: false },
        })),
  )

/** Adds what was appended to the counts of an import. */
export const addCounts = (
  counts: { -readonly [Key in keyof ImportCounts]: number },
  more: ReadonlyArray<ChosenImport>,
) => {
  for (const { dead, pending } of more) counts[dead === undefined ? "pending" : "deadLetters"] += pending.length
}
