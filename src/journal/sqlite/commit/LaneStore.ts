/**
 * The lanes: their cursors, retries and dead letters on disk, and their counts in memory. Lanes are given by their
 * ids (`LaneStore.ts`).
 *
 * Every change is made inside the caller's transaction. It returns a function that updates the counts, to be
 * called after the commit, so a change that is rolled back is never visible.
 */
import type { DatabaseSync } from "node:sqlite"
import type { Exit } from "effect"
import type { Entry } from "../../../event/Event.ts"
import type { KnownSink, OpenOptions } from "../../Journal.ts"
import { JournalError } from "../../JournalError.ts"
import { type DeadLetterKey, type Mute, type Paused, type RetryEntries, returning } from "../../LaneInfo.ts"
import type { Cursor, RefusedSettlement, Settlement, Wait } from "../../Settlement.ts"
import { Backlogs, WebhookBytes } from "../../stream/Backlog.ts"
import { type Removal, readBytes } from "../../stream/BulkSlices.ts"
import { type LetterToPut, later, rowsOf, settledAt, whyUnstorable } from "../../stream/Cursors.ts"
import type { Ended } from "../../stream/OutcomeRecord.ts"
import { decode } from "../../stream/Record.ts"
import { savepoints } from "../file/SqliteFailure.ts"
import type { Store } from "../file/Store.ts"
import { CursorRows, type FoundLanes } from "../rows/CursorRows.ts"
import { type DeadLetterChange, DeadLetters, type OnUnreadable } from "../rows/DeadLetters.ts"
import { NamedLanes } from "../rows/NamedLanes.ts"
import { OutcomeRows } from "../rows/OutcomeRows.ts"
import { AlertRows, Retries } from "../rows/Retries.ts"
import { list, meta, setMeta } from "../rows/Rows.ts"

/** The fact that has the moves that are not complete. */
const movesKey = "moves"

/**
 * Finds lanes by name, and decides which lane gets an event.
 *
 * An event that is routed to a former name belongs to the renamed lane, until a sink takes that name. Just before a
 * rename, events are routed to the new name already: then they belong to the lane that gets it.
 *
 * The names and ids of an open journal's lanes.
 */
class LaneIds extends NamedLanes {
  /** The moves that are not complete, as lane and target: see `MovedLanes.ts`. */
  moves: ReadonlyArray<readonly [from: string, to: string]>
  readonly #db: DatabaseSync
  readonly #exists: (id: string) => boolean
  /** By new name, the lanes that the config renames. */
  #renaming = new Map<string, string>()
  /** The router returns the same array for the same type, so each is looked up once. */
  #routes = new WeakMap<ReadonlyArray<string>, ReadonlyArray<string>>()

  /** `exists` reports whether there is a lane with this id. */
  constructor(db: DatabaseSync, exists: (id: string) => boolean) {
    super(db)
    this.#db = db
    this.#exists = exists
    this.moves = list<LaneIds["moves"][number]>(meta(db, movesKey)).filter(Array.isArray)
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

  /** Changes the moves within the caller's transaction. Call the result after the commit. */
  setMoves(moves: LaneIds["moves"]): () => void {
    if (moves.length + this.moves.length > 0) setMeta(this.#db, movesKey, JSON.stringify(moves))
    return () => {
      this.moves = moves
    }
  }

  /** Call it when lanes were created, renamed or removed. */
  changed(): void {
    this.#routes = new WeakMap()
  }
}

/** Updates the counts in memory, after the commit. */
export type Committed = () => void

export const nothing: Committed = () => {}

/** Combines several updates. */
export const allOf = (committed: ReadonlyArray<Committed>): Committed => {
  return () => {
    for (const apply of committed) apply()
  }
}

/** The lanes of an open journal. Its methods throw SQLite's errors. */
export class LaneStore {
  readonly backlogs = new Backlogs()
  readonly ids: LaneIds
  /** The head at the start. Up to here the backlogs are counted from routes, which have no checksum. */
  readFrom = Number.POSITIVE_INFINITY
  /** The lanes as they were found at the start. */
  readonly found: FoundLanes
  readonly retries: Retries
  readonly deadLetters: DeadLetters
  readonly outcomes: OutcomeRows
  readonly alerts: AlertRows
  /** Called when a lane's cursor has moved. */
  onMoved: (from: Cursor, to: Cursor) => void = () => {}
  onDropped: () => void = () => {}

  readonly #cursors: CursorRows
  readonly #isolate: <A>(work: () => A) => A | JournalError
  readonly #find: (sequence: number) => Entry | undefined
  readonly #onUnreadable: OnUnreadable

  /** `find` returns an entry of the log. */
  constructor(
    { db, path }: Pick<Store, "db" | "path">,
    find: (sequence: number) => Entry | undefined,
    onUnreadable: OnUnreadable,
  ) {
    this.#find = find
    this.#onUnreadable = onUnreadable
    this.#cursors = new CursorRows(db)
    this.ids = new LaneIds(db, (id) => this.backlogs.has(id))
    this.backlogs.nameOf = (id) => this.ids.nameOf(id)
    this.#isolate = savepoints(db, path)
    this.found = this.#cursors.find()
    if (!this.found.isListed && !this.found.damaged) this.#cursors.list()
    this.retries = new Retries(db)
    this.outcomes = new OutcomeRows(db)
    this.alerts = new AlertRows(db)
    this.deadLetters = new DeadLetters(db, onUnreadable)
    for (const { name, cursor, paused, pausedFor, mute } of this.found.rows) {
      const backlog = this.backlogs.begun(name, cursor, pausedFor)
      backlog.paused = paused
      backlog.mute = mute
    }
    this.#loadCounts()
  }

  /** Counts retries and dead letters. Whoever reads the log counts its events. */
  #loadCounts(): void {
    for (const backlog of this.backlogs.values()) {
      backlog.returned = 0
      backlog.deadLetters = 0
      backlog.letterBytes = new WebhookBytes()
    }
    for (const { lane, sequence, isReturned } of this.retries.keys()) {
      const backlog = this.backlogs.get(lane)
      if (isReturned && backlog !== undefined) backlog.returned += 1
      else backlog?.retries(sequence)
    }
    for (const { lane, ...counts } of this.deadLetters.counts()) this.#countDeadLetters(lane, counts)
  }

  #countDeadLetters(lane: string, { letters, bytes, webhook }: DeadLetterChange): void {
    const backlog = this.backlogs.get(lane)
    if (backlog === undefined) return
    backlog.deadLetters += letters
    backlog.letterBytes.add(webhook, bytes)
  }

  /** Restarts lanes with damaged cursors after `sequence`. */
  repairCursors(sequence: number): Committed {
    this.#cursors.repair(this.found, sequence)
    return () => {
      for (const name of this.found.lost) this.backlogs.begun(name, { sequence, settled: [] })
      this.#loadCounts()
    }
  }

  /** Returns unknown lane names of dead letters, which damage on the disk has altered. */
  unknownDeadLetterLanes(): ReadonlyArray<string> {
    return this.deadLetters
      .counts()
      .map(({ lane }) => lane)
      .filter((lane) => !this.backlogs.has(lane))
  }

  /** Returns retries of unknown lanes. Damage on the disk has altered the name, so no lane can send them. */
  unknownRetries(): ReadonlyArray<{ readonly lane: string; readonly sequence: number }> {
    return this.retries.keys().filter(({ lane }) => !this.backlogs.has(lane))
  }

  /** Removes a retry that can't be sent, and reports it. */
  loseRetry(lane: string, sequence: number): Committed {
    this.#lose(lane, sequence)
    this.retries.delete(lane, sequence)
    return () => {
      this.backlogs.get(lane)?.endRetry(sequence)
      this.#recountReturned(lane)
    }
  }

  #lose(lane: string, sequence: number): void {
    this.#onUnreadable(lane, sequence, this.retries.duplicateKey(lane, sequence))
  }

  /** Stores a lane that is in memory already. A stored lane is left unchanged. */
  insert(lane: string, cursor: number): void {
    this.#cursors.insert([lane], cursor)
    this.ids.store(lane)
  }

  /** Begins lanes after `sequence`. */
  begin(lanes: ReadonlyArray<string>, sequence: number): Committed {
    this.#cursors.insert(lanes, sequence)
    for (const lane of lanes) this.ids.store(lane)
    return () => {
      for (const lane of lanes) this.backlogs.begun(lane, { sequence, settled: [] })
      this.ids.changed()
    }
  }

  /** Gives a lane another name. */
  rename(lane: string, name: string): Committed {
    const renamed = this.ids.rename(lane, name)
    return () => {
      renamed()
      const backlog = this.backlogs.get(lane)
      if (backlog !== undefined) backlog.name = name
    }
  }

  /** Records that a lane's events are moved to another lane. Lanes that were moved to it are moved there, too. */
  moves(lane: string, to: string): Committed {
    const others = this.ids.moves.filter(([from]) => from !== lane)
    return this.ids.setMoves([...others.map(([from, old]) => [from, old === lane ? to : old] as const), [lane, to]])
  }

  /** Records that a lane keeps its events, because a sink has its name again. */
  stays(lane: string): Committed {
    return this.ids.setMoves(this.ids.moves.filter(([from]) => from !== lane))
  }

  setPaused(lane: string, paused: Paused, mute?: Mute): Committed {
    this.#cursors.setPaused(lane, paused, mute)
    return () => {
      const backlog = this.backlogs.get(lane)
      if (backlog === undefined) return
      backlog.paused = paused
      backlog.mute = mute
    }
  }

  /** Applies each settlement separately, and adds those that can't be stored to `refused`. */
  settleEach(settlements: ReadonlyArray<Settlement>, refused: Array<RefusedSettlement>): Committed {
    const committed: Array<Committed> = []
    for (const settlement of settlements) {
      const result = whyUnstorable(settlement) ?? this.#isolate(() => this.settle(settlement))
      if (result instanceof JournalError) refused.push({ lane: settlement.lane, error: result })
      else committed.push(result)
    }
    return allOf(committed)
  }

  /** Applies a lane's settlement. If the lane was dropped meanwhile, the settlement is ignored. */
  settle(settlement: Settlement): Committed {
    const { lane, delivered, pausedFor } = settlement
    const backlog = this.backlogs.get(lane)
    if (backlog === undefined) return nothing
    const taken = settlement.takeBack.map((wait) => this.#takeBack(lane, wait))
    const rows = rowsOf(settlement, (sequence) => this.retries.kept(lane, sequence), this.#find)
    for (const sequence of rows.lost) this.#lose(lane, sequence)
    for (const retry of rows.retries) this.retries.put(retry)
    for (const sequence of rows.ends) this.retries.delete(lane, sequence)
    for (const end of rows.ended) this.outcomes.ended(end)
    const changes = rows.letters.map((letter) => this.deadLetters.put(letter))
    this.outcomes.delivered(lane, delivered)
    this.alerts.change(lane, settlement.alerts)
    const cursor = later(backlog.cursor, settlement.cursor)
    this.#cursors.move(lane, cursor, pausedFor)
    return () => {
      for (const apply of taken) apply()
      for (const { change } of rows.retries) backlog.retries(change.sequence)
      for (const sequence of rows.ends) backlog.endRetry(sequence)
      this.#recountReturned(lane)
      for (const change of changes) this.#countDeadLetters(lane, change)
      backlog.pausedFor = pausedFor
      this.onMoved(backlog.cursor, cursor)
      backlog.settle(cursor)
    }
  }

  /** Updates the count of replayed dead letters, which leave it once their lane has taken them up. */
  #recountReturned(lane: string): void {
    const backlog = this.backlogs.get(lane)
    if (backlog !== undefined && backlog.returned > 0) backlog.returned = this.retries.returnedCount(lane)
  }

  /** Turns a dead letter into a retry, which its lane takes up. Returns `undefined` if it doesn't exist. */
  giveBack({ lane, sequence }: DeadLetterKey, why: Removal): Committed | undefined {
    const taken = this.#takeBack(lane, returning(sequence, why.at), why)
    if (taken === nothing) return undefined
    return () => {
      taken()
      const backlog = this.backlogs.get(lane)
      backlog?.endRetry(sequence)
      if (backlog !== undefined) backlog.returned += 1
    }
  }

  /**
   * Turns a dead letter back into a retry, if it still exists. With `why`, an operator did it, and that is
   * recorded.
   */
  #takeBack(lane: string, wait: Wait, why?: Removal): Committed {
    const letter = this.deadLetters.get({ lane, sequence: wait.sequence })
    const deleted = letter && this.deadLetters.delete(lane, wait.sequence)
    if (letter === undefined || deleted === undefined) return nothing
    const change = { ...wait, failed: [], refunded: 0 }
    this.retries.put({ lane, change, attempts: letter.attempts, entry: letter.entry })
    if (why !== undefined) {
      const note = { by: why.by, deadAt: letter.at }
      this.outcomes.ended({ sequence: wait.sequence, lane, at: why.at, outcome: "returned", note })
    }
    return () => {
      this.backlogs.get(lane)?.retries(wait.sequence)
      this.#countDeadLetters(lane, { ...deleted, letters: -1, bytes: -deleted.bytes })
    }
  }

  /** Reports whether {@link passTo} has something to store. */
  mayPass(head: number): boolean {
    return this.backlogs.behind(this.readFrom, head).length > 0
  }

  /**
   * Moves the cursors of idle lanes to the head. No event wakes these lanes, and both a start and a search
   * begin at the lowest cursor.
   */
  passTo(head: number): Committed {
    const idle = this.backlogs.behind(this.readFrom, head)
    const cursor = { sequence: head, settled: [] }
    for (const { lane, pausedFor } of idle) this.#cursors.move(lane, cursor, pausedFor)
    return () => {
      for (const backlog of idle) {
        this.onMoved(backlog.cursor, cursor)
        backlog.settle(cursor)
      }
    }
  }

  /** Adds another journal's dead letter. */
  addDeadLetter(letter: LetterToPut): Committed {
    const change = this.deadLetters.put(letter)
    return () => this.#countDeadLetters(letter.lane, change)
  }

  /** Returns a retry or a dead letter of any lane. */
  find(sequence: number): Entry | undefined {
    for (const lane of this.backlogs.keys()) {
      const entry = this.retries.kept(lane, sequence)?.entry()
      if (entry !== undefined) return entry
    }
    return this.deadLetters.find(sequence)
  }

  /** Returns retries with their bytes. Unreadable events are in `lost`; the caller removes them. */
  readRetries(lane: string, sequences: ReadonlyArray<number>): RetryEntries {
    const entries: Array<Entry> = []
    const lost: Array<number> = []
    let size = 0
    for (const sequence of sequences) {
      if (size >= readBytes) break
      const record = this.retries.record(lane, sequence)
      if (record === undefined) continue
      const entry = decode(record, sequence)
      if (entry === undefined) lost.push(sequence)
      else {
        entries.push(entry)
        size += entry.event.body.length
      }
    }
    return { entries, lost }
  }

  /** Removes a dead letter, which may have been appended again as `copy`. Returns `undefined` if it doesn't exist. */
  removeDeadLetter(key: DeadLetterKey, outcome: Ended["outcome"], why: Removal, copy?: number): Committed | undefined {
    const deleted = this.deadLetters.delete(key.lane, key.sequence)
    if (deleted === undefined) return undefined
    const { at: deadAt, attempts } = deleted
    this.#leaves(key, outcome, why, { deadAt, attempts }, copy)
    return () => this.#countDeadLetters(key.lane, { ...deleted, letters: -1, bytes: -deleted.bytes })
  }

  /** Takes a retry out of a lane, and moves it to another lane if one is given. Returns `undefined` if none is left. */
  takeRetry(lane: string, why: Removal, to?: string): Committed | undefined {
    const sequence = this.retries.next(lane)
    if (sequence === undefined) return undefined
    this.#goes({ lane, sequence }, why, { attempts: this.retries.kept(lane, sequence)?.attempts ?? [] }, to)
    const pausedFor = (lane: string | undefined): number => this.backlogs.get(lane ?? "")?.pausedFor ?? 0
    const isReturned = this.retries.isReturned(lane, sequence)
    // If both lanes have the event, one is enough.
    const moved = to !== undefined && this.retries.move(lane, to, sequence, pausedFor(lane) - pausedFor(to))
    if (!moved) this.retries.delete(lane, sequence)
    return () => {
      this.backlogs.get(lane)?.endRetry(sequence)
      this.#recountReturned(lane)
      const target = moved ? this.backlogs.get(to) : undefined
      if (isReturned && target !== undefined) target.returned += 1
      else target?.retries(sequence)
    }
  }

  /** Ends a dead letter, or moves it to another lane. */
  takeDeadLetter(lane: string, why: Removal, to?: string): Committed | undefined {
    const next = this.deadLetters.next(lane)
    if (next === undefined) return undefined
    const { sequence, bytes, webhook, at: deadAt, attempts } = next
    this.#goes({ lane, sequence }, why, { deadAt, attempts }, to)
    const moved = to !== undefined && this.deadLetters.move(lane, to, sequence)
    if (!moved) this.deadLetters.delete(lane, sequence)
    return () => {
      this.#countDeadLetters(lane, { letters: -1, bytes: -bytes, webhook })
      if (moved) this.#countDeadLetters(to, { letters: 1, bytes, webhook })
    }
  }

  /** Records that an event was dropped, or moved to another lane with its attempts. */
  #goes(key: DeadLetterKey, why: Removal, note: Ended["note"], to?: string): void {
    if (to === undefined) this.#leaves(key, "dropped", why, note)
    else this.#leaves(key, "moved", why, { ...note, to, attempts: [] })
  }

  #leaves(
    { lane, sequence }: DeadLetterKey,
    outcome: Ended["outcome"],
    why: Removal,
    note: Ended["note"],
    copy?: number,
  ) {
    const { at, by } = why
    this.outcomes.ended({ sequence, lane, at, outcome, ...(copy !== undefined && { copy }), note: { by, ...note } })
  }

  /** Returns the lanes that have not delivered an event yet. */
  waitingFor(sequence: number): ReadonlyArray<string> {
    return [...this.backlogs.values()]
      .filter(({ lane, retrying, returned }) =>
        returned > 0 ? this.retries.record(lane, sequence) !== undefined : retrying.has(sequence),
      )
      .concat([...this.backlogs.values()].filter((lane) => lane.pendingWithin(sequence, sequence).length > 0))
      .map(({ lane }) => lane)
  }

  /** Ends events as dropped, at a lane that waits for them. */
  giveUp(lane: string, sequences: ReadonlyArray<number>, why: Removal): Committed {
    const backlog = this.backlogs.get(lane)
    if (backlog === undefined) return nothing
    for (const sequence of sequences) {
      this.#goes({ lane, sequence }, why, { attempts: this.retries.kept(lane, sequence)?.attempts ?? [] })
      this.retries.delete(lane, sequence)
    }
    const cursor = sequences.reduce(settledAt, backlog.cursor)
    this.#cursors.move(lane, cursor, backlog.pausedFor)
    return () => {
      for (const sequence of sequences) backlog.endRetry(sequence)
      this.#recountReturned(lane)
      this.onMoved(backlog.cursor, cursor)
      backlog.settle(cursor)
    }
  }

  /** Updates the count after a dead letter was erased. */
  resized({ lane, ...change }: DeadLetterChange & { readonly lane: string }): Committed {
    return () => this.#countDeadLetters(lane, change)
  }

  /** Removes a lane that has only pending events in the log, up to `head`. */
  drop(lane: string, { at, by }: Removal, head: number): Committed {
    const from = this.backlogs.get(lane)?.cursor.sequence ?? head
    if (from < head) {
      this.outcomes.ended({ sequence: from + 1, last: head, lane, at, outcome: "laneRemoved", note: { by } })
    }
    this.#cursors.delete(lane)
    this.alerts.clear(lane)
    const moved = this.ids.setMoves(this.ids.moves.filter((move) => !move.includes(lane)))
    return () => {
      moved()
      this.backlogs.delete(lane)
      this.ids.changed()
      this.onDropped()
    }
  }

  /** The lowest cursor: no lane waits for an event up to it. */
  get passed(): number {
    let lowest = Number.POSITIVE_INFINITY
    for (const backlog of this.backlogs.values()) lowest = Math.min(lowest, backlog.cursor.sequence)
    return lowest
  }
}

/** `apply` runs in the transaction. The function that it returns runs after the commit, and `done` runs last. */
export interface Task {
  readonly apply: () => Committed
  readonly done: (exit: Exit.Exit<void, JournalError>) => void
}

/** The waiting tasks, in order. */
export class CommitTasks {
  #waiting: Array<Task> = []

  add(task: Task): void {
    this.#waiting.push(task)
  }

  /** Returns all waiting tasks, for a commit. */
  take(): ReadonlyArray<Task> {
    const taken = this.#waiting
    this.#waiting = []
    return taken
  }

  /** Puts tasks back that couldn't be committed now, before tasks that were added since. */
  putBack(tasks: ReadonlyArray<Task>): void {
    this.#waiting = [...tasks, ...this.#waiting]
  }

  fail(exit: Exit.Exit<never, JournalError>): void {
    for (const task of this.take()) task.done(exit)
  }
}
