/**
 * Stores a copy in a new file: all streams of the source in one log, numbered
 * anew. First what every lane has settled; then what one still waits for.
 *
 * **Guarantee.** The journal's file is there when all of it is. A copy that was
 * interrupted goes on where it was.
 */
import { existsSync, renameSync, rmSync } from "node:fs"
import { Effect } from "effect"
import type { Entry } from "../../../event/Entry.ts"
import { type CopiedOutcomes, type CopySource, type CopyTarget, each } from "../../JournalCopy.ts"
import { MaintenanceError } from "../../JournalError.ts"
import type { Cursor, Delivery } from "../../Settlement.ts"
import { isPassed } from "../../stream/Cursors.ts"
import { bucketOf, findDelivery } from "../../stream/OutcomeRecord.ts"
import { Origin } from "../../stream/Record.ts"
import { JournalLock } from "../file/JournalLock.ts"
import { AuditRows } from "../rows/AuditRows.ts"
import { DeadLetters } from "../rows/DeadLetters.ts"
import { Retries } from "../rows/Retries.ts"
import { lockOf, type SqliteConfig } from "../SqliteConfig.ts"
import { attemptOn } from "./SqliteCopySource.ts"
import { UnfinishedCopy } from "./UnfinishedCopy.ts"

/** Lanes that have not settled an event. */
const pendingOf = (cursors: ReadonlyMap<string, Cursor>, { sequence, sinks }: Entry): ReadonlyArray<string> =>
  sinks.filter((sink) => {
    const cursor = cursors.get(sink)
    return cursor !== undefined && !isPassed(cursor, sequence)
  })

/** The deliveries of an event at the first attempt, by the lane's name. */
const deliveriesOf = (
  outcomes: ReadonlyArray<CopiedOutcomes>,
  sequence: number,
): ReadonlyArray<readonly [lane: string, Delivery]> =>
  outcomes.flatMap(({ bucket, lane, bytes }) => {
    const found = bucket === bucketOf(sequence) ? findDelivery(bytes, sequence) : undefined
    return found === undefined ? [] : [[lane, found] as const]
  })

type Write = <A>(work: () => A) => Effect.Effect<A, MaintenanceError>

/** Notes which events' places the retries, the dead letters and what has ended will need. */
const noteKept = (copy: UnfinishedCopy, { streams }: CopySource, write: Write) =>
  Effect.forEach(streams.entries(), ([index, stream]) => {
    const { retries, letters } = stream
    const note = (sequences: ReadonlyArray<number>) =>
      write(() => copy.transaction(() => sequences.forEach((sequence) => void copy.note(index, sequence))))
    const noteCopies = (copies: ReadonlyArray<{ readonly stream: number; readonly sequence: number }>) =>
      write(() => copy.transaction(() => copies.forEach((one) => void copy.note(one.stream, one.sequence))))
    return Effect.all([
      each.retry(retries, (some) => note(some.map(({ sequence }) => sequence))),
      each.letter(letters, (some) => note(some.map(({ entry }) => entry.sequence))),
      each.end(stream.ends, (some) => note(some.map(({ sequence }) => sequence))),
      each.end(stream.ends, (some) =>
        noteCopies(some.flatMap(({ copy: copied }) => (copied === undefined ? [] : [copied]))),
      ),
    ])
  })

const putEvents = Effect.fnUntraced(function* (
  copy: UnfinishedCopy,
  { streams }: CopySource,
  write: Write,
  onProgress: (share: number) => Effect.Effect<void>,
) {
  const { position } = copy
  for (; position.pass < 2; position.pass += 1, position.stream = 0) {
    for (; position.stream < streams.length; position.stream += 1, position.after = 0) {
      const stream = streams[position.stream]
      if (stream === undefined) break
      const cursors = new Map(stream.lanes.map(({ name, cursor }) => [name, cursor]))
      for (;;) {
        const stored = yield* stream.events(position.after)
        const end = stored.at(-1)
        if (end === undefined) break
        const outcomes = yield* stream.outcomes(stored[0]?.entry.sequence ?? 0, end.entry.sequence)
        yield* write(() =>
          copy.transaction(() => {
            for (const one of stored) {
              const pending = pendingOf(cursors, one.entry)
              if (pending.length > 0 !== (position.pass === 1)) continue
              const place = copy.add(position.stream, one)
              position.events += 1
              for (const [lane, delivery] of deliveriesOf(outcomes, one.entry.sequence)) {
                copy.outcomes.delivered(lane, [{ from: place, to: place, ...delivery }])
              }
              if (pending.length === 0) continue
              for (const sink of one.entry.sinks) if (!pending.includes(sink)) copy.settled(sink, place)
            }
            position.after = end.entry.sequence
            copy.save()
          }),
        )
        const done = position.pass * streams.length + position.stream + position.after / Math.max(1, stream.last)
        yield* onProgress(done / (2 * streams.length))
      }
    }
    if (position.pass === 0) position.owedFrom = position.next
  }
})

/** Retries, dead letters, imports and the audit log; in the transaction that completes the copy. */
const putKept = Effect.fnUntraced(function* (copy: UnfinishedCopy, source: CopySource, write: Write) {
  const { db } = copy
  const counts = { retries: 0, deadLetters: 0 }
  const retryRows = new Retries(db)
  const letterRows = new DeadLetters(db, () => {})
  for (const [index, stream] of source.streams.entries()) {
    /** One that the log was pruned of is appended too, to get a sequence; no lane sends it from there. */
    const placed = (entry: Entry): Entry => ({
      ...entry,
      sequence:
        copy.placeOf(index, entry.sequence) ??
        copy.add(index, { entry: { ...entry, sinks: [] }, origin: Origin.moved }),
    })
    yield* each.retry(stream.retries, (some) =>
      write(() => {
        for (const { lane, entry, attempts, ...wait } of some) {
          const own = placed(entry)
          const change = { ...wait, sequence: own.sequence, refunded: 0, failed: [] }
          retryRows.put({ lane, change, attempts, entry: own })
        }
        counts.retries += some.length
      }),
    )
    yield* each.letter(stream.letters, (some) =>
      write(() => {
        for (const letter of some) letterRows.put({ ...letter, entry: placed(letter.entry) })
        counts.deadLetters += some.length
      }),
    )
  }
  for (const [index, stream] of source.streams.entries()) {
    yield* each.end(stream.ends, (some) =>
      write(() => {
        for (const { sequence, last, copy: copied, ...end } of some) {
          const place = copy.placeOf(index, sequence)
          const placeOfCopy = copied && copy.placeOf(copied.stream, copied.sequence)
          const isLost = place === undefined || (end.outcome === "copied" && placeOfCopy === undefined)
          // Sequences that were next to each other no longer are, so it isn't told when a lane was removed.
          if (isLost || last !== undefined) continue
          const own = { ...end, sequence: place, ...(placeOfCopy !== undefined && { copy: placeOfCopy }) }
          copy.outcomes.ended(own)
        }
      }),
    )
  }
  const imported = db.prepare("INSERT OR IGNORE INTO imported (journal, sequence, lanes) VALUES (?, ?, ?)")
  yield* each.import(source.imported, (some) =>
    write(() => {
      for (const { journal, sequence, lanes } of some) imported.run(journal, sequence, JSON.stringify(lanes))
    }),
  )
  const audit = new AuditRows(db)
  yield* each.record(source.audit, (some) =>
    write(() => {
      for (const record of some) audit.add(record, record.relay)
    }),
  )
  return counts
})

const requireAbsent = (path: string): void => {
  if (!existsSync(path)) return
  throw new MaintenanceError({ message: `There is a journal at ${path}: a copy is written into a new file.` })
}

/** A new journal at the config's path as the target of a copy; it fails when there is one already. */
export const target = ({ path }: SqliteConfig): Effect.Effect<CopyTarget, MaintenanceError> =>
  Effect.succeed({
    put: (source, onProgress) =>
      Effect.gen(function* () {
        const write: Write = attemptOn(path, "written")
        yield* write(() => requireAbsent(path))
        const unfinished = `${path}.copying`
        // Two copies at a time would take turns in one file.
        yield* Effect.acquireRelease(
          write(() => new JournalLock(unfinished)),
          (lock) =>
            Effect.sync(() => {
              lock.close()
              rmSync(lockOf(unfinished), { force: true })
            }),
        )
        const copy = yield* Effect.acquireRelease(
          write(() => new UnfinishedCopy(unfinished, source)),
          (copy) => Effect.sync(() => copy.close()),
        )
        yield* noteKept(copy, source, write)
        yield* putEvents(copy, source, write, onProgress)
        yield* write(() => copy.db.prepare("BEGIN").run())
        const counts = yield* putKept(copy, source, write)
        yield* write(() => {
          copy.complete(source)
          copy.db.prepare("COMMIT").run()
          copy.close()
          // A relay may have begun one meanwhile.
          requireAbsent(path)
          renameSync(unfinished, path)
        })
        return { ...counts, events: copy.position.events - copy.known, known: copy.known }
      }).pipe(Effect.scoped),
  })
