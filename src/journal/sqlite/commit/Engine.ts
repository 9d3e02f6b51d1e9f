/**
 * The core of the journal on SQLite: group commits of events and settlements, and the state in memory that
 * matches the file. It is plain code, because every event passes through it; `SqliteJournal.ts` makes it a
 * service.
 *
 * **Guarantee.** An exit says "appended" only after the fsync of the commit that holds the event. Memory
 * follows the disk: counts, recent entries and duplicates change after the commit, never before.
 *
 * **Gotcha.** A broken journal stays broken, because a commit after a failed fsync would "succeed". A failure
 * after COMMIT breaks it too, because its sequences would otherwise be used twice.
 */
import { Duration, Exit } from "effect"
import type { Entry, Event } from "../../../event/Event.ts"
import { whatFills } from "../../archive/Room.ts"
import type { AppendExit, Appended, SettleExit } from "../../Journal.ts"
import { broken, full, type JournalBroken, type JournalError, unavailable } from "../../JournalError.ts"
import type { RefusedSettlement, Settlement } from "../../Settlement.ts"
import { asDuplicate, type Copies, duplicate, type Reappended } from "../../stream/BulkSlices.ts"
import { CommitBatch, CommitScheduler } from "../../stream/CommitBatch.ts"
import type { DuplicateKey } from "../../stream/DuplicateKey.ts"
import { HeadWaiters } from "../../stream/RecentEntries.ts"
import { bodyChecksum, Origin } from "../../stream/Record.ts"
import { Checkpoints } from "../file/Checkpoints.ts"
import { Space } from "../file/Space.ts"
import { classify } from "../file/SqliteFailure.ts"
import type { Store } from "../file/Store.ts"
import { LogRows } from "../rows/LogRows.ts"
import { LogReader, PendingEvents } from "../rows/PendingEvents.ts"
import { isCorrupt, transactions } from "../rows/SqliteConnection.ts"
import type { SqliteConfig } from "../SqliteConfig.ts"
import { Duplicates } from "./Duplicates.ts"
import { ForeignLock, isLocked } from "./ForeignLock.ts"
import { CommitTasks, type Committed, LaneStore, nothing, type Task } from "./LaneStore.ts"
import { Alarm, Losses } from "./Losses.ts"

const appended: AppendExit = Exit.succeed("appended")

/** The journal on an open store. Its methods throw `JournalError`; appends and settlements return it in an exit. */
export class Engine {
  readonly log: LogRows
  readonly pending: PendingEvents
  readonly lanes: LaneStore
  readonly space: Space
  readonly duplicates: Duplicates
  readonly losses: Losses
  readonly checkpoints: Checkpoints
  /** Number of transactions since the start. */
  writes = 0
  /** Called when a transaction begins. */
  onWrite: () => void = () => {}
  readonly counters = { appended: 0, duplicates: 0, altered: 0, commits: 0, commitMillis: 0 }
  head: number
  readonly alarm: Alarm
  readonly waiting: HeadWaiters
  brokenBy: JournalBroken | undefined
  onBroken: (error: JournalBroken) => void = () => {}

  readonly store: Store
  readonly #transact: <A>(work: () => A) => A
  readonly reader: LogReader
  readonly #batch = new CommitBatch()
  readonly #tasks = new CommitTasks()
  readonly #scheduler = new CommitScheduler(
    () => this.flush(),
    () => this.#batch.entries.length,
  )
  readonly locked: ForeignLock
  /** Why everything is refused: the journal is starting, stopped or broken. */
  #refusal: Exit.Exit<never, JournalError> | undefined

  constructor(store: Store, options: SqliteConfig) {
    this.store = store
    const transact = transactions(store.db)
    this.#transact = (work) => {
      this.writes += 1
      this.onWrite()
      return transact(() => {
        store.requireEnd(this.head)
        return work()
      })
    }
    this.locked = new ForeignLock(store.db, () => this.flush(true))
    this.alarm = new Alarm(store.db)
    this.head = store.head
    this.#batch.first = this.head + 1
    this.log = new LogRows(store.db, (from, to, why) => this.losses.ofLog(from, to, why))
    this.pending = new PendingEvents(store.db, (sequence, sinks, key) => this.losses.ofPending(sequence, sinks, key))
    this.reader = new LogReader(this.log, this.pending)
    this.lanes = new LaneStore(
      store,
      (sequence) => this.reader.find(sequence),
      (lane, sequence, key) => this.losses.ofLane(lane, sequence, key),
    )
    this.waiting = new HeadWaiters({
      end: () => this.head,
      readFrom: () => this.lanes.readFrom,
      backlogs: this.lanes.backlogs,
      recent: () => this.reader.recent,
    })
    this.lanes.onMoved = (from, to) => this.pending.moved(from, to)
    this.lanes.onDropped = () => this.pending.dropped()
    const { count, age } = options.duplicates
    this.duplicates = new Duplicates({ count, age: Duration.toMillis(age) })
    this.losses = new Losses(this, (store) => this.#storeSoon(store))
    this.space = new Space(store, options)
    this.space.whatFills = () => whatFills(this.lanes.backlogs.values(), options.maxSize)
    this.checkpoints = new Checkpoints(store.db, this.space, (error) => this.failed(error))
    for (const problem of store.problems) this.raiseAlarm(problem)
    this.#refusal = Exit.fail(unavailable(`The journal ${store.path} is starting and reads its events. Try again.`))
  }

  /** Ends the start: appends are accepted from now on. */
  ready(): void {
    if (this.brokenBy !== undefined) return
    this.#refusal = undefined
    this.lanes.readFrom = this.head
    this.locked.ready()
  }

  get isStarting(): boolean {
    return this.#refusal !== undefined && this.brokenBy === undefined
  }

  appendUnsafe(event: Event, sinks: ReadonlyArray<string>): AppendExit | Promise<AppendExit> {
    const result = this.#offer(event, sinks)
    if (typeof result !== "string") return result
    const promise = this.#batch.promise
    this.#schedule()
    return result === "appended" ? promise : promise.then(asDuplicate)
  }

  /**
   * Appends with a callback, for callers without a turn of the event loop. Returns the exit if it is known
   * immediately.
   */
  append(event: Event, sinks: ReadonlyArray<string>, done: (exit: AppendExit) => void): AppendExit | undefined {
    const result = this.#offer(event, sinks)
    if (typeof result !== "string") return result
    this.#batch.onDone(result === "appended" ? done : (exit) => done(asDuplicate(exit)))
    this.#schedule()
    return undefined
  }

  /** Adds an event to the open batch. Returns the exit if the caller needn't wait. */
  #offer(event: Event, sinks: ReadonlyArray<string>): AppendExit | Appended {
    if (this.#refusal !== undefined) return this.#refusal
    if (this.space.refusal !== undefined) this.space.makeRoom()
    const bodyCrc = bodyChecksum(event)
    const found = this.duplicates.find(event, bodyCrc)
    if (found !== "new") {
      this.counters.duplicates++
      return found === "seen" ? duplicate : "duplicate"
    }
    if (this.space.refusal !== undefined) return this.space.refusal
    if (this.locked.failure !== undefined && this.#batch.isFull) return Exit.fail(this.locked.failure)
    const why = this.lanes.backlogs.whyFull(sinks, event.webhook)
    if (why !== "") return Exit.fail(full("backlog", why))
    this.#addDelivery(event, sinks, bodyCrc)
    return "appended"
  }

  /** Adds a delivery that the last `duplicates.find` called new. */
  #addDelivery(event: Event, sinks: ReadonlyArray<string>, bodyCrc: number): void {
    const { isAltered, keyHi: hi, keyLo: lo } = this.duplicates
    this.duplicates.add(bodyCrc, event.receivedAt)
    if (isAltered) this.counters.altered++
    this.#add(isAltered ? { ...event, altered: true } : event, sinks, Origin.delivered, { hi, lo, bodyCrc })
  }

  #add(event: Event, sinks: ReadonlyArray<string>, origin: Origin, key: DuplicateKey): void {
    for (const sink of sinks) {
      if (this.lanes.backlogs.has(sink)) continue
      // The lane doesn't exist yet. It begins here, so that its events aren't pruned.
      this.lanes.backlogs.begun(sink, { sequence: this.#batch.next - 1, settled: [] })
      this.#batch.newLanes.push(sink)
    }
    this.#batch.add(event, sinks, origin, key)
  }

  #schedule(): void {
    if (this.#batch.isFull) this.flush()
    else this.#scheduler.joined()
  }

  /**
   * Commits the open batch and the waiting tasks in one transaction. If another process holds the file, this
   * happens later.
   */
  flush(isRetry = false): void {
    this.#scheduler.flushed()
    if (this.locked.failure !== undefined && !isRetry) return
    const tasks = this.#tasks.take()
    if (this.brokenBy !== undefined) return
    const isIdle = this.#batch.isEmpty && tasks.length === 0
    let failure = isIdle ? undefined : this.#commit(tasks)
    if (failure !== undefined && isLocked(failure)) {
      this.#tasks.putBack(tasks)
      this.locked.found(failure)
      return
    }
    this.locked.released()
    if (failure === undefined) return
    // Settlements that can't be stored must not make the events fail, so events and settlements are committed
    // separately.
    const isPassing = failure.reason._tag === "JournalUnavailable"
    if (isPassing && tasks.length > 0 && !this.#batch.isEmpty) failure = this.#commit([])
    const hadEvents = !this.#batch.isEmpty
    if (failure !== undefined) this.#abandon(failure)
    // Settlements must not fail with events that found no space: the ballast was deleted for them.
    const again = failure === undefined || hadEvents || failure.reason._tag === "JournalFull"
    const exit = tasks.length > 0 && again && this.brokenBy === undefined ? this.#commit(tasks) : failure
    if (exit !== undefined) for (const task of tasks) task.done(Exit.fail(exit))
  }

  /** Commits everything that waits, before the next step. Throws if another process holds the file. */
  #flushAll(): void {
    this.flush(true)
    this.locked.require()
    if (this.brokenBy !== undefined) throw broken(this.brokenBy.message)
  }

  #commit(tasks: ReadonlyArray<Task>): JournalError | undefined {
    const batch = this.#batch
    const started = performance.now()
    let committed: ReadonlyArray<Committed>
    try {
      this.store.requireUnchanged()
      committed = this.#transact(() => {
        if (!batch.isEmpty) this.log.insert(batch)
        for (const lane of batch.newLanes) this.lanes.insert(lane, this.lanes.backlogs.get(lane)?.cursor.sequence ?? 0)
        return tasks.map((task) => task.apply())
      })
    } catch (error) {
      return this.failed(error)
    }
    const count = batch.entries.length
    const routed = new Set<string>()
    try {
      this.store.requireUnchanged()
      this.head += count
      if (count > 0) this.store.reached(this.head)
      this.duplicates.commit()
      for (const entry of batch.entries) {
        const { body, webhook } = entry.event
        for (const sink of entry.sinks) {
          routed.add(sink)
          this.lanes.backlogs.get(sink)?.routed(entry.sequence, body.length, webhook)
        }
      }
      this.reader.recent.push(batch.entries)
      for (const apply of committed) apply()
      this.space.wrote(batch.size)
    } catch (error) {
      return this.breakDown(classify(this.store.path, error).message)
    }
    this.counters.appended += count
    this.counters.commits++
    const ended = performance.now()
    this.#scheduler.committed(count, ended)
    this.counters.commitMillis += ended - started
    batch.finish(appended, this.head + 1)
    for (const task of tasks) task.done(Exit.void)
    if (count > 0) {
      this.waiting.reached(routed)
      this.reader.recent.dropUnwanted()
    }
    return undefined
  }

  /** Stores with the next commit that idle lanes have passed the head. */
  passIdle(): void {
    if (this.lanes.mayPass(this.head)) this.#enqueue(() => this.lanes.passTo(this.head), nothing)
  }

  /** Releases the keys and sequences of the open batch, which isn't on disk. */
  #abandon(failure: JournalError): void {
    this.duplicates.rollback()
    for (const lane of this.#batch.newLanes) this.lanes.backlogs.delete(lane)
    this.#batch.finish(Exit.fail(failure), this.head + 1)
  }

  /** Runs `work` in its own transaction, after the open batch. */
  exclusively<A>(work: () => { readonly result: A; readonly committed?: Committed }): A {
    this.#flushAll()
    try {
      const { result, committed } = this.#transact(work)
      committed?.()
      return result
    } catch (error) {
      throw this.failed(error)
    }
  }

  /** Runs a change in its own transaction, after the open batch. */
  apply(change: () => Committed): void {
    this.exclusively(() => ({ result: undefined, committed: change() }))
  }

  /** Appends entries again and runs `work` with the new sequences, in one commit. The entries must fit into a row. */
  appendWith(entries: ReadonlyArray<Reappended>, origin: Origin, work: (copies: Copies) => Committed): void {
    const add = ({ event, sinks }: Reappended, bodyCrc: number): boolean => {
      this.#add(event, sinks, origin, { hi: 0, lo: 0, bodyCrc })
      return true
    }
    this.#commitWith(entries, add, work)
  }

  /** Appends deliveries that could not be routed before. Those that were received again since get no sequence. */
  deliverWith(entries: ReadonlyArray<Reappended>, work: (copies: Copies) => Committed): void {
    const add = ({ event, sinks }: Reappended, bodyCrc: number): boolean => {
      const isNew = this.duplicates.find(event, bodyCrc) === "new"
      if (isNew) this.#addDelivery(event, sinks, bodyCrc)
      return isNew
    }
    this.#commitWith(entries, add, work)
  }

  #commitWith(
    entries: ReadonlyArray<Reappended>,
    add: (entry: Reappended, bodyCrc: number) => boolean,
    work: (copies: Copies) => Committed,
  ): void {
    this.#flushAll()
    const copies = entries.map((entry) => {
      const sequence = this.#batch.next
      return add(entry, bodyChecksum(entry.event)) ? sequence : undefined
    })
    const failure = this.#commit([{ apply: () => work(copies), done: nothing }])
    if (failure === undefined) return
    this.#abandon(failure)
    throw failure
  }

  settle(settlements: ReadonlyArray<Settlement>, done: (exit: SettleExit) => void): void {
    let refused: Array<RefusedSettlement> = []
    const apply = () => {
      refused = []
      return this.lanes.settleEach(settlements, refused)
    }
    this.#enqueue(apply, (exit) => done(Exit.map(exit, () => refused)))
  }

  #enqueue(apply: () => Committed, done: (exit: Exit.Exit<void, JournalError>) => void): void {
    if (this.brokenBy !== undefined) done(Exit.fail(broken(this.brokenBy.message)))
    else {
      this.#tasks.add({ apply, done })
      this.#scheduler.settling()
    }
  }

  /** Returns at most `limit` entries above `after`: recent ones from memory, otherwise some megabytes from the disk. */
  read(after: number, limit: number, reader?: string): ReadonlyArray<Entry> {
    const recent = this.brokenBy === undefined ? this.reader.readRecent(after, limit, reader) : undefined
    return recent ?? this.guard(() => (after >= this.head ? [] : this.reader.read(after, limit, reader)))
  }

  /** Runs a read, and classifies its errors. */
  guard<A>(work: () => A): A {
    if (this.brokenBy !== undefined) throw broken(this.brokenBy.message)
    try {
      return work()
    } catch (error) {
      throw this.failed(error)
    }
  }

  /** Checks the file and the disk. It is called a few times a second. */
  inspect(): void {
    this.store.requireUnchanged()
    this.store.requireEnd(this.head)
    this.store.mark.keep()
    this.space.look()
    if (this.space.isLogTooLong) {
      this.checkpoints.shrink()
      this.space.look()
    }
    this.checkpoints.runOwn(this.counters.commits)
  }

  /** Raises an alarm: the journal is `red` until an operator acknowledges it, across restarts. */
  raiseAlarm(message: string): void {
    if (this.alarm.add(message)) this.#storeSoon(() => this.alarm.store())
  }

  /** Runs work with the next commit. */
  #storeSoon(work: () => void): void {
    const apply = () => {
      work()
      return nothing
    }
    this.#enqueue(apply, nothing)
  }

  acknowledge(): void {
    this.apply(() => this.alarm.clear())
  }

  /** Classifies an error, and breaks the journal if the error is final. */
  failed(error: unknown): JournalError {
    const failure = classify(this.store.path, error)
    if (failure.reason._tag === "JournalFull") this.space.foundFull(failure.message)
    return failure.reason._tag === "JournalBroken" ? this.breakDown(failure.message, error) : failure
  }

  /** Refuses everything from now on. */
  breakDown(message: string, error?: unknown): JournalError {
    const failure = broken(message)
    if (this.brokenBy !== undefined || failure.reason._tag !== "JournalBroken") return failure
    this.brokenBy = failure.reason
    this.#refusal = Exit.fail(failure)
    if (isCorrupt(error)) this.store.mark.damaged()
    this.#batch.finish(this.#refusal, this.head + 1)
    this.#tasks.fail(this.#refusal)
    this.onBroken(failure.reason)
    return failure
  }

  /** Commits the open batch, and refuses everything after it. */
  stop(): void {
    if (!this.isStarting) this.passIdle()
    this.locked.last()
    this.flush(true)
    const { failure } = this.locked
    if (failure !== undefined) {
      this.#abandon(failure)
      this.#tasks.fail(Exit.fail(failure))
    }
    this.locked.released()
    this.#refusal ??= Exit.fail(unavailable(`The journal ${this.store.path} is closed: the relay stops.`))
  }
}
