/**
 * What became of an event at its sinks, as the journal's tables say it: asked
 * for one event at a time, so nothing is kept for it.
 */
import type { DatabaseSync } from "node:sqlite"
import type { Attempt, Cursor, DeliveryStatus } from "../../Journal.ts"

/** A list kept as text; empty where the disk has damaged it. */
const list = <A>(value: unknown): ReadonlyArray<A> => {
  try {
    const parsed: unknown = JSON.parse(String(value))
    return Array.isArray(parsed) ? parsed : []
  } catch {
    return []
  }
}

/** Whether a lane that stands there has passed a sequence. */
export const isPassed = ({ sequence, settled }: Cursor, at: number): boolean =>
  at <= sequence || settled.some(([from, to]) => from <= at && at <= to)

export class DeliveryStatuses {
  private cursors = new Map<string, Cursor>()
  private readonly sql

  constructor(db: DatabaseSync) {
    this.sql = {
      lanes: db.prepare("SELECT name, cursor, settled FROM lane ORDER BY name"),
      retrying: db.prepare("SELECT due, attempts FROM retry WHERE lane = ? AND sequence = ?"),
      record: db.prepare("SELECT record FROM retry_record WHERE lane = ? AND sequence = ?"),
      dead: db.prepare("SELECT lane, at, attempts FROM dead WHERE sequence = ?"),
      deadRecord: db.prepare("SELECT record FROM dead WHERE sequence = ? LIMIT 1"),
      owed: db.prepare("SELECT record FROM owed WHERE sequence = ?"),
    }
  }

  /** Reads where the lanes stand: in the same transaction as what is then asked `of` events. */
  load(): void {
    this.cursors = new Map(
      this.sql.lanes
        .all()
        .map(({ name, cursor, settled }) => [String(name), { sequence: Number(cursor), settled: list(settled) }]),
    )
  }

  /** Of the sinks that it was promised to; and of lanes that hold it because it was moved to them. */
  of(sequence: number, sinks: ReadonlyArray<string>): ReadonlyArray<DeliveryStatus> {
    const held = new Map<string, DeliveryStatus>()
    for (const sink of this.cursors.keys()) {
      const row = this.sql.retrying.get(sink, sequence)
      if (row === undefined) continue
      held.set(sink, { sink, outcome: "retrying", due: Number(row.due), attempts: list<Attempt>(row.attempts) })
    }
    for (const row of this.sql.dead.all(sequence)) {
      const sink = String(row.lane)
      held.set(sink, { sink, outcome: "dead", at: Number(row.at), attempts: list<Attempt>(row.attempts) })
    }
    const promised = sinks.map((sink): DeliveryStatus => {
      const cursor = this.cursors.get(sink)
      const outcome = cursor === undefined ? "gone" : isPassed(cursor, sequence) ? "delivered" : "pending"
      return held.get(sink) ?? { sink, outcome, attempts: [] }
    })
    return [...promised, ...[...held.values()].filter(({ sink }) => !sinks.includes(sink))]
  }

  /** The record of what is owed, parked or dead: it may have outlived the log. */
  record(sequence: number): unknown {
    const owed = this.sql.owed.get(sequence)
    if (owed !== undefined) return owed.record
    for (const sink of this.cursors.keys()) {
      const row = this.sql.record.get(sink, sequence)
      if (row !== undefined) return row.record
    }
    return this.sql.deadRecord.get(sequence)?.record
  }

  /** Every lane has passed what is below. */
  get pendingFrom(): number {
    return 1 + Math.min(...[...this.cursors.values()].map(({ sequence }) => sequence))
  }
}
