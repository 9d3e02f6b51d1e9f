/**
 * Appends to a stream: events join the open group, and while one group is under
 * way to the database the next one fills.
 *
 * **Guarantee.** Groups are committed one after the other, in the order in which
 * they were filled. Who waits hears of a commit only after it. If the database
 * refuses the data of an event, the others of its group are stored.
 */
import { Cause, Exit, Option } from "effect"
import type { Event } from "../../../event/Event.ts"
import type { AppendExit } from "../../Journal.ts"
import { isRefusedData, type JournalError } from "../../JournalError.ts"
import { CommitScheduler } from "../../stream/CommitScheduler.ts"
import { type DuplicateKey, keyOf } from "../../stream/DuplicateKey.ts"
import { duplicate } from "../../stream/Reappended.ts"
import { Origin } from "../../stream/Record.ts"
import { Group, type Stored } from "./Group.ts"

/** Groups that wait at most: beyond it the database does not keep up, and appends are refused. */
const maxWaiting = 8

/** A commit is a round trip and the server's work: small groups are the cost. */
const timing = { enough: 64, gap: 3 }

export type CommitExit = Exit.Exit<Stored, JournalError>

/** A group, and what is done in the same transaction. */
export interface Work {
  readonly group: Group
  readonly commit: (group: Group) => Promise<CommitExit>
}

/** Waits in line with the groups. */
interface Pause {
  readonly group?: undefined
  readonly passed: () => Promise<void>
}

const appended: AppendExit = Exit.succeed("appended")

export interface AppendsOptions {
  readonly commit: (group: Group) => Promise<CommitExit>
  /** The database refused the data of an event whose group is stored: called before those who wait for it. */
  readonly refused: (event: Event, exit: AppendExit) => void
  /** A group was committed in so many milliseconds: called before those who wait for it. */
  readonly stored: (group: Group, stored: Stored, millis: number) => void
}

/** The appends to one stream: the open group, and those that wait behind the one under way. */
export class Appends {
  readonly #options: AppendsOptions
  readonly #scheduler = new CommitScheduler(
    () => this.flush(),
    () => this.#open.batch.entries.length,
    timing,
  )
  /** The groups that are sealed; the first is under way. */
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

  /** The group that holds this very delivery, and has not been committed. */
  find(key: DuplicateKey): Group | undefined {
    if (this.#open.find(key) === "same") return this.#open
    return this.#waiting.find(({ group }) => group?.find(key) === "same")?.group
  }

  /** Adds a delivery to the open group; `added` is its event as the group has it. */
  add(
    event: Event,
    sinks: ReadonlyArray<string>,
    key: DuplicateKey,
  ): { readonly group: Group; readonly place: number; readonly added: Event } {
    // The database knows of the groups before by then.
    const isAltered = this.#open.find(key) === "altered"
    const group = this.#open
    const added = isAltered ? { ...event, altered: true } : event
    const place = group.add(added, sinks, Origin.delivered, key)
    if (group.batch.isFull) this.#seal()
    else if (place + 1 === timing.enough) this.flush()
    else this.#scheduler.joined()
    return { group, place, added }
  }

  /** Commits a group of the caller's by its own statement, after those that wait. */
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

  /** Resolves once nothing is under way, with a function by which commits go on. */
  pause(): Promise<() => void> {
    return new Promise((resolve) => {
      this.#waiting.push({ passed: () => new Promise<void>((resume) => resolve(resume)) })
      this.#run()
    })
  }

  /** The open group goes, unless one is under way: then it goes as soon as that has ended. */
  flush(): void {
    this.#scheduler.flushed()
    if (!this.#running) this.#seal()
  }

  /** Waits until all that was added has ended. */
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

  /** Commits each event of a group by itself, because the database refused the data of an event. */
  async #oneByOne(group: Group): Promise<void> {
    for (const [place, { event, sinks }] of group.batch.entries.entries()) {
      const one = new Group()
      one.add(event, sinks, Origin.delivered, keyOf(event))
      const started = performance.now()
      const exit = await this.#options.commit(one)
      if (Exit.isFailure(exit)) {
        group.refusal = Exit.failCause(exit.cause)
        this.#options.refused(event, group.refusal)
      } else {
        if (exit.value.void.length > 0) group.isVoid.add(place)
        this.#options.stored(one, exit.value, performance.now() - started)
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
      // Events that have come meanwhile come together with it.
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

/** Whether the data of an event are at fault, so that the others of its group can be stored. */
const isOfData = (exit: CommitExit): boolean =>
  Exit.isFailure(exit) && Option.exists(Cause.findErrorOption(exit.cause), isRefusedData)
