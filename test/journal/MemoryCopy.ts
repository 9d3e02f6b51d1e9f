/** The rows of the journal in memory, as a copy reads and stores them. */
import { Effect } from "effect"
import type { Entry, Event } from "../../src/event/Event.ts"
import type { AuditRecord } from "../../src/journal/AuditLog.ts"
import { type After, type CopySource, type CopyTarget, markOf, type Put } from "../../src/journal/JournalCopy.ts"
import type { DeliveredRange } from "../../src/journal/Settlement.ts"
import { bucketOf, type Ended, encodeRanges } from "../../src/journal/stream/OutcomeRecord.ts"
import { Origin } from "../../src/journal/stream/Record.ts"
import type { Lane } from "./MemoryJournal.ts"

export interface MemoryCopying {
  /** Returns the current rows. */
  readonly source: () => CopySource
  readonly target: (source: CopySource) => CopyTarget
}

interface MemoryRows {
  readonly log: Array<Entry>
  readonly lanes: ReadonlyMap<string, Lane>
  readonly laneOf: (name: string) => Lane
  readonly delivered: Map<string, Array<DeliveredRange>>
  readonly ended: Array<Ended>
  readonly copies: Map<number, "replayed" | "moved">
  /** Each key is a journal and a sequence, as JSON. */
  readonly importedFor: Map<string, ReadonlyArray<string>>
  readonly audit: Array<AuditRecord>
  /** Remembers a delivery, so that its repetition is a duplicate. */
  readonly remember: (event: Event) => void
}

/** The most items that one read returns. */
const page = 64

const pageOf = <A>(items: ReadonlyArray<A>, isAfter: (item: A) => boolean) =>
  Effect.sync(() => items.filter(isAfter).slice(0, page))

const compare = (a: After, b: After): number => (a.lane === b.lane ? a.sequence - b.sequence : a.lane < b.lane ? -1 : 1)

export const copying = (rows: MemoryRows): MemoryCopying => {
  const identity = crypto.randomUUID()
  let mark: string | undefined
  return {
    source: () => sourceOf(identity, rows),
    target: (source) => {
      if (mark !== undefined && mark !== markOf(source)) rows.log.length = 0
      mark = markOf(source)
      const commit: CopyTarget["commit"] = (work) => work(putInto(rows))
      return { first: 1, known: rows.log.length, isComplete: false, commit, complete: commit }
    },
  }
}

const sourceOf = (
  identity: string,
  { log, lanes, delivered, ended, copies, importedFor, audit }: MemoryRows,
): CopySource => {
  /** Returns the items of all lanes by lane and sequence. */
  const ofLanes = <A>(items: (lane: Lane) => ReadonlyMap<number, A>) =>
    [...lanes]
      .flatMap(([lane, one]) => [...items(one)].map(([sequence, item]) => ({ lane, sequence, ...item })))
      .toSorted(compare)
  const imports = [...importedFor].map(([key, lanes]) => {
    const [journal, sequence]: [string, number] = JSON.parse(key)
    return { lane: journal, sequence, lanes }
  })
  return {
    identity,
    streams: [
      {
        last: log.length,
        rows: log.length,
        lanes: [...lanes].map(([name, { cursor, pausedFor }]) => ({ name, cursor, pausedFor })),
        events: (after) =>
          Effect.sync(() =>
            log
              .slice(after, after + page)
              .map((entry) => ({ entry, origin: Origin[copies.get(entry.sequence) ?? "delivered"] })),
          ),
        retries: (after) =>
          pageOf(
            ofLanes((lane) => lane.retrying).map(({ retrying, ...kept }) => ({ ...kept, ...retrying })),
            (one) => compare(one, after) > 0,
          ),
        letters: (after) =>
          pageOf(
            ofLanes((lane) => lane.dead),
            (one) => compare(one, after) > 0,
          ),
        outcomes: (from, to) =>
          Effect.sync(() =>
            [...delivered].flatMap(([lane, ranges]) =>
              [...encodeRanges(ranges)]
                .filter(([bucket]) => bucket >= bucketOf(from) && bucket <= bucketOf(to))
                .map(([bucket, bytes]) => ({ bucket, lane, bytes })),
            ),
          ),
        ends: (after) =>
          pageOf(
            ended.map(({ copy, ...end }, index) => ({
              ...{ ...end, id: index + 1 },
              ...(copy !== undefined && { copy: { stream: 0, sequence: copy } }),
            })),
            ({ id }) => id > after,
          ),
      },
    ],
    erasures: String(log.filter(({ event }) => event.erased !== undefined).length),
    paused: new Map(
      [...lanes].map(([name, { paused, mute }]) => [name, { paused, ...(mute !== undefined && { mute }) }]),
    ),
    imported: ({ journal, sequence }) =>
      Effect.map(
        pageOf(imports.toSorted(compare), (one) => compare(one, { lane: journal, sequence }) > 0),
        (found) => found.map(({ lane, ...one }) => ({ journal: lane, ...one })),
      ),
    audit: (after) => pageOf(audit, ({ id }) => id > after),
    damaged: () => 0,
  }
}

const putInto =
  ({ log, laneOf, delivered, ended, copies, importedFor, audit, remember }: MemoryRows): Put =>
  (rows) =>
    Effect.sync(() => {
      for (const { entry, origin } of rows.events ?? []) {
        log.push(entry)
        if (origin === Origin.delivered) remember(entry.event)
        else copies.set(entry.sequence, origin === Origin.replayed ? "replayed" : "moved")
      }
      for (const { lane, delivered: ranges } of rows.delivered ?? []) {
        delivered.set(lane, [...(delivered.get(lane) ?? []), ...ranges])
      }
      for (const { lane, change, attempts, entry } of rows.retries ?? []) {
        const { failed: _, refunded: __, ...retrying } = change
        if (entry !== undefined) laneOf(lane).retrying.set(change.sequence, { retrying, entry, attempts })
      }
      for (const { lane, entry, at, attempts } of rows.letters ?? []) {
        laneOf(lane).dead.set(entry.sequence, { at, entry, attempts })
      }
      ended.push(...(rows.ended ?? []))
      for (const { journal, sequence, lanes } of rows.imported ?? []) {
        importedFor.set(JSON.stringify([journal, sequence]), lanes)
      }
      for (const record of rows.audit ?? []) audit.push({ ...record, id: (audit.at(-1)?.id ?? 0) + 1 })
      for (const { name, ...lane } of rows.lanes ?? []) Object.assign(laneOf(name), lane)
    })
