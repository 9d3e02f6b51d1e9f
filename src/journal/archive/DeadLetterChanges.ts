/** Replays dead letters, or drops them. */
import { Effect } from "effect"
import { quarantine } from "../../event/Event.ts"
import type { Reroute } from "../Archive.ts"
import * as DeadLetterId from "../DeadLetterId.ts"
import type { JournalError } from "../JournalError.ts"
import type { StoredDeadLetter } from "../LaneInfo.ts"
import { slice } from "../stream/BulkSlices.ts"
import { type Copies, type Reappended, toReplay } from "../stream/Reappended.ts"
import { Origin } from "../stream/Record.ts"
import { type Removal, removal } from "../stream/Removal.ts"
import type { JournalTables, RemovedLetters, SliceRows } from "./JournalTables.ts"
import { byLog, requireRoom } from "./Reappending.ts"

/** The dead letters that ids name, each once, oldest first. */
const keysOf = (ids: ReadonlyArray<string>): ReadonlyArray<DeadLetterId.DeadLetterKey> =>
  [...new Set(ids)].flatMap((id) => DeadLetterId.parse(id) ?? []).sort((a, b) => a.sequence - b.sequence)

/** A dead letter that is appended again. */
interface AgainLetter extends Reappended {
  readonly letter: StoredDeadLetter
}

/**
 * Splits dead letters: `again` are replays, for their lane; `routed` are deliveries of the quarantine that can be
 * routed now, which keep their idempotency key. A delivery that can't be routed yet is in neither, and neither is an
 * erased one.
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

/** Appends dead letters again for their lane. `reroute` names the sinks of quarantined ones. Returns the number. */
export const replay = Effect.fnUntraced(function* (
  tables: JournalTables,
  ids: ReadonlyArray<string>,
  reroute: Reroute | undefined,
): Effect.fn.Return<number, JournalError> {
  const why = yield* removal
  const keys = keysOf(ids)
  let count = 0
  const some = Effect.fnUntraced(function* (rows: SliceRows, keys: ReadonlyArray<DeadLetterId.DeadLetterKey>) {
    const { done, letters } = yield* rows.letters(keys)
    const { again, routed } = splitLetters(letters, reroute)
    if (again.length + routed.length > 0)
      yield* requireRoom(tables, `${count} dead letters were replayed, the others stay.`)
    const received = yield* rows.received(routed)
    const fresh = routed.filter((one) => !received.has(one))
    for (const [origin, all] of [
      [Origin.replayed, again],
      [Origin.delivered, fresh],
    ] as const) {
      for (const part of byLog(tables, all)) {
        yield* rows.append(part, origin, (copies) => ({ removed: replayed(part, copies, why) }))
        count += part.length
      }
    }
    // The sender has delivered them again since.
    if (received.size > 0) count += yield* rows.remove(replayed([...received], [], why))
    return done
  })
  for (let next = 0; next < keys.length; ) {
    const part = keys.slice(next, next + slice.letters)
    next += yield* tables.slice((rows) => some(rows, part))
  }
  return count
})

const replayed = (gone: ReadonlyArray<AgainLetter>, copies: Copies, why: Removal): RemovedLetters => ({
  ...{ keys: gone.map(({ letter }) => letter), outcome: "replayed", copies, why },
})

/** Removes dead letters for good. Returns the number of those that there were. */
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
