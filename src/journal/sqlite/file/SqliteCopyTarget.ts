/**
 * Stores a copy in a new file: all streams of the source in one log, numbered
 * anew. First what every lane has settled; then what one still waits for.
 *
 * **Guarantee.** The journal's file is there when all of it is. A copy that was
 * interrupted begins again.
 */
import { randomBytes } from "node:crypto"
import { chmodSync, existsSync, mkdirSync, renameSync, rmSync } from "node:fs"
import { dirname } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { Effect } from "effect"
import type { Entry } from "../../../event/Entry.ts"
import {
  type After,
  type CopiedStream,
  type CopySource,
  type CopyTarget,
  eachImport,
  start,
} from "../../JournalCopy.ts"
import { MaintenanceError } from "../../JournalError.ts"
import type { Cursor } from "../../Settlement.ts"
import { CommitBatch } from "../../stream/CommitBatch.ts"
import { encodeKey, hashInto } from "../../stream/DuplicateKey.ts"
import { bodyChecksum, encode, Origin, type Stored } from "../../stream/Record.ts"
import { CursorRows } from "../CursorRows.ts"
import type { SqliteConfig } from "../SqliteConfig.ts"
import { isPassed } from "../search/DeliveryStatus.ts"
import { setMeta } from "./Meta.ts"
import { migrate } from "./Migrations.ts"
import { words } from "./SqliteErrors.ts"

const attempt = <A>(path: string, work: () => A) =>
  Effect.try({
    try: work,
    catch: (error) => new MaintenanceError({ message: `The journal ${path} can't be written (${words(error)}).` }),
  })

/** Where a lane will be in the new log. */
interface Progress {
  cursor: number
  /** Settled above the cursor. */
  readonly settled: Array<[from: number, to: number]>
  pausedFor: number
}

class Copy {
  readonly db: DatabaseSync
  readonly lanes = new Map<string, Progress>()
  /** The sequence in the new log, by stream and sequence in the source: of retries and dead letters. */
  readonly places = new Map<string, number>()
  next = 1
  readonly #batch = new CommitBatch()
  readonly #insert

  constructor(path: string) {
    this.db = new DatabaseSync(path)
    chmodSync(path, 0o600)
    this.db.prepare("PRAGMA page_size = 32768").run()
    migrate(this.db, path)
    setMeta(this.db, "identity", randomBytes(16).toString("hex"))
    this.#insert = this.db.prepare(
      "INSERT INTO log (first, count, received_from, received_to, routes, keys, bytes) VALUES (?, ?, ?, ?, ?, ?, ?)",
    )
  }

  add({ entry: { event, sinks }, origin }: Stored): number {
    const key = { keyHi: 0, keyLo: 0 }
    hashInto(key, event)
    if (this.#batch.isEmpty) this.#batch.clear(this.next)
    this.#batch.add(event, sinks, origin, { hi: key.keyHi, lo: key.keyLo, bodyCrc: bodyChecksum(event) })
    if (this.#batch.isFull) this.flush()
    return this.next++
  }

  flush(): void {
    const batch = this.#batch
    if (batch.isEmpty) return
    const { first, entries, receivedFrom, receivedTo } = batch
    this.#insert.run(first, entries.length, receivedFrom, receivedTo, batch.routes(), batch.keys(), batch.bytes())
    batch.clear(0)
  }
}

/** Pages through what a stream keeps for its lanes. */
const each = <A>(
  read: (after: After) => Effect.Effect<ReadonlyArray<A>, MaintenanceError>,
  afterOf: (one: A) => After,
  use: (some: ReadonlyArray<A>) => Effect.Effect<void, MaintenanceError>,
) =>
  Effect.gen(function* () {
    for (let after = start; ; ) {
      const some = yield* read(after)
      const end = some.at(-1)
      if (end === undefined) return
      yield* use(some)
      after = afterOf(end)
    }
  })

const ofRetry = ({ lane, sequence }: After): After => ({ lane, sequence })
const ofLetter = ({ lane, entry }: { readonly lane: string; readonly entry: Entry }): After => ({
  lane,
  sequence: entry.sequence,
})

/** Lanes that have not settled an event. */
const pendingOf = (cursors: ReadonlyMap<string, Cursor>, { sequence, sinks }: Entry): ReadonlyArray<string> =>
  sinks.filter((sink) => {
    const cursor = cursors.get(sink)
    return cursor !== undefined && !isPassed(cursor, sequence)
  })

const put = Effect.fnUntraced(function* (
  copy: Copy,
  path: string,
  source: CopySource,
  onProgress: (share: number) => Effect.Effect<void>,
) {
  const write = <A>(work: () => A) => attempt(path, work)
  const counts = { events: 0, retries: 0, deadLetters: 0, known: 0 }
  const kept = (stream: CopiedStream, sequence: number) => `${stream.name} ${sequence}`
  for (const stream of source.streams) {
    const note = (sequence: number) => copy.places.set(kept(stream, sequence), 0)
    yield* each(stream.retries, ofRetry, (some) =>
      Effect.sync(() => some.forEach(({ sequence }) => void note(sequence))),
    )
    yield* each(stream.letters, ofLetter, (some) =>
      Effect.sync(() => some.forEach(({ entry }) => void note(entry.sequence))),
    )
    for (const { name, pausedFor } of stream.lanes) {
      const lane = copy.lanes.get(name) ?? { cursor: 0, settled: [], pausedFor: 0 }
      lane.pausedFor = Math.max(lane.pausedFor, pausedFor)
      copy.lanes.set(name, lane)
    }
  }

  const add = (stream: CopiedStream, one: Stored): number => {
    const place = copy.add(one)
    const key = kept(stream, one.entry.sequence)
    if (copy.places.has(key)) copy.places.set(key, place)
    counts.events += 1
    return place
  }
  let parts = 0
  const all = source.streams.length * 2
  for (const isOwed of [false, true]) {
    if (isOwed) for (const lane of copy.lanes.values()) lane.cursor = copy.next - 1
    for (const stream of source.streams) {
      const cursors = new Map(stream.lanes.map(({ name, cursor }) => [name, cursor]))
      for (let after = 0; ; ) {
        const stored = yield* stream.events(after)
        const end = stored.at(-1)
        if (end === undefined) break
        yield* write(() => {
          copy.db.prepare("BEGIN").run()
          for (const one of stored) {
            const pending = pendingOf(cursors, one.entry)
            if (pending.length > 0 !== isOwed) continue
            const place = add(stream, one)
            for (const sink of isOwed ? one.entry.sinks : []) {
              const lane = copy.lanes.get(sink)
              if (lane === undefined || pending.includes(sink)) continue
              const last = lane.settled.at(-1)
              if (last?.[1] === place - 1) last[1] = place
              else lane.settled.push([place, place])
            }
          }
          copy.flush()
          copy.db.prepare("COMMIT").run()
        })
        after = end.entry.sequence
        yield* onProgress((parts + after / Math.max(1, stream.last)) / all)
      }
      parts += 1
    }
  }

  const retry = copy.db.prepare(
    "INSERT INTO retry (lane, sequence, key, due, delay, first_attempt_at, tried, attempts) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
  )
  const record = copy.db.prepare("INSERT INTO retry_record (lane, sequence, record, duplicate_key) VALUES (?, ?, ?, ?)")
  const dead = copy.db.prepare(
    "INSERT INTO dead (lane, sequence, at, type, size, attempts, record, duplicate_key) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
  )
  /** One that the log was pruned of is appended too, to get a sequence; no lane sends it from there. */
  const placed = (stream: CopiedStream, entry: Entry): Entry => {
    const key = kept(stream, entry.sequence)
    const found = copy.places.get(key) || copy.add({ entry: { ...entry, sinks: [] }, origin: Origin.moved })
    copy.places.set(key, found)
    return { ...entry, sequence: found }
  }
  for (const stream of source.streams) {
    yield* each(stream.retries, ofRetry, (some) =>
      write(() => {
        for (const { lane, entry, key, due, delay, firstAttemptAt, tried, attempts } of some) {
          const own = placed(stream, entry)
          retry.run(lane, own.sequence, key, due, delay, firstAttemptAt, tried, JSON.stringify(attempts))
          record.run(lane, own.sequence, encode(own), encodeKey(own))
        }
        counts.retries += some.length
      }),
    )
    yield* each(stream.letters, ofLetter, (some) =>
      write(() => {
        for (const { lane, entry, at, attempts } of some) {
          const own = placed(stream, entry)
          const bytes = encode(own)
          dead.run(
            lane,
            own.sequence,
            at,
            own.event.type,
            bytes.length,
            JSON.stringify(attempts),
            bytes,
            encodeKey(own),
          )
        }
        counts.deadLetters += some.length
      }),
    )
  }

  const imported = copy.db.prepare("INSERT OR IGNORE INTO imported (journal, sequence, lanes) VALUES (?, ?, ?)")
  yield* eachImport(source, (some) =>
    write(() => {
      for (const { journal, sequence, lanes } of some) imported.run(journal, sequence, JSON.stringify(lanes))
    }),
  )
  yield* write(() => {
    copy.flush()
    const rows = new CursorRows(copy.db)
    for (const [name, { cursor, settled, pausedFor }] of copy.lanes) {
      rows.insert(name, cursor)
      rows.move(name, { sequence: cursor, settled }, pausedFor)
      rows.setPaused(name, source.paused.includes(name))
    }
  })
  return counts
})

export const target = ({ path }: SqliteConfig): Effect.Effect<CopyTarget, MaintenanceError> =>
  Effect.succeed({
    put: (source, onProgress) =>
      Effect.gen(function* () {
        if (existsSync(path)) {
          return yield* new MaintenanceError({
            message: `There is a journal at ${path}: a copy is written into a new file.`,
          })
        }
        const unfinished = `${path}.copying`
        return yield* Effect.acquireUseRelease(
          attempt(path, () => {
            mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
            rmSync(unfinished, { force: true })
            return new Copy(unfinished)
          }),
          (copy) =>
            Effect.tap(put(copy, path, source, onProgress), () =>
              attempt(path, () => {
                copy.db.close()
                renameSync(unfinished, path)
              }),
            ),
          (copy) => Effect.sync(() => copy.db.isOpen && copy.db.close()),
        )
      }),
  })
