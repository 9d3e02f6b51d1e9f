/** Replays dead letters, or drops them. */
import { Effect } from "effect"
import { quarantine } from "../../event/Event.ts"
import type { Reroute } from "../Archive.ts"
import { type JournalError, unavailable } from "../JournalError.ts"
import { type DeadLetterKey, parseLetterId, type StoredDeadLetter } from "../LaneInfo.ts"
import { type Copies, type Reappended, type Removal, removal, slice } from "../stream/BulkSlices.ts"
import { Origin } from "../stream/Record.ts"
import type { JournalTables, RemovedLetters, SliceRows } from "./JournalTables.ts"
import { byLog, requireRoom } from "./Reappending.ts"

/** The dead letters with these ids, each once, oldest first. */
const keysOf = (ids: ReadonlyArray<string>): ReadonlyArray<DeadLetterKey> =>
  [...new Set(ids)].flatMap((id) => parseLetterId(id) ?? []).sort((a, b) => a.sequence - b.sequence)

/** The failure of a change if another change has taken its dead letters. */
export const lettersChanged = unavailable("Dead letters have changed meanwhile. Look again, and repeat it.")

/** A delivery of the quarantine that is appended for its sinks. */
interface RoutedLetter extends Reappended {
  readonly letter: StoredDeadLetter
}

/**
 * Splits dead letters: `own` return to their lane; `routed` are deliveries of the
 * quarantine that can be routed now. Neither has deliveries that can't be routed
 * yet, or erased ones.
 */
export const splitLetters = (
  letters: ReadonlyArray<StoredDeadLetter>,
  reroute: Reroute | undefined,
): { readonly own: ReadonlyArray<StoredDeadLetter>; readonly routed: ReadonlyArray<RoutedLetter> } => {
  const kept = letters.filter(({ entry }) => entry.event.erased === undefined)
  const isRouted = ({ lane }: StoredDeadLetter) => lane === quarantine && reroute !== undefined
  const routed = kept.filter(isRouted).flatMap((letter) => {
    const found = reroute?.(letter.entry.event)
    return found === undefined ? [] : [{ letter, ...found }]
  })
  return { own: kept.filter((letter) => !isRouted(letter)), routed }
}

/** Returns dead letters to their lanes. `reroute` names the sinks of quarantined ones, which are appended. Returns the number. */
export const replay = Effect.fnUntraced(function* (
  tables: JournalTables,
  ids: ReadonlyArray<string>,
  reroute: Reroute | undefined,
): Effect.fn.Return<number, JournalError> {
  const why = yield* removal
  const keys = keysOf(ids)
  let count = 0
  const some = Effect.fnUntraced(function* (rows: SliceRows, keys: ReadonlyArray<DeadLetterKey>) {
    const { done, letters } = yield* rows.letters(keys)
    const { own, routed } = splitLetters(letters, reroute)
    if (own.length > 0) count += yield* rows.giveBack(own, why)
    if (routed.length > 0) yield* requireRoom(tables, `${count} dead letters were replayed, the others stay.`)
    const received = yield* rows.received(routed)
    const fresh = routed.filter((one) => !received.has(one))
    for (const part of byLog(tables, fresh)) {
      yield* rows.append(part, Origin.delivered, (copies) => ({ removed: replayed(part, copies, why) }))
      count += part.length
    }
    // The sender has delivered these again, so they need no replay.
    if (received.size > 0) count += yield* rows.remove(replayed([...received], [], why))
    return done
  })
  for (let next = 0; next < keys.length; ) {
    const part = keys.slice(next, next + slice.letters)
    next += yield* tables.slice((rows) => some(rows, part))
  }
  return count
})

const replayed = (gone: ReadonlyArray<RoutedLetter>, copies: Copies, why: Removal): RemovedLetters => ({
  ...{ keys: gone.map(({ letter }) => letter), outcome: "replayed", copies, why },
})

/** Deletes dead letters. Returns the number of dead letters that existed. */
export const drop = Effect.fnUntraced(function* (
  tables: JournalTables,
  ids: ReadonlyArray<string>,
): Effect.fn.Return<number, JournalError> {
  const why = yield* removal
  const keys = keysOf(ids)
  let count = 0
  for (let next = 0; next < keys.length; next += slice.letters) {
    const part = { keys: keys.slice(next, next + slice.letters), outcome: "dropped", copies: [], why } as const
    count += yield* tables.slice((rows) => rows.remove(part))
  }
  return count
})
