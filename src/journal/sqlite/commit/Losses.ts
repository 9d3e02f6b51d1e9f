/**
 * Events that were lost before they were delivered. As soon as a loss is found, they no longer count as
 * duplicates, across restarts. So a sender repairs the loss by sending them again.
 *
 * An event that every sink had received still counts as a duplicate.
 */
import type { DatabaseSync } from "node:sqlite"
import { damagedLine, lostLine } from "../../archive/AlarmLines.ts"
import type { DuplicateKey } from "../../stream/DuplicateKey.ts"
import { ranges } from "../../stream/Ranges.ts"
import { keyAt } from "../../stream/RowKeys.ts"
import type { LogRows } from "../rows/LogRows.ts"
import type { Duplicates } from "./Duplicates.ts"
import type { LaneStore } from "./LaneStore.ts"

/** The parts of the engine that a loss affects. */
interface Concerned {
  readonly log: LogRows
  readonly duplicates: Duplicates
  readonly lanes: LaneStore
  readonly store: { readonly path: string; readonly db: DatabaseSync }
  raiseAlarm(message: string): void
}

/** Reports losses and stores them. `storeSoon` runs work with the next commit. */
export class Losses {
  readonly #engine: Concerned
  readonly #known: Array<readonly [from: number, to: number]>
  readonly #insert
  readonly #storeSoon: (work: () => void) => void

  constructor(engine: Concerned, storeSoon: (work: () => void) => void) {
    const { db } = engine.store
    this.#engine = engine
    this.#storeSoon = storeSoon
    this.#insert = db.prepare("INSERT OR REPLACE INTO hole (first, last) VALUES (?, ?)")
    this.#known = db
      .prepare("SELECT first, last FROM hole")
      .all()
      .map(({ first, last }) => [Number(first), Number(last)] as const)
  }

  /** Reports whether an event is among the known losses. */
  has(sequence: number): boolean {
    return this.#known.some(([from, to]) => from <= sequence && sequence <= to)
  }

  /** Reports lost events of a row of the log. Those that a lane still waits for no longer count as duplicates. */
  ofLog(from: number, to: number, why: string): void {
    const { log, duplicates, store } = this.#engine
    this.#engine.raiseAlarm(lostLine([from, to], store.path, why))
    const row = log.keysOf(log.rowStart(from) - 1, 1)[0]
    if (row === undefined || row.first > from) return
    const forgotten: Array<number> = []
    for (let sequence = from; sequence <= Math.min(to, row.first + row.count - 1); sequence++) {
      const key = keyAt(row.keys, sequence - row.first)
      if (key === undefined || !key.isDelivery || this.has(sequence)) continue
      if (!this.#isPending(sequence, row.routes[key.route])) continue
      duplicates.forget(key)
      forgotten.push(sequence)
    }
    if (forgotten.length > 0) this.#remember(ranges(forgotten))
  }

  /** Reports that a lane's copy of an event is lost. */
  ofLane(lane: string, sequence: number, key: DuplicateKey | undefined): void {
    this.#engine.raiseAlarm(damagedLine([sequence, sequence], ` of lane ${lane}`))
    this.#ofCopy(sequence, key)
  }

  /** Reports the loss of a pending event that the log was pruned of. `sinks` is absent if they are damaged too. */
  ofPending(sequence: number, sinks: ReadonlyArray<string> | undefined, key: DuplicateKey | undefined): void {
    this.#engine.log.damaged(sequence)
    if (this.#isPending(sequence, sinks)) this.#ofCopy(sequence, key)
  }

  /** A replay has no key, because it isn't a delivery. */
  #ofCopy(sequence: number, key: DuplicateKey | undefined): void {
    if (key === undefined || this.has(sequence)) return
    this.#engine.duplicates.forget(key)
    this.#remember([[sequence, sequence]])
  }

  #remember(lost: ReadonlyArray<readonly [from: number, to: number]>): void {
    this.#known.push(...lost)
    this.#storeSoon(() => {
      for (const [first, last] of lost) this.#insert.run(first, last)
    })
  }

  /**
   * Reports whether a lane waits for an event. If the route is damaged, every lane that has not passed the
   * event may wait for it.
   */
  #isPending(sequence: number, sinks: ReadonlyArray<string> | undefined): boolean {
    for (const [name, backlog] of this.#engine.lanes.backlogs) {
      if ((sinks === undefined || sinks.includes(name)) && backlog.isPending(sequence)) return true
    }
    return false
  }
}
