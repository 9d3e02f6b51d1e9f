/**
 * The slices of an operator's change: of replays, dead letters, moves.
 *
 * A change of many events is made in slices, each in one transaction, so that
 * the relay answers in between. After a crash the slices that were committed
 * stay, and the change can be started again.
 */
import type { Entry } from "../../event/Entry.ts"
import { quarantine } from "../../event/Event.ts"
import type { ReplayTarget, Reroute } from "../Archive.ts"
import type { StoredDeadLetter } from "../LaneInfo.ts"
import type { Cursor } from "../Settlement.ts"
import type { Backlog } from "./Backlog.ts"
import type { Ended } from "./OutcomeRecord.ts"
import { type Reappended, toMove, toReplay } from "./Reappended.ts"
import type { Removal } from "./Removal.ts"

/** Maximum dead letters, entries, and about the bytes of bodies of a slice. */
export const slice = { letters: 64, entries: 256, bytes: 1024 * 1024 }
/** Bytes of bodies that are read at a time, about. */
export const readBytes = 4 * 1024 * 1024

/** An entry that is appended again, and its sequence before. */
export interface Again extends Reappended {
  readonly sequence: number
}

/** A dead letter that is appended again. */
export interface AgainLetter extends Reappended {
  readonly letter: StoredDeadLetter
}

/**
 * Splits dead letters: `again` are replays, for their lane; `routed` are deliveries of the quarantine that can be
 * routed now, which keep their idempotency key. A delivery that can't be routed yet is in neither, nor what was erased.
 */
export const splitLetters = (
  letters: ReadonlyArray<StoredDeadLetter>,
  reroute: Reroute | undefined,
): { readonly again: ReadonlyArray<AgainLetter>; readonly routed: ReadonlyArray<AgainLetter> } => {
  const again: Array<AgainLetter> = []
  const routed: Array<AgainLetter> = []
  for (const letter of letters) {
    const { entry, lane } = letter
    if (entry.event.erased !== undefined) continue
    if (lane !== quarantine || reroute === undefined) {
      again.push({ letter, event: toReplay(entry.event), sinks: [lane] })
    } else {
      const found = reroute(entry.event)
      if (found !== undefined) routed.push({ letter, ...found })
    }
  }
  return { again, routed }
}

/** Takes the first targets of a replay, at most `most` events of them. Those that `find` does not find are `gone`. */
export const replaySlice = (
  targets: ReadonlyArray<ReplayTarget>,
  find: (sequence: number) => Entry | undefined,
  most: number,
): { readonly done: number; readonly again: ReadonlyArray<Again>; readonly gone: ReadonlyArray<number> } => {
  const again: Array<Again> = []
  const gone: Array<number> = []
  let done = 0
  let size = 0
  for (const { sequence, sinks } of targets) {
    if (again.length >= most || size >= slice.bytes) break
    const event = find(sequence)?.event
    if (event === undefined || event.erased !== undefined) gone.push(sequence)
    else again.push({ event: toReplay(event), sinks, sequence })
    size += event?.body.length ?? 0
    done++
  }
  return { done, again, gone }
}

/**
 * Takes what a lane waits for among `entries`, which follow its cursor, up to `end`, to append it again for `to`; and
 * the lane's cursor once that is done.
 */
export const moveSlice = (
  entries: ReadonlyArray<Entry>,
  source: Backlog,
  to: string,
  end: number,
): { readonly again: ReadonlyArray<Again>; readonly cursor: Cursor } => {
  const again: Array<Again> = []
  let last = end
  let size = 0
  for (const entry of entries) {
    const { sequence, event, sinks } = entry
    if (sequence > end) break
    last = sequence
    if (!sinks.includes(source.lane) || !source.isPending(sequence)) continue
    again.push({ event: toMove(entry), sinks: [to], sequence })
    size += event.body.length
    if (size >= slice.bytes) break
  }
  return { again, cursor: { sequence: last, settled: source.cursor.settled.filter(([, to]) => to > last) } }
}

/** Records that entries were replayed; the first one's copy has the sequence `first`. */
export const copied = (again: ReadonlyArray<Again>, first: number, { at, by }: Removal): ReadonlyArray<Ended> =>
  again.map(({ sequence }, index) => ({
    ...{ sequence, lane: "", at, outcome: "copied", copy: first + index },
    note: { by },
  }))

/** Records that entries went from one lane to another. */
export const moved = (
  again: ReadonlyArray<Again>,
  first: number,
  { at, by }: Removal,
  lane: string,
  to: string,
): ReadonlyArray<Ended> =>
  again.map(({ sequence }, index) => ({
    ...{ sequence, lane, at, outcome: "moved", copy: first + index },
    note: { by, to },
  }))
