/** Reads the state of one event at its sinks from the journal's tables. */
import type { DatabaseSync } from "node:sqlite"
import type { DeliveryStatus } from "../../EventQuery.ts"
import type { Attempt, Cursor } from "../../Settlement.ts"
import { bucketOf, findDelivery } from "../../stream/OutcomeRecord.ts"
import { heldStatus, type LaneStates, laneStates } from "../../stream/SearchResult.ts"
import { NamedLanes } from "../rows/NamedLanes.ts"
import { endedOf } from "../rows/OutcomeRows.ts"
import { bytes, int, list, text } from "../rows/Rows.ts"

/** Reads states within the caller's transaction, after `load`. */
export class DeliveryStatuses {
  #cursors = new Map<string, Cursor>()
  readonly #names: NamedLanes
  readonly #sql

  constructor(db: DatabaseSync) {
    this.#names = new NamedLanes(db)
    this.#sql = {
      lanes: db.prepare("SELECT name, cursor, settled FROM lane ORDER BY name"),
      retrying: db.prepare(
        `SELECT lane, due, attempts FROM retry_record JOIN retry USING (lane, sequence)
         WHERE retry_record.sequence = ? ORDER BY lane`,
      ),
      retryRecord: db.prepare("SELECT record FROM retry_record WHERE sequence = ? LIMIT 1"),
      dead: db.prepare("SELECT lane, at, attempts FROM dead WHERE sequence = ?"),
      deadRecord: db.prepare("SELECT record FROM dead WHERE sequence = ? LIMIT 1"),
      delivered: db.prepare("SELECT lane, bytes FROM outcome WHERE bucket = ?"),
      // Each uses its own index: with an ORDER BY over a union of the three, SQLite scans the whole table.
      ended: ["sequence = ?1 AND last IS NULL", "copy = ?1", "last >= ?1 AND sequence <= ?1"].map((rows) =>
        db.prepare(`SELECT * FROM ended WHERE ${rows}`),
      ),
      pending: db.prepare("SELECT record FROM owed WHERE sequence = ?"),
    }
  }

  /** Reads the cursors and names. The following calls of `of` must be in the same transaction. */
  load(): void {
    this.#names.load()
    this.#cursors = new Map(
      this.#sql.lanes
        .all()
        .map(({ name, cursor, settled }) => [text(name), { sequence: int(cursor), settled: list(settled) }]),
    )
  }

  /** Returns the states at the sinks that the event was routed to, and in lanes that it was moved to. */
  of(sequence: number, sinks: ReadonlyArray<string>): LaneStates {
    const held = new Map<string, DeliveryStatus>()
    for (const { lane, due, attempts } of this.#sql.retrying.all(sequence)) {
      held.set(text(lane), heldStatus(text(lane), { due: int(due) }, list<Attempt>(attempts)))
    }
    for (const { lane, at, attempts } of this.#sql.dead.all(sequence)) {
      held.set(text(lane), heldStatus(text(lane), { at: int(at) }, list<Attempt>(attempts)))
    }
    const delivered = this.#sql.delivered.all(bucketOf(sequence))
    const states = laneStates(sequence, sinks, {
      held,
      ended: this.#ended(sequence),
      cursorOf: (lane) => this.#cursors.get(lane),
      deliveryOf: (isName) => {
        const row = delivered.find(({ lane }) => isName(text(lane)))
        return row && findDelivery(bytes(row.bytes), sequence)
      },
    })
    return { ...states, deliveries: states.deliveries.map((status) => this.#named(status)) }
  }

  #named(status: DeliveryStatus): DeliveryStatus {
    const { sink, to } = status
    return { ...status, sink: this.#names.nameOf(sink), ...(to !== undefined && { to: this.#names.nameOf(to) }) }
  }

  /** Returns ends, oldest first. */
  #ended(sequence: number) {
    const rows = this.#sql.ended.flatMap((rows) => rows.all(sequence))
    return rows.sort((a, b) => int(a.id) - int(b.id)).map(endedOf)
  }

  /** Returns the record of a pending event, retry or dead letter. The log may have been pruned of it. */
  record(sequence: number): unknown {
    const { pending, retryRecord, deadRecord } = this.#sql
    return (pending.get(sequence) ?? retryRecord.get(sequence) ?? deadRecord.get(sequence))?.record
  }

  /** Every lane has passed all events below this sequence. */
  get pendingFrom(): number {
    return 1 + Math.min(...[...this.#cursors.values()].map(({ sequence }) => sequence))
  }
}
