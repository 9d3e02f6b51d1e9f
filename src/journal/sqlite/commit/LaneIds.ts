/**
 * Finds lanes by name, and decides which lane gets an event.
 *
 * An event that is routed to a former name belongs to the renamed lane, until a sink takes that name. Just before a
 * rename, events are routed to the new name already: then they belong to the lane that gets it.
 */
import type { DatabaseSync } from "node:sqlite"
import type { KnownSink, OpenOptions } from "../../StreamLog.ts"
import { NamedLanes } from "../rows/NamedLanes.ts"

/** The names and ids of an open journal's lanes. */
export class LaneIds extends NamedLanes {
  readonly #exists: (id: string) => boolean
  /** By new name, the lanes that the config renames. */
  #renaming = new Map<string, string>()
  /** The router returns the same array for the same type, so each is looked up once. */
  #routes = new WeakMap<ReadonlyArray<string>, ReadonlyArray<string>>()

  /** `exists` reports whether there is a lane with this id. */
  constructor(db: DatabaseSync, exists: (id: string) => boolean) {
    super(db)
    this.#exists = exists
  }

  /** Reports whether there is a lane of this name. */
  isLane(name: string): boolean {
    return this.#exists(this.idOf(name))
  }

  /** Returns the id of a lane that exists or will be created. */
  claimed(name: string): string {
    const id = this.idOf(name)
    if (id !== name || this.get(name)?.isFormer === true) this.set({ name, id, isFormer: false })
    return id
  }

  /** Returns the ids of the lanes for an event that is routed to these names. */
  routes(names: ReadonlyArray<string>): ReadonlyArray<string> {
    if (this.isEmpty && this.#renaming.size === 0) return names
    const known = this.#routes.get(names)
    if (known !== undefined) return known
    const ids = names.map((name) => this.aliased(name) ?? this.claimed(name))
    const routes = ids.every((id, index) => id === names[index]) ? names : [...new Set(ids)]
    this.#routes.set(names, routes)
    return routes
  }

  /** Returns the lane that had this name, or will get it. Returns `undefined` if the name is a lane's own, or new. */
  aliased(name: string): string | undefined {
    const row = this.get(name)
    const id = this.#renaming.get(name) ?? (row?.isFormer === true ? row.id : undefined)
    return id !== undefined && this.#exists(id) ? id : undefined
  }

  /** Notes which lanes the sinks of a config rename. */
  know(sinks: ReadonlyArray<KnownSink>): void {
    this.#renaming = new Map()
    for (const { name, renamedFrom = name } of sinks) {
      if (!this.isLane(name) && this.isLane(renamedFrom)) this.#renaming.set(name, this.idOf(renamedFrom))
    }
    this.changed()
  }

  /** Returns the lane that must be renamed to open a lane of this name, or `undefined` if there is none. */
  renamed(name: string, { renamedFrom = name, isConfigured = () => true }: OpenOptions): string | undefined {
    if (this.isLane(name)) return undefined
    if (this.isLane(renamedFrom)) return this.idOf(renamedFrom)
    const id = this.aliased(name)
    const isBack = id !== undefined && !isConfigured(this.nameOf(id))
    return isBack || this.#renaming.has(name) ? id : undefined
  }

  /** Stores a new lane's name, within the caller's transaction. */
  store(id: string): void {
    const row = this.get(this.nameOf(id))
    if (row !== undefined) this.put(row)
  }

  /** Renames a lane within the caller's transaction. Call the result after the commit. */
  rename(id: string, name: string): () => void {
    const rows = [
      { name: this.nameOf(id), id, isFormer: true },
      { name, id, isFormer: false },
    ]
    for (const row of rows) this.put(row)
    return () => {
      for (const row of rows) this.set(row)
      this.#renaming.delete(name)
      this.changed()
    }
  }

  /** Call it when lanes were created, renamed or removed. */
  changed(): void {
    this.#routes = new WeakMap()
  }
}
