/** The state of an event at its sinks, from the journal's tables: for one event at a time. */
import type { DatabaseSync } from "node:sqlite"
import type { DeliveryStatus, FoundEvent } from "../../EventQuery.ts"
import { type Attempt, attemptsOf, type Cursor } from "../../Settlement.ts"
import { bucketOf, type Ended, endedStatus, findDelivery, linksOf } from "../../stream/OutcomeRecord.ts"
import { bytes, int, list, type Row, text, tolerant } from "../rows/Rows.ts"

/** Whether a lane with this cursor has passed a sequence. */
export const isPassed = ({ sequence, settled }: Cursor, at: number): boolean =>
  at <= sequence || settled.some(([from, to]) => from <= at && at <= to)

export const endedOf = ({ sequence, lane, at, outcome, last, copy, note }: Row): Ended => ({
  sequence: int(sequence),
  lane: text(lane),
  at: int(at),
  outcome: text(outcome) as Ended["outcome"],
  ...(last !== null && { last: int(last) }),
  ...(copy !== null && { copy: int(copy) }),
  note: tolerant((): Ended["note"] => JSON.parse(text(note))) ?? {},
})

/** Attempts, and how many there were. */
const tried = (json: unknown): Pick<DeliveryStatus, "attempts" | "tries"> => {
  const attempts = list<Attempt>(json)
  return { tries: attemptsOf(attempts), attempts }
}

/** At lanes that the event was moved to, and that hold it no more. */
const elsewhere = (
  sequence: number,
  sinks: ReadonlyArray<string>,
  held: ReadonlyMap<string, DeliveryStatus>,
  ended: ReadonlyArray<Ended>,
): ReadonlyArray<DeliveryStatus> => {
  const own = ended.filter((one) => one.sequence === sequence && one.lane !== "" && one.last === undefined)
  const lanes = new Set(own.map(({ lane }) => lane).filter((lane) => !sinks.includes(lane) && !held.has(lane)))
  return [...lanes].map((lane) =>
    endedStatus(
      lane,
      { exists: false, isPassed: true },
      own.filter((one) => one.lane === lane),
      undefined,
    ),
  )
}

export class DeliveryStatuses {
  #cursors = new Map<string, Cursor>()
  readonly #sql

  constructor(db: DatabaseSync) {
    this.#sql = {
      lanes: db.prepare("SELECT name, cursor, settled FROM lane ORDER BY name"),
      retrying: db.prepare("SELECT due, attempts FROM retry WHERE lane = ? AND sequence = ?"),
      record: db.prepare("SELECT record FROM retry_record WHERE lane = ? AND sequence = ?"),
      dead: db.prepare("SELECT lane, at, attempts FROM dead WHERE sequence = ?"),
      deadRecord: db.prepare("SELECT record FROM dead WHERE sequence = ? LIMIT 1"),
      delivered: db.prepare("SELECT lane, bytes FROM outcome WHERE bucket = ?"),
      ended: db.prepare(
        `SELECT * FROM ended WHERE sequence = ?1 AND last IS NULL UNION ALL SELECT * FROM ended WHERE copy = ?1
         UNION ALL SELECT * FROM ended WHERE last >= ?1 AND sequence <= ?1 ORDER BY id`,
      ),
      pending: db.prepare("SELECT record FROM owed WHERE sequence = ?"),
    }
  }

  /** Reads the cursors: in the same transaction as the calls of `of` that follow. */
  load(): void {
    this.#cursors = new Map(
      this.#sql.lanes
        .all()
        .map(({ name, cursor, settled }) => [String(name), { sequence: Number(cursor), settled: list(settled) }]),
    )
  }

  /** At the sinks that it was routed to, and in lanes that hold it because it was moved to them. */
  of(sequence: number, sinks: ReadonlyArray<string>): Pick<FoundEvent, "deliveries" | "copyOf" | "copies"> {
    const held = new Map<string, DeliveryStatus>()
    for (const sink of this.#cursors.keys()) {
      const row = this.#sql.retrying.get(sink, sequence)
      if (row === undefined) continue
      held.set(sink, { sink, outcome: "retrying", due: Number(row.due), ...tried(row.attempts) })
    }
    for (const row of this.#sql.dead.all(sequence)) {
      const sink = String(row.lane)
      held.set(sink, { sink, outcome: "dead", at: Number(row.at), ...tried(row.attempts) })
    }
    const ended = this.#sql.ended.all(sequence).map(endedOf)
    const rows = new Map(this.#sql.delivered.all(bucketOf(sequence)).map((row) => [text(row.lane), bytes(row.bytes)]))
    const routed = sinks.map((sink): DeliveryStatus => {
      const cursor = this.#cursors.get(sink)
      const lane = { exists: cursor !== undefined, isPassed: cursor !== undefined && isPassed(cursor, sequence) }
      const own = ended.filter((one) => one.lane === sink && one.copy !== sequence)
      const row = rows.get(sink)
      return held.get(sink) ?? endedStatus(sink, lane, own, row && findDelivery(row, sequence))
    })
    const moved = [...held.values()].filter(({ sink }) => !sinks.includes(sink))
    return {
      deliveries: [...routed, ...moved, ...elsewhere(sequence, sinks, held, ended)],
      ...linksOf(sequence, ended),
    }
  }

  /** The record of a pending event, retry or dead letter that the log may have been pruned of. */
  record(sequence: number): unknown {
    const pending = this.#sql.pending.get(sequence)
    if (pending !== undefined) return pending.record
    for (const sink of this.#cursors.keys()) {
      const row = this.#sql.record.get(sink, sequence)
      if (row !== undefined) return row.record
    }
    return this.#sql.deadRecord.get(sequence)?.record
  }

  /** Every lane has passed everything below. */
  get pendingFrom(): number {
    return 1 + Math.min(...[...this.#cursors.values()].map(({ sequence }) => sequence))
  }
}
