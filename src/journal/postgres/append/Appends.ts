/**
 * Appends to a stream. Events join the open group. While the database commits one group, the next one fills.
 *
 * **Guarantee.** Groups are committed one after the other, in the order in which they were filled. A caller
 * hears of a commit only after it. If the database refuses one event's data, the others of its group are
 * stored.
 */

import { Cause, Exit, Option } from "effect"
import type { Event } from "../../../event/Event.ts"
import type { AppendExit } from "../../Journal.ts"
import { isRefusedData, type JournalError } from "../../JournalError.ts"
import { duplicate } from "../../stream/BulkSlices.ts"
import { CommitBatch, CommitScheduler } from "../../stream/CommitBatch.ts"
import { type DuplicateKey, keyOf } from "../../stream/DuplicateKey.ts"
import { Origin } from "../../stream/Record.ts"

/** The result of a group's commit. Places are positions in the group. */
export interface Stored {
  /** The sequence of its first event. It is 0 if nothing was stored, because all events were duplicates. */
  readonly first: number
  /** The timeline of the server that stored it. */
  readonly timeline: number
  readonly void: ReadonlyArray<number>
  /** Places of events whose id arrived earlier with other bytes. */
  readonly altered: ReadonlyArray<number>
}

/** A commit's events, with the keys of its deliveries. */
export class Group {
  readonly batch = new CommitBatch()
  /** The commit's identity. It is stored with the group's row, and each try has the same one. */
  commit = crypto.randomUUID()
  /** The keys of its deliveries, as the database compares them. `places` has the positions of their events. */
  readonly keys = {
    lo: [] as number[],
    hi: [] as number[],
    crc: [] as number[],
    places: [] as number[],
  }
  readonly #known = new Map<number, Array<number>>()
  readonly isVoid = new Set<number>()
  /** Set if the events were committed one by one and the database refused one. Such a group isn't reused. */
  refusal: AppendExit | undefined

  constructor() {
    this.clear()
  }

  /** Reports whether the group holds the same delivery, or another delivery with the same id and other bytes. */
  find({ hi, lo, bodyCrc }: DuplicateKey): "new" | "same" | "altered" {
    const { keys } = this
    const like = this.#known.get(lo | 0)?.filter((index) => keys.hi[index] === (hi | 0)) ?? []
    if (like.length === 0) return "new"
    return like.some((index) => keys.crc[index] === (bodyCrc | 0)) ? "same" : "altered"
  }

  add(event: Event, sinks: ReadonlyArray<string>, origin: Origin, key: DuplicateKey): number {
    const place = this.batch.entries.length
    if (origin === Origin.delivered) {
      const index = this.keys.lo.length
      const lo = key.lo | 0
      this.keys.lo.push(lo)
      this.keys.hi.push(key.hi | 0)
      this.keys.crc.push(key.bodyCrc | 0)
      this.keys.places.push(place)
      const known = this.#known.get(lo)
      if (known === undefined) this.#known.set(lo, [index])
      else known.push(index)
    }
    this.batch.add(event, sinks, origin, key)
    return place
  }

  clear(): void {
    this.batch.clear(0)
    this.commit = crypto.randomUUID()
    for (const list of Object.values(this.keys)) list.length = 0
    this.#known.clear()
    this.isVoid.clear()
  }
}

/** Maximum groups in the queue. Beyond it the database is too slow, and appends are refused. */
const maxWaiting = 8

/** Small groups are the expensive ones: each commit costs a round trip and work on the server. */
const timing = { enough: 64, gap: 3 }

export type CommitExit = Exit.Exit<Stored, JournalError>

/** A group, with the function that commits it and whatever belongs to the same transaction. */
interface Work {
  readonly group: Group
  readonly commit: (group: Group) => Promise<CommitExit>
}

/** An entry in the queue of groups. It stops commits until it is resumed. */
interface Pause {
  readonly group?: undefined
  readonly passed: () => Promise<void>
}

const appended: AppendExit = Exit.succeed("appended")

interface AppendsOptions {
  readonly commit: (group: Group) => Promise<CommitExit>
  /**
   * Called if the database refused an event's data and stored the rest of its group. It runs before the event's
   * callers get their answer.
   */
  readonly refused: (event: Event, exit: AppendExit) => void
  /** Called after a commit that took `millis` milliseconds, before the group's callers get their answer. */
  readonly stored: (group: Group, stored: Stored, millis: number) => void
}

/** The appends to one stream: the open group, the group that is being committed and the groups behind it. */
export class Appends {
  readonly #options: AppendsOptions
  readonly #scheduler = new CommitScheduler(
    () => this.flush(),
    () => this.#open.batch.entries.length,
    timing,
  )
  /** Sealed groups; the first is being committed. */
  readonly #waiting: Array<Work | Pause> = []
  readonly #free: Array<Group> = []
  #open = new Group()
  #running = false
  #idle = Promise.resolve()

  constructor(options: AppendsOptions) {
    this.#options = options
  }

  get isOverloaded(): boolean {
    return this.#waiting.length >= maxWaiting && this.#open.batch.isFull
  }

  /** Returns the uncommitted group that holds this very delivery. */
  find(key: DuplicateKey): Group | undefined {
    if (this.#open.find(key) === "same") return this.#open
    return this.#waiting.find(({ group }) => group?.find(key) === "same")?.group
  }

  /** Adds a delivery to the open group. `added` is the event as the group stores it. */
  add(
    event: Event,
    sinks: ReadonlyArray<string>,
    key: DuplicateKey,
  ): { readonly group: Group; readonly place: number; readonly added: Event } {
    // Earlier groups need no check: the database knows them by the time it gets this one.
    const isAltered = this.#open.find(key) === "altered"
    const group = this.#open
    const added = isAltered ? { ...event, altered: true } : event
    const place = group.add(added, sinks, Origin.delivered, key)
    if (group.batch.isFull) this.#seal()
    else if (place + 1 === timing.enough) this.flush()
    else this.#scheduler.joined()
    return { group, place, added }
  }

  /** Commits a caller's group by its own statement, after the groups in the queue. */
  commit(work: Work): Promise<CommitExit> {
    this.#seal()
    return new Promise((resolve) => {
      let exit: CommitExit | undefined
      this.#waiting.push({
        group: work.group,
        commit: async (group) => {
          exit = await work.commit(group)
          return exit
        },
      })
      work.group.batch.onDone(() => {
        if (exit !== undefined) resolve(exit)
      })
      this.#run()
    })
  }

  /** Resolves once no commit is running, with a function that resumes commits. */
  pause(): Promise<() => void> {
    return new Promise((resolve) => {
      this.#waiting.push({ passed: () => new Promise<void>((resume) => resolve(resume)) })
      this.#run()
    })
  }

  /** Commits the open group immediately, or as soon as the running commit has ended. */
  flush(): void {
    this.#scheduler.flushed()
    if (!this.#running) this.#seal()
  }

  /** Waits until everything that was added is committed or refused. */
  async drain(): Promise<void> {
    this.#seal()
    while (this.#running) await this.#idle
  }

  #seal(): void {
    this.#scheduler.flushed()
    if (this.#open.batch.isEmpty) return
    this.#waiting.push({ group: this.#open, commit: this.#options.commit })
    this.#open = this.#free.pop() ?? new Group()
    this.#run()
  }

  #run(): void {
    if (this.#running) return
    this.#running = true
    this.#idle = this.#runAll().finally(() => {
      this.#running = false
      if (this.#waiting.length > 0) this.#run()
      else if (!this.#open.batch.isEmpty) this.#scheduler.joined()
    })
  }

  /** Commits each event of a group separately, because the database refused one event's data. */
  async #oneByOne(group: Group): Promise<void> {
    for (const [place, { event, sinks }] of group.batch.entries.entries()) {
      const single = new Group()
      single.add(event, sinks, Origin.delivered, keyOf(event))
      const started = performance.now()
      const exit = await this.#options.commit(single)
      if (Exit.isFailure(exit)) {
        group.refusal = Exit.failCause(exit.cause)
        this.#options.refused(event, group.refusal)
      } else {
        if (exit.value.void.length > 0) group.isVoid.add(place)
        this.#options.stored(single, exit.value, performance.now() - started)
      }
    }
  }

  async #runAll(): Promise<void> {
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      if (next.group === undefined) {
        await next.passed()
        this.#waiting.shift()
        continue
      }
      const { group, commit } = next
      const started = performance.now()
      const exit = await commit(group)
      const ended = performance.now()
      const count = group.batch.entries.length
      const isSplit = count > 1 && commit === this.#options.commit && isOfData(exit)
      if (isSplit) await this.#oneByOne(group)
      else if (Exit.isSuccess(exit)) {
        for (const place of exit.value.void) group.isVoid.add(place)
        this.#options.stored(group, exit.value, ended - started)
      }
      this.#waiting.shift()
      // Events that arrived meanwhile count together with this commit's.
      this.#scheduler.committed(count + this.#open.batch.entries.length, ended)
      group.batch.finish(isSplit || Exit.isSuccess(exit) ? appended : Exit.failCause(exit.cause), 0)
      if (group.refusal !== undefined) continue
      group.clear()
      if (this.#free.length < 2) this.#free.push(group)
    }
  }
}

/** The result of an event of a group. */
export const exitOf = (exit: AppendExit, group: Group, place: number): AppendExit =>
  Exit.isSuccess(exit) && group.isVoid.has(place) ? duplicate : exit

/** Reports whether an event's data caused the failure, so that the rest of its group can be stored. */
const isOfData = (exit: CommitExit): boolean =>
  Exit.isFailure(exit) && Option.exists(Cause.findErrorOption(exit.cause), isRefusedData)
