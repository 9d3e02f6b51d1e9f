/**
 * The journal's core on SQLite: the group commit, settlements folded into it,
 * and what stands in memory beside the file. Plain code: every event passes
 * here; `SqliteJournal.ts` makes a service of it.
 *
 * **Promise.** An exit says "appended" only after the fsync of the commit that
 * holds the event. Memory follows the disk: counts, tail and duplicates change
 * after the commit, never before.
 *
 * **Traps.** Once broken it stays so: a commit after a failed fsync would
 * "succeed". Whatever fails after COMMIT is therefore broken too, or its
 * sequences would be given out twice.
 */
import { Duration, Exit } from "effect"
import type { RelayConfig } from "../../config/Config.ts"
import type { Entry } from "../../event/Entry.ts"
import type { Event } from "../../event/Event.ts"
import type { AppendExit, Appended, JournalBroken, JournalError, Settlement } from "../Journal.ts"
import { Alarm } from "./Alarm.ts"
import { Backlog } from "./Backlog.ts"
import { CommitBatch, type Key } from "./CommitBatch.ts"
import { CommitScheduler } from "./CommitScheduler.ts"
import { Duplicates } from "./Duplicates.ts"
import { Space } from "./file/Space.ts"
import { broken, classify, full, isCorrupt, transactions, unavailable } from "./file/SqliteErrors.ts"
import type { Store } from "./file/Store.ts"
import { HeadWaiters } from "./HeadWaiters.ts"
import { logLimit } from "./JournalWorker.ts"
import { type Committed, LaneStore } from "./LaneStore.ts"
import { Log } from "./Log.ts"
import { Losses } from "./Losses.ts"
import { Owed } from "./Owed.ts"
import { RecentEntries } from "./RecentEntries.ts"
import { bodyChecksum, Origin } from "./Record.ts"

export type Options = RelayConfig["journal"]

/** What lives long is collected at a price, and a lane that keeps up reads what is a few milliseconds old. */
const tailBytes = 4 * 1024 * 1024
const tailEntries = 4096
/** Bodies that one read brings from the disk, about: a lane asks again. */
const readBytes = 8 * 1024 * 1024
const appended: AppendExit = Exit.succeed("appended")
const duplicate: AppendExit = Exit.succeed("duplicate")
const asDuplicate = (exit: AppendExit): AppendExit => (Exit.isSuccess(exit) ? duplicate : exit)
const noKey: Key = { hi: 0, lo: 0, bodyCrc: 0 }

/** An event that is appended anew. */
export interface Again {
  readonly event: Event
  readonly sinks: ReadonlyArray<string>
}

/** Work that wants to be in the next commit. */
interface Task {
  readonly apply: () => Committed
  readonly done: (exit: Exit.Exit<void, JournalError>) => void
}

export class Engine {
  readonly log: Log
  readonly owed: Owed
  readonly lanes: LaneStore
  readonly space: Space
  readonly duplicates: Duplicates
  readonly losses: Losses
  readonly counters = { appended: 0, duplicates: 0, altered: 0, commits: 0, commitMillis: 0 }
  head: number
  readonly alarm: Alarm
  readonly waiting = new HeadWaiters()
  brokenBy: JournalBroken | undefined
  onBroken: (error: JournalBroken) => void = () => {}

  readonly store: Store
  private readonly passive
  private checkpointedAt = 0
  private readonly transact: <A>(work: () => A) => A
  private readonly recent = new RecentEntries(tailBytes, tailEntries)
  private readonly batch = new CommitBatch()
  private tasks: Array<Task> = []
  private readonly scheduler = new CommitScheduler(
    () => this.flush(),
    () => this.batch.entries.length,
  )
  /** Refuses everything: starting, stopped, broken. */
  private refusal: Exit.Exit<never, JournalError> | undefined

  constructor(store: Store, options: Options) {
    this.store = store
    this.transact = transactions(store.db)
    this.passive = store.db.prepare("PRAGMA wal_checkpoint(PASSIVE)")
    this.alarm = new Alarm(store.db)
    this.head = store.head
    this.batch.first = this.head + 1
    this.log = new Log(store.db, (from, to, why) => {
      this.raiseAlarm(
        `Events ${from === to ? from : `${from} to ${to}`} of the journal ${store.path} are lost: ${why}. They are not delivered; the sender may send them again.`,
      )
      this.losses.found(from, to)
    })
    this.owed = new Owed(store.db, (sequence) => this.log.damaged(sequence))
    this.lanes = new LaneStore(
      store.db,
      (sequence) => this.recent.get(sequence) ?? this.owed.find(sequence) ?? this.log.find(sequence),
      (lane, sequence) => {
        this.raiseAlarm(
          `Event ${sequence} of lane ${lane} can't be read as it was written: it is not delivered; the sender may send it again.`,
        )
        this.losses.found(sequence, sequence, true)
      },
    )
    this.lanes.onMoved = (from, to) => this.owed.moved(from, to)
    this.lanes.onDropped = () => this.owed.dropped()
    this.duplicates = new Duplicates({
      count: options.duplicates.count,
      age: Duration.toMillis(options.duplicates.age),
    })
    this.losses = new Losses(this, (store) => this.storeSoon(store))
    this.space = new Space(store, options)
    for (const finding of store.findings) this.raiseAlarm(finding)
    this.refusal = Exit.fail(unavailable(`The journal ${store.path} is starting: it reads what it holds. Try again.`))
  }

  /** The start is over: appends are taken from now on. */
  ready(): void {
    if (this.brokenBy === undefined) this.refusal = undefined
  }

  get isStarting(): boolean {
    return this.refusal !== undefined && this.brokenBy === undefined
  }

  // ---- append

  appendUnsafe(event: Event, sinks: ReadonlyArray<string>): AppendExit | Promise<AppendExit> {
    const offered = this.offer(event, sinks)
    if (typeof offered !== "string") return offered
    const promise = this.batch.promise
    this.schedule()
    return offered === "appended" ? promise : promise.then(asDuplicate)
  }

  /** The same with a callback in place of the promise; the exit when it is known at once. */
  append(event: Event, sinks: ReadonlyArray<string>, done: (exit: AppendExit) => void): AppendExit | undefined {
    const offered = this.offer(event, sinks)
    if (typeof offered !== "string") return offered
    this.batch.onDone(offered === "appended" ? done : (exit) => done(asDuplicate(exit)))
    this.schedule()
    return undefined
  }

  /** Puts an event into the open group, or says why not; as a name when the group's commit decides. */
  private offer(event: Event, sinks: ReadonlyArray<string>): AppendExit | Appended {
    if (this.refusal !== undefined) return this.refusal
    const bodyCrc = bodyChecksum(event)
    const found = this.duplicates.find(event, bodyCrc)
    if (found !== "new") {
      this.counters.duplicates++
      return found === "seen" ? duplicate : "duplicate"
    }
    if (this.space.refusal !== undefined) return this.space.refusal
    for (const sink of sinks) {
      const backlog = this.lanes.backlogs.get(sink)
      if (backlog?.isFull) return Exit.fail(full("backlog", backlog.whyFull))
    }
    this.keep(event, sinks, bodyCrc)
    return "appended"
  }

  /** Puts a delivery into the open group that `duplicates` has just called new. */
  private keep(event: Event, sinks: ReadonlyArray<string>, bodyCrc: number): void {
    const { isAltered, keyHi: hi, keyLo: lo } = this.duplicates
    this.duplicates.add(bodyCrc, event.receivedAt)
    if (isAltered) this.counters.altered++
    this.put(isAltered ? { ...event, altered: true } : event, sinks, Origin.delivered, { hi, lo, bodyCrc })
  }

  private put(event: Event, sinks: ReadonlyArray<string>, origin: Origin, key: Key): void {
    for (const sink of sinks) {
      if (this.lanes.backlogs.has(sink)) continue
      // Routed to a lane that nobody has opened: it begins here, so that what is promised is not pruned.
      const cursor = { sequence: this.batch.first + this.batch.entries.length - 1, settled: [] }
      this.lanes.backlogs.set(sink, new Backlog(sink, cursor))
      this.batch.newLanes.push(sink)
    }
    this.batch.add(event, sinks, origin, key)
  }

  // ---- commit

  private schedule(): void {
    if (this.batch.isFull) this.flush()
    else this.scheduler.joined()
  }

  /** Commits the open group and the tasks that wait, in one transaction. */
  flush(): void {
    this.scheduler.flushed()
    const tasks = this.tasks
    this.tasks = []
    if (this.brokenBy !== undefined) return
    if (this.batch.isEmpty && tasks.length === 0) return
    let failure = this.commit(tasks)
    if (failure === undefined) return
    if (failure.reason._tag === "JournalUnavailable" && tasks.length > 0 && !this.batch.isEmpty) {
      // Lanes' progress that can't be stored must not cost the events their place: each by itself.
      failure = this.commit([])
    }
    const hadGroup = !this.batch.isEmpty
    if (failure !== undefined) this.abandon(failure)
    // Progress of lanes must not fail with the events that found no room, and the ballast was given up for it.
    const again = failure === undefined || hadGroup || failure.reason._tag === "JournalFull"
    const exit = tasks.length > 0 && again && this.brokenBy === undefined ? this.commit(tasks) : failure
    if (exit !== undefined) for (const task of tasks) task.done(Exit.fail(exit))
  }

  private commit(tasks: ReadonlyArray<Task>): JournalError | undefined {
    const group = this.batch
    const started = performance.now()
    let committed: ReadonlyArray<Committed>
    try {
      this.store.requireUncut()
      committed = this.transact(() => {
        if (!group.isEmpty) {
          this.log.insert(group)
          for (const lane of group.newLanes)
            this.lanes.insert(lane, this.lanes.backlogs.get(lane)?.cursor.sequence ?? 0)
        }
        return tasks.map((task) => task.apply())
      })
    } catch (error) {
      return this.failed(error)
    }
    const count = group.entries.length
    try {
      this.requireSameFile()
      this.head += count
      if (count > 0) this.store.reached(this.head)
      this.duplicates.commit()
      for (const entry of group.entries) {
        for (const sink of entry.sinks) this.lanes.backlogs.get(sink)?.routed(entry.sequence)
      }
      this.recent.push(group.entries)
      for (const apply of committed) apply()
      this.space.wrote(group.size)
    } catch (error) {
      return this.breakDown(classify(this.store.path, error).message)
    }
    this.counters.appended += count
    this.counters.commits++
    const ended = performance.now()
    this.scheduler.committed(count, ended)
    this.counters.commitMillis += ended - started
    group.finish(appended, this.head + 1)
    for (const task of tasks) task.done(Exit.void)
    if (count > 0) this.waiting.reached(this.head)
    return undefined
  }

  /** The open group is not on disk: its keys and sequences are free again. */
  private abandon(failure: JournalError): void {
    this.duplicates.rollback()
    for (const lane of this.batch.newLanes) this.lanes.backlogs.delete(lane)
    this.batch.finish(Exit.fail(failure), this.head + 1)
  }

  /** Runs `work` as a transaction of its own, after what is open: for what is not on the hot path. */
  exclusively<A>(work: () => { readonly result: A; readonly committed?: Committed }): A {
    this.flush()
    if (this.brokenBy !== undefined) throw broken(this.brokenBy.message)
    try {
      const { result, committed } = this.transact(work)
      committed?.()
      return result
    } catch (error) {
      throw this.failed(error)
    }
  }

  /**
   * Appends entries of the relay's own making (replays, moves) together with
   * `work`, in one commit. At most a row's worth at a time.
   */
  appendWith(entries: ReadonlyArray<Again>, origin: Origin, work: () => Committed): void {
    this.together(work, () => {
      for (const { event, sinks } of entries) this.put(event, sinks, origin, { ...noKey, bodyCrc: bodyChecksum(event) })
    })
  }

  /** The same of deliveries that could not be routed before, but for those that were sent again meanwhile. */
  deliverWith(entries: ReadonlyArray<Again>, work: () => Committed): void {
    this.together(work, () => {
      for (const { event, sinks } of entries) {
        const bodyCrc = bodyChecksum(event)
        if (this.duplicates.find(event, bodyCrc) === "new") this.keep(event, sinks, bodyCrc)
      }
    })
  }

  private together(work: () => Committed, put: () => void): void {
    this.flush()
    if (this.brokenBy !== undefined) throw broken(this.brokenBy.message)
    put()
    const failure = this.commit([{ apply: work, done: () => {} }])
    if (failure === undefined) return
    this.abandon(failure)
    throw failure
  }

  // ---- settle

  settle(settlements: ReadonlyArray<Settlement>, done: (exit: Exit.Exit<void, JournalError>) => void): void {
    this.enqueue(() => {
      const committed = settlements.map((settlement) => this.lanes.settle(settlement))
      return () => {
        for (const apply of committed) apply()
      }
    }, done)
  }

  private enqueue(apply: () => Committed, done: (exit: Exit.Exit<void, JournalError>) => void): void {
    if (this.brokenBy !== undefined) {
      done(Exit.fail(broken(this.brokenBy.message)))
    } else {
      this.tasks.push({ apply, done })
      this.scheduler.settling()
    }
  }

  // ---- read

  /** Entries above `after`, at most `limit`; from memory when they are new, else some megabytes at a time. */
  read(after: number, limit: number): ReadonlyArray<Entry> {
    if (this.brokenBy === undefined && after + 1 >= this.recent.first) return this.recent.read(after, limit)
    return this.guard(() => {
      if (after >= this.head) return []
      if (after >= this.owed.last) return this.log.read(after, limit, readBytes)
      const owed = this.owed.read(after, limit, readBytes)
      const room = readBytes - owed.reduce((bytes, { event }) => bytes + event.body.length, 0)
      return owed.concat(this.log.read(this.owed.last, limit - owed.length, room))
    })
  }

  /** Runs what only reads, with its errors classified. */
  guard<A>(work: () => A): A {
    if (this.brokenBy !== undefined) throw broken(this.brokenBy.message)
    try {
      return work()
    } catch (error) {
      throw this.failed(error)
    }
  }

  /** For appends of the relay's own making: they wait for room like any other. `soFar` says what was done. */
  requireRoom(soFar: string): void {
    if (this.space.refusal !== undefined) throw unavailable(`${this.space.message} ${soFar}`)
  }

  // ---- checkpoints

  /** Whether no worker does it. */
  ownCheckpoints = true

  /** Moves what is in the write-ahead log into the file. */
  checkpoint(): void {
    try {
      this.passive.get()
    } catch (error) {
      this.failed(error)
    }
  }

  /** The worker made a pass and left this many frames in the log: the end of a long one is for the writer to reach. */
  checkpointed(frames: number): void {
    if (this.brokenBy === undefined && frames * this.space.frameSize > logLimit) this.checkpoint()
  }

  checkpointFailed(message: string, code: number): void {
    if (code === 0) this.ownCheckpoints = true
    else this.failed(Object.assign(new Error(message), { errcode: code }))
  }

  /** Looks at the file and the disk: a few times a second. */
  look(): void {
    this.requireSameFile()
    this.space.look()
    if (this.ownCheckpoints && this.counters.commits !== this.checkpointedAt) {
      this.checkpointedAt = this.counters.commits
      this.checkpoint()
    }
  }

  private requireSameFile(): void {
    const replaced = this.store.replaced()
    if (replaced !== undefined) throw broken(`${replaced} What came last may be lost, so the relay stops.`)
  }

  // ---- health

  /** Red until a person acknowledges it, across restarts. */
  raiseAlarm(message: string): void {
    if (this.alarm.add(message)) this.storeSoon(() => this.alarm.store())
  }

  /** With the next commit, whenever that comes. */
  private storeSoon(work: () => void): void {
    const apply = () => {
      work()
      return () => {}
    }
    this.enqueue(apply, () => {})
  }

  acknowledge(): void {
    this.exclusively(() => ({ result: undefined, committed: this.alarm.clear() }))
  }

  /** Says what an error means; breaks the journal when it is final. */
  failed(error: unknown): JournalError {
    const failure = classify(this.store.path, error)
    if (failure.reason._tag === "JournalFull") this.space.foundFull(failure.message)
    return failure.reason._tag === "JournalBroken" ? this.breakDown(failure.message, error) : failure
  }

  /** Never again in this process. */
  breakDown(message: string, error?: unknown): JournalError {
    const failure = broken(message)
    if (this.brokenBy !== undefined || failure.reason._tag !== "JournalBroken") return failure
    this.brokenBy = failure.reason
    this.refusal = Exit.fail(failure)
    if (isCorrupt(error)) this.store.mark.damaged()
    this.batch.finish(this.refusal, this.head + 1)
    const tasks = this.tasks
    this.tasks = []
    for (const task of tasks) task.done(this.refusal)
    this.onBroken(failure.reason)
    return failure
  }

  /** Commits what is open and refuses what comes after. */
  stop(): void {
    this.flush()
    this.refusal ??= Exit.fail(unavailable(`The journal ${this.store.path} is closed: the relay stops.`))
  }
}
