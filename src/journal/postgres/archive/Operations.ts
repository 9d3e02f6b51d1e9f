/**
 * An operator's changes to many events: dead letters, replays, lanes that are
 * moved or dropped, imports.
 *
 * In slices, each in one transaction: after a crash those that were committed
 * stay, and the operation can be started again. Any relay can do them, for what
 * any other has stored. A slice costs the same round trips whatever it holds:
 * each operation says how many.
 */
import { Effect } from "effect"
import * as Pattern from "../../../routing/Pattern.ts"
import type { ImportCounts, ReplayCounts, ReplayTarget, Reroute, UndeliveredEvent } from "../../Archive.ts"
import * as DeadLetterId from "../../DeadLetterId.ts"
import { type JournalError, unavailable } from "../../JournalError.ts"
import type { DeadLetterQuery, StoredDeadLetter } from "../../LaneInfo.ts"
import { copied, replaySlice, slice, splitLetters } from "../../stream/BulkSlices.ts"
import { keyOf } from "../../stream/DuplicateKey.ts"
import { addCounts, chooseImports, importedLetters, mayBeReceived } from "../../stream/ImportChoice.ts"
import type { Reappended } from "../../stream/Reappended.ts"
import { Origin } from "../../stream/Record.ts"
import { type Removal, removal } from "../../stream/Removal.ts"
import type { StreamWriter } from "../append/StreamWriter.ts"
import type { Database, Queries } from "../connection/Database.ts"
import { refusing } from "../connection/DatabaseRefusal.ts"
import * as Erasures from "../tables/Erasures.ts"
import * as LaneTables from "../tables/LaneTables.ts"
import * as OutcomeTables from "../tables/OutcomeTables.ts"
import { readBytes } from "../tables/StreamRows.ts"
import * as KeptEntries from "./KeptEntries.ts"

/** The dead letters that the third and fourth parameter name. */
const isAsked = "(t.lane, t.sequence) IN (SELECT * FROM unnest($3::text[], $4::bigint[]))"

/** Changes what is kept; `recount` is called once dead letters were added or removed. */
export class Operations {
  readonly #db: Database
  readonly #writer: StreamWriter
  /** Dead letters were added or removed. */
  readonly #recount: () => void

  constructor(db: Database, writer: StreamWriter, recount: () => void) {
    this.#db = db
    this.#writer = writer
    this.#recount = recount
  }

  /** Entries that go to the same stream can go in one commit. */
  #parts<A extends Reappended>(entries: ReadonlyArray<A>): ReadonlyArray<ReadonlyArray<A>> {
    return [...Map.groupBy(entries, ({ sinks }) => this.#writer.isShared(sinks)).values()]
  }

  // --- dead letters ----------------------------------------------------------

  /** One round trip for each 4 MB, or 1,000 letters, that it looks through. */
  readonly deadLetters = Effect.fnUntraced(function* (this: Operations, query: DeadLetterQuery) {
    const matches = query.type === undefined ? undefined : Pattern.make(query.type)
    const letters: Array<StoredDeadLetter> = []
    let before = DeadLetterId.parse(query.before)
    for (let size = 0; letters.length < query.limit && size < readBytes; ) {
      const { rows } = yield* refusing(
        this.#db.query<LaneTables.LetterRow & { type: string }>(
          `SELECT lane, sequence, at, type, attempts, record FROM (
             SELECT *, sum(size) OVER (ORDER BY sequence DESC, lane COLLATE "C" DESC) - size AS before FROM (
               SELECT * FROM dead WHERE ($1::text IS NULL OR lane = $1)
                 AND ($2::bigint IS NULL OR sequence < $2 OR (sequence = $2 AND lane COLLATE "C" < $3))
               ORDER BY sequence DESC, lane COLLATE "C" DESC LIMIT $4
             ) AS next
           ) AS sized WHERE before < ${readBytes} ORDER BY sequence DESC, lane COLLATE "C" DESC`,
          [query.lane ?? null, before?.sequence ?? null, before?.lane ?? null, Math.min(query.limit, 1_000)],
        ),
      )
      for (const row of rows) {
        before = row
        if (matches !== undefined && !matches.matches(JSON.parse(row.type))) continue
        const letter = LaneTables.letterOf(row)
        if (letter === undefined) continue
        letters.push(letter)
        size += letter.entry.event.body.length
        if (letters.length === query.limit) break
      }
      if (rows.length === 0) break
    }
    return letters
  })

  #lettersOf(ids: ReadonlyArray<string>) {
    const keys = ids.flatMap((id) => DeadLetterId.parse(id) ?? [])
    return Effect.map(
      refusing(
        this.#db.query<LaneTables.LetterRow>(
          `SELECT lane, sequence, at, attempts, record
           FROM unnest($1::text[], $2::bigint[]) WITH ORDINALITY AS asked(lane, sequence, place)
           JOIN dead USING (lane, sequence) ORDER BY place`,
          LaneTables.placesOf(keys),
        ),
      ),
      ({ rows }) => rows.flatMap((row) => LaneTables.letterOf(row) ?? []),
    )
  }

  /** In the transaction that appends them again: what another relay took meanwhile ends it. */
  #remove = Effect.fnUntraced(function* (
    queries: Queries,
    gone: ReadonlyArray<{ readonly letter: StoredDeadLetter }>,
    why: Removal,
    /** The sequence of the first one's copy; the others follow it. */
    first?: number,
  ) {
    const letters = gone.map(({ letter }) => letter)
    const copies = letters.map((_, index) => (first === undefined ? null : first + index))
    const asked = "unnest($3::text[], $4::bigint[], $5::bigint[]) AS asked(lane, sequence, copy)"
    const { count } = yield* queries.query(
      OutcomeTables.takenFrom(
        "dead",
        isAsked,
        "'replayed'",
        `(SELECT asked.copy FROM ${asked} WHERE asked.lane = gone.lane AND asked.sequence = gone.sequence)`,
      ),
      [...OutcomeTables.removalParams(why), ...LaneTables.placesOf(letters), copies],
    )
    if (count < letters.length) {
      return yield* unavailable("Another relay has changed these dead letters meanwhile. Look again, and repeat it.")
    }
  })

  /** Seven round trips a slice; where some are routed anew, or go to both kinds of streams, some more. */
  readonly replayDeadLetters = Effect.fnUntraced(function* (
    this: Operations,
    ids: ReadonlyArray<string>,
    reroute: Reroute | undefined,
  ) {
    let count = 0
    const why = yield* removal
    const wanted = [...new Set(ids)]
    for (let next = 0; next < wanted.length; next += slice.letters) {
      const erasures = yield* refusing(Erasures.counted(this.#db))
      const letters = yield* this.#lettersOf(wanted.slice(next, next + slice.letters))
      const { again, routed } = splitLetters(letters, reroute)
      for (const part of this.#parts(again)) {
        yield* this.#writer.reappend(part, Origin.replayed, (queries, first) =>
          Effect.andThen(Erasures.requireNoneSince(queries, erasures), this.#remove(queries, part, why, first)),
        )
      }
      // A delivery that was never routed is no replay: it has the key of the delivery that it came with, and may have come again.
      const known = yield* this.#known(routed)
      const removed = routed.filter((one) => known.has(one))
      if (removed.length > 0) yield* refusing(this.#db.transact((queries) => this.#remove(queries, removed, why)))
      for (const part of this.#parts(routed.filter((one) => !known.has(one)))) {
        // Only one of two entries of the same delivery is appended, and which sequence is whose is not known.
        const isEach = new Set(part.map(({ event }) => JSON.stringify(keyOf(event)))).size === part.length
        yield* this.#writer.reappend(part, Origin.delivered, (queries, first) =>
          Effect.andThen(
            Erasures.requireNoneSince(queries, erasures),
            this.#remove(queries, part, why, isEach ? first : undefined),
          ),
        )
      }
      count += again.length + routed.length
      this.#recount()
    }
    return count
  })

  /** The deliveries that the database has seen. */
  #known = Effect.fnUntraced(function* <A extends Pick<Reappended, "event">>(
    this: Operations,
    entries: ReadonlyArray<A>,
  ) {
    if (entries.length === 0) return new Set<A>()
    const keys = entries.map(({ event }) => keyOf(event))
    const { rows } = yield* refusing(
      this.#db.query<{ place: number }>(
        `SELECT place FROM unnest($1::int[], $2::int[], $3::int[]) WITH ORDINALITY AS asked(lo, hi, crc, place)
         JOIN seen USING (lo, hi, crc)`,
        [keys.map(({ lo }) => lo | 0), keys.map(({ hi }) => hi | 0), keys.map(({ bodyCrc }) => bodyCrc | 0)],
      ),
    )
    return new Set(rows.flatMap(({ place }) => entries[place - 1] ?? []))
  })

  /** One round trip. */
  readonly dropDeadLetters = Effect.fnUntraced(function* (this: Operations, ids: ReadonlyArray<string>) {
    const why = yield* removal
    const keys = ids.flatMap((id) => DeadLetterId.parse(id) ?? [])
    const { count } = yield* refusing(
      this.#db.query(OutcomeTables.takenFrom("dead", isAsked, "'dropped'"), [
        ...OutcomeTables.removalParams(why),
        ...LaneTables.placesOf(keys),
      ]),
    )
    this.#recount()
    return count
  })

  // --- replays ---------------------------------------------------------------

  /** Seven round trips, or eight where the log was pruned of some. */
  readonly replay = Effect.fnUntraced(function* (
    this: Operations,
    targets: ReadonlyArray<ReplayTarget>,
  ): Effect.fn.Return<ReplayCounts, JournalError> {
    const [first] = targets
    if (first === undefined) return { done: 0, gone: [] }
    const isShared = this.#writer.isShared(first.sinks)
    const other = targets.findIndex(({ sinks }) => this.#writer.isShared(sinks) !== isShared)
    const together = targets.slice(0, other < 0 ? slice.entries : Math.min(other, slice.entries))
    const erasures = yield* refusing(Erasures.counted(this.#db))
    const found = yield* KeptEntries.find(
      this.#db,
      together.map(({ sequence }) => sequence),
    )
    const { done, again, gone } = replaySlice(
      together.slice(0, found.done),
      (sequence) => found.entries.get(sequence),
      slice.entries,
    )
    if (again.length === 0) return { done, gone }
    const why = yield* removal
    yield* this.#writer.reappend(again, Origin.replayed, (queries, start) =>
      Effect.andThen(
        Erasures.requireNoneSince(queries, erasures),
        OutcomeTables.putEnded(queries, copied(again, start, why)),
      ),
    )
    return { done, gone }
  })

  // --- imports ---------------------------------------------------------------

  /** One round trip, and six a slice; dead letters cost one more, and so does a slice for both kinds of streams. */
  readonly import = Effect.fnUntraced(function* (
    this: Operations,
    journal: string,
    events: ReadonlyArray<UndeliveredEvent>,
  ): Effect.fn.Return<ImportCounts, JournalError> {
    const { count } = yield* refusing(
      this.#db.query("SELECT FROM meta WHERE (key = 'identity' AND value = $1) OR key = 'copy:' || $1", [journal]),
    )
    if (count > 0) {
      return yield* unavailable(
        "That is the journal that the relay runs on, a copy of it, or one that was copied into it: what it owes is on its way. Only what another journal owed can be imported.",
      )
    }
    const counts = { pending: 0, deadLetters: 0, known: 0 }
    for (let next = 0; next < events.length; next += slice.entries) {
      const part = yield* this.#importPart(journal, events.slice(next, next + slice.entries))
      counts.pending += part.pending
      counts.deadLetters += part.deadLetters
      counts.known += part.known
    }
    return counts
  })

  #importPart = Effect.fnUntraced(function* (this: Operations, journal: string, part: ReadonlyArray<UndeliveredEvent>) {
    const { rows } = yield* refusing(
      this.#db.query<{ sequence: number; lanes: ReadonlyArray<string> }>(
        "SELECT sequence, lanes FROM imported WHERE journal = $1 AND sequence = ANY($2::bigint[])",
        [journal, part.map(({ sequence }) => sequence)],
      ),
    )
    const importedFor = new Map(rows.map(({ sequence, lanes }) => [sequence, lanes]))
    const received = yield* this.#known(part.filter(mayBeReceived))
    const { chosen, lanesOf, known } = chooseImports(
      part,
      (sequence) => importedFor.get(sequence) ?? [],
      (one) => received.has(one),
    )
    const counts = { pending: 0, deadLetters: 0, known }
    for (const group of this.#parts(chosen)) {
      const stored = yield* this.#writer.reappend(group, Origin.moved, (queries, first) =>
        Effect.gen(function* () {
          yield* queries.query(
            `INSERT INTO imported (journal, sequence, lanes) SELECT $1, * FROM unnest($2::bigint[], $3::jsonb[])
             ON CONFLICT (journal, sequence) DO UPDATE SET lanes = excluded.lanes`,
            [journal, ...notesOf(group, lanesOf)],
          )
          yield* LaneTables.putLetters(queries, importedLetters(group, first))
        }),
      )
      if (stored.first === 0) continue
      addCounts(counts, group)
    }
    if (counts.deadLetters > 0) this.#recount()
    return counts
  })
}

/** By event, the lanes that it was imported for: each event once. */
const notesOf = (group: ReadonlyArray<UndeliveredEvent>, lanesOf: ReadonlyMap<number, ReadonlySet<string>>) => {
  const sequences = [...new Set(group.map(({ sequence }) => sequence))]
  return [sequences, sequences.map((sequence) => JSON.stringify([...(lanesOf.get(sequence) ?? [])]))] as const
}
