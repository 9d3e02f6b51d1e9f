/** The state of an event at its sinks, from the journal's tables: for one event at a time. */
import type { DatabaseSync } from "node:sqlite"
import type { DeliveryStatus } from "../../EventQuery.ts"
import type { Attempt, Cursor } from "../../Settlement.ts"
import { list } from "../Rows.ts"

/** Whether a lane with this cursor has passed a sequence. */
export const isPassed = ({ sequence, settled }: Cursor, at: number): boolean =>
  at <= sequence || settled.some(([from, to]) => from <= at && at <= to)

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
  of(sequence: number, sinks: ReadonlyArray<string>): ReadonlyArray<DeliveryStatus> {
    const held = new Map<string, DeliveryStatus>()
    for (const sink of this.#cursors.keys()) {
      const row = this.#sql.retrying.get(sink, sequence)
      if (row === undefined) continue
      held.set(sink, { sink, outcome: "retrying", due: Number(row.due), attempts: list<Attempt>(row.attempts) })
    }
    for (const row of this.#sql.dead.all(sequence)) {
      const sink = String(row.lane)
      held.set(sink, { sink, outcome: "dead", at: Number(row.at), attempts: list<Attempt>(row.attempts) })
    }
    const routed = sinks.map((sink): DeliveryStatus => {
      const cursor = this.#cursors.get(sink)
      const outcome = cursor === undefined ? "laneRemoved" : isPassed(cursor, sequence) ? "delivered" : "pending"
      return held.get(sink) ?? { sink, outcome, attempts: [] }
    })
    return [...routed, ...[...held.values()].filter(({ sink }) => !sinks.includes(sink))]
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
