/**
 * The names of lanes. All other rows and records name a lane by its id, so a rename changes only rows of this table.
 *
 * A lane's id is its first name, unless another lane has that id. A lane without a row has its id as name, so the
 * table is empty until a sink is renamed. The former names of a lane are rows as well.
 *
 * **Guarantee.** A damaged row is never used: the lane then has its first name again, and waits for an operator.
 */
import type { DatabaseSync } from "node:sqlite"
import { crc32 } from "node:zlib"
import type { Entry } from "../../../event/Event.ts"
import { int, text } from "./Rows.ts"

/** A name, and the lane that has it or had it. */
export interface LaneName {
  readonly name: string
  readonly id: string
  /** The lane has another name now. */
  readonly isFormer: boolean
}

const checksum = ({ name, id, isFormer }: LaneName): number => crc32(JSON.stringify([name, id, isFormer]))

/** The table `lane_name`, in memory. */
export class NamedLanes {
  /** True if a row was damaged: see `repair`. */
  damaged = false
  readonly #rows = new Map<string, LaneName>()
  /** The names by id. */
  readonly #names = new Map<string, string>()
  readonly #sql

  constructor(db: DatabaseSync) {
    this.#sql = {
      all: db.prepare("SELECT name, id, former, crc FROM lane_name"),
      put: db.prepare("INSERT OR REPLACE INTO lane_name (name, id, former, crc) VALUES (?, ?, ?, ?)"),
      deleteAll: db.prepare("DELETE FROM lane_name"),
    }
    this.load()
  }

  /** Reads the table again. */
  load(): void {
    this.#rows.clear()
    this.#names.clear()
    const found = this.#sql.all.all()
    for (const { name, id, former, crc } of found) {
      const row = { name: text(name), id: text(id), isFormer: int(former) === 1 }
      if (crc === checksum(row)) this.set(row)
    }
    this.damaged = this.#rows.size < found.length
    // The row with the lane's own name was damaged.
    for (const [name, { id }] of this.#rows) if (!this.#names.has(id)) this.#rows.delete(name)
  }

  get isEmpty(): boolean {
    return this.#rows.size === 0
  }

  get(name: string): LaneName | undefined {
    return this.#rows.get(name)
  }

  /** Returns the id of the lane with this name. Without such a lane, it is the id that a new one gets. */
  idOf(name: string): string {
    const row = this.#rows.get(name)
    if (row !== undefined && !row.isFormer) return row.id
    let id = name
    for (let number = 2; this.#names.has(id); number++) id = `${name}~${number}`
    return id
  }

  nameOf(id: string): string {
    return this.#names.get(id) ?? id
  }

  /** Returns the same array if all names are ids. */
  namesOf(ids: ReadonlyArray<string>): ReadonlyArray<string> {
    return ids.some((id) => this.nameOf(id) !== id) ? [...new Set(ids.map((id) => this.nameOf(id)))] : ids
  }

  /** Returns an entry of the log with the names of its lanes. */
  entryOf<A extends Pick<Entry, "sinks">>(entry: A): A {
    const sinks = this.namesOf(entry.sinks)
    return sinks === entry.sinks ? entry : { ...entry, sinks }
  }

  entriesOf(entries: ReadonlyArray<Entry>): ReadonlyArray<Entry> {
    return this.isEmpty ? entries : entries.map((entry) => this.entryOf(entry))
  }

  /** Changes a row in memory. */
  set(row: LaneName): void {
    const before = this.#rows.get(row.name)
    if (before !== undefined && !before.isFormer) this.#names.delete(before.id)
    this.#rows.set(row.name, row)
    if (!row.isFormer) this.#names.set(row.id, row.name)
  }

  /** Stores a row within the caller's transaction. */
  put(row: LaneName): void {
    this.#sql.put.run(row.name, row.id, Number(row.isFormer), checksum(row))
  }

  /** Removes damaged rows within the caller's transaction. `ids` are the ids of all lanes. */
  repair(ids: Iterable<string>): void {
    // The first name of the lane may be another lane's by now.
    for (const id of ids) {
      if (this.nameOf(id) === id && this.idOf(id) !== id) this.set({ name: `${id}~1`, id, isFormer: false })
    }
    this.#sql.deleteAll.run()
    for (const row of this.#rows.values()) this.put(row)
    this.damaged = false
  }
}
