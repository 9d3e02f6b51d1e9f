/**
 * How events ended at a lane, in few bytes. Events delivered by their first attempt are stored as ranges. A row
 * has the ranges of one lane among {@link span} sequences, and later settlements append to it. All other ends
 * are stored one by one ({@link Ended}).
 *
 * A range takes 5 bytes, and the first of a settlement 10. Its fields are:
 * - its first sequence within the row, and a bit that says whether a time follows
 * - the time, or how much later it ended than the range before
 * - the number of sequences
 * - the duration of the attempt
 * - the answer's code
 */
import type { Attempt, CopyLink, DeliveryState, DeliveryStatus } from "../DeliveryStatus.ts"
import { attemptsOf, type DeliveredRange, type Delivery } from "../Settlement.ts"

/** The number of sequences in a row. A byte holds a sequence's place in it, and a flag. */
export const span = 128
const timeFollows = 128

/** Returns the row of outcomes for a sequence. */
export const bucketOf = (sequence: number): number => Math.floor(sequence / span)

const put = (bytes: Array<number>, value: number): void => {
  let rest = Math.max(0, Math.round(value))
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) + 128)
  bytes.push(rest)
}

/** Stored codes are relative to this number, so that 200 takes one byte; 0 means no code. Lower codes end no event. */
const codeBase = 199

/** Encodes a settlement's ranges as bytes to append to rows, by bucket. */
export const encodeRanges = (ranges: ReadonlyArray<DeliveredRange>): ReadonlyMap<number, Uint8Array> => {
  const rows = new Map<number, { readonly bytes: Array<number>; at: number }>()
  for (const { from, to, at, took, code = 0 } of ranges) {
    for (let first = from; first <= to; ) {
      const bucket = bucketOf(first)
      const last = Math.min(to, (bucket + 1) * span - 1)
      const known = rows.get(bucket)
      const isNew = known === undefined || at < known.at
      const row = known ?? { bytes: [], at: 0 }
      if (known === undefined) rows.set(bucket, row)
      row.bytes.push((first % span) + (isNew ? timeFollows : 0))
      put(row.bytes, isNew ? at : at - row.at)
      put(row.bytes, last - first)
      put(row.bytes, took)
      put(row.bytes, code > codeBase ? code - codeBase : 0)
      row.at = at
      first = last + 1
    }
  }
  return new Map([...rows].map(([bucket, { bytes }]) => [bucket, Uint8Array.from(bytes)]))
}

/** Returns the newest delivery of a sequence in a row. Ignores a range that the disk has cut short. */
export const findDelivery = (bytes: Uint8Array, sequence: number): Delivery | undefined => {
  const wanted = sequence % span
  let found: Delivery | undefined
  let next = 0
  const read = (): number => {
    let value = 0
    for (let scale = 1; next < bytes.length; scale *= 128) {
      const byte = bytes[next++] ?? 0
      value += (byte % 128) * scale
      if (byte < 128) return value
    }
    return value
  }
  for (let at = 0; next < bytes.length; ) {
    const head = bytes[next++] ?? 0
    const time = read()
    at = head >= timeFollows ? time : at + time
    const more = read()
    const took = read()
    if (next >= bytes.length) return found
    const code = read()
    const from = head % timeFollows
    if (from <= wanted && wanted <= from + more) found = { at, took, ...(code > 0 && { code: code + codeBase }) }
  }
  return found
}

/** Why and when an event ended at a lane, unless its first attempt delivered it; or that it was appended again. */
export interface Ended {
  readonly sequence: number
  /** The lane; empty for a copy that was made for any sinks. */
  readonly lane: string
  readonly at: number
  /**
   * `laneRemoved` covers all events up to `last`. Two outcomes end nothing. `copied`: an event was replayed,
   * whether it had ended or not. `returned`: a dead letter was replayed, and waits for its lane again.
   */
  readonly outcome:
    | Extract<DeliveryState, "delivered" | "counted" | "dropped" | "replayed" | "moved" | "laneRemoved">
    | "copied"
    | "returned"
  readonly last?: number
  readonly copy?: number
  readonly note: EndedNote
}

/** The details of an end. Times are epoch milliseconds; `took` is in milliseconds. */
export interface EndedNote {
  readonly by?: string
  readonly to?: string
  readonly alert?: number
  readonly took?: number
  readonly code?: number
  readonly tries?: number
  readonly deadAt?: number
  readonly attempts?: ReadonlyArray<Attempt>
}

const endsNothing: ReadonlySet<Ended["outcome"]> = new Set(["copied", "returned"])

/**
 * Returns the replays of an event while it was a dead letter of a lane. `ended` are the lane's records of the
 * event.
 */
export const replaysOf = (ended: ReadonlyArray<Ended>): Pick<DeliveryStatus, "replays"> => {
  const replays = ended
    .filter(({ outcome }) => outcome === "returned")
    .map(({ at, note: { by = "", deadAt = 0 } }) => ({ at, by, deadAt }))
  return replays.length === 0 ? {} : { replays }
}

/** Returns the state at a lane that no longer holds the event. */
export const endedStatus = (
  sink: string,
  lane: { readonly exists: boolean; readonly isPassed: boolean },
  ended: ReadonlyArray<Ended>,
  delivery: Delivery | undefined,
): DeliveryStatus => {
  const last = ended.findLast(({ outcome }) => !endsNothing.has(outcome) && outcome !== "laneRemoved")
  if (last !== undefined && (lane.isPassed || !lane.exists)) {
    const { attempts = [], ...note } = last.note
    const { at, outcome, copy } = last
    const tries = attemptsOf(attempts)
    return {
      ...{ sink, outcome: outcome as DeliveryState, at },
      ...(tries > 0 && { tries }),
      ...(copy !== undefined && { copy }),
      ...note,
      attempts,
    }
  }
  if (lane.exists && !lane.isPassed) return { sink, outcome: "pending", attempts: [] }
  if (delivery !== undefined) return { sink, outcome: "delivered", tries: 1, ...delivery, attempts: [] }
  // This also applies if a lane of that name exists again: it begins after the events of the removed one.
  const removed = ended.findLast(({ outcome }) => outcome === "laneRemoved")
  if (removed === undefined) return { sink, outcome: lane.exists ? "unrecorded" : "laneRemoved", attempts: [] }
  return { sink, outcome: "laneRemoved", at: removed.at, ...removed.note, attempts: [] }
}

/** Returns an event's original and its copies, from its ends at any lane. */
export const linksOf = (
  sequence: number,
  ended: ReadonlyArray<Ended>,
): { readonly copyOf?: CopyLink; readonly copies?: ReadonlyArray<CopyLink> } => {
  const copies: Array<CopyLink> = []
  let copyOf: CopyLink | undefined
  for (const { sequence: original, copy, at, note } of ended) {
    const by = note.by ?? ""
    if (copy === sequence) copyOf = { sequence: original, at, by }
    else if (copy !== undefined && original === sequence && copies.at(-1)?.sequence !== copy) {
      copies.push({ sequence: copy, at, by })
    }
  }
  return { ...(copyOf !== undefined && { copyOf }), ...(copies.length > 0 && { copies }) }
}
