/**
 * Appends this relay's events to its own stream, or to the shared stream if one relay must deliver all events
 * of a sink.
 */
import { Effect, Exit } from "effect"
import type { Event } from "../../../event/Event.ts"
import type { AppendExit, Appended, KnownSink } from "../../Journal.ts"
import { full, type JournalError, unavailable } from "../../JournalError.ts"
import { asDuplicate, type Reappended } from "../../stream/BulkSlices.ts"
import { keyOf } from "../../stream/DuplicateKey.ts"
import { Origin } from "../../stream/Record.ts"
import type { KnownRows } from "../tables/KnownRows.ts"
import { place, voided } from "../tables/StreamRows.ts"
import { Appends, type CommitExit, exitOf, Group, type Stored } from "./Appends.ts"
import { type Also, Commits, type CommitsOptions } from "./Commits.ts"

const tooSlow: AppendExit = Exit.fail(unavailable("PostgreSQL can't keep up with incoming deliveries. Try again."))
/** The refusal while the relay has no stream to write, for example after a failover. */
export const noStream = unavailable("This relay has no stream to write yet and is claiming one. Try again.")
const withoutStream: AppendExit = Exit.fail(noStream)

export interface WriterOptions extends Omit<CommitsOptions, "formerNames"> {
  /** Records this relay's appends to the shared stream. */
  readonly toShared: KnownRows
  /** Returns the number of undelivered events of a sink in the shared stream. */
  readonly waitingInShared: (sink: string) => number
}

/** Appends events to the stream of their sinks, and counts them. */
export class StreamWriter {
  readonly counters = { appended: 0, duplicates: 0, altered: 0, commits: 0, commitMillis: 0 }
  /** Returns why appends are refused, or `undefined` while they are accepted. */
  refusal: () => AppendExit | undefined = () => undefined

  readonly #options: WriterOptions
  readonly #commits: Commits
  readonly #refusals = new WeakMap<Event, AppendExit>()
  readonly #own: Appends
  readonly #shared: Appends
  /** Sinks whose events one relay delivers. */
  readonly #exclusive = new Set<string>()
  /** The former name of each renamed sink, by its present name. */
  #formerNames: ReadonlyMap<string, string> = new Map()
  #last: { readonly sinks: ReadonlyArray<string>; readonly isShared: boolean } | undefined

  constructor(options: WriterOptions) {
    this.#options = options
    this.#commits = new Commits({ ...options, formerNames: () => this.#formerNames })
    const refused = (event: Event, exit: AppendExit) => void this.#refusals.set(event, exit)
    this.#own = new Appends({
      refused,
      commit: (group) => this.#commits.toOwn(group),
      stored: (group, stored, millis) => this.#stored(group, stored, millis, false),
    })
    this.#shared = new Appends({
      refused,
      commit: (group) => this.#commits.toShared(group),
      stored: (group, stored, millis) => this.#stored(group, stored, millis, true),
    })
  }

  get hasExclusive(): boolean {
    return this.#exclusive.size > 0
  }

  /**
   * Call it before any event is routed to the sinks: an event must not overtake events with its key in the
   * shared stream.
   */
  knowSinks(sinks: ReadonlyArray<KnownSink>): void {
    this.#formerNames = new Map(
      sinks.flatMap(({ name, renamedFrom = name }) => (renamedFrom === name ? [] : [[name, renamedFrom]])),
    )
    for (const { name, exclusive } of sinks) this.setExclusive(name, exclusive === true)
  }

  setExclusive(sink: string, isExclusive: boolean): void {
    if (isExclusive) this.#exclusive.add(sink)
    else this.#exclusive.delete(sink)
    this.#last = undefined
  }

  isShared(sinks: ReadonlyArray<string>): boolean {
    if (this.#exclusive.size === 0) return false
    // The router gives the same array for the same type.
    if (this.#last?.sinks === sinks) return this.#last.isShared
    const isShared = sinks.some((sink) => this.#exclusive.has(sink))
    this.#last = { sinks, isShared }
    return isShared
  }

  appendUnsafe(event: Event, sinks: ReadonlyArray<string>): AppendExit | Promise<AppendExit> {
    const offered = this.#offer(event, sinks)
    if (offered instanceof Promise || Exit.isExit(offered)) return offered
    const { promise } = offered.group.batch
    // Returns the group's promise itself, because ingest has one timer for all events of a commit.
    return offered.added === event ? promise : promise.then((exit) => this.refusalOf(offered.added) ?? exit)
  }

  refusalOf(event: Event): AppendExit | undefined {
    return this.#refusals.get(event)
  }

  append(event: Event, sinks: ReadonlyArray<string>): Effect.Effect<Appended, JournalError> {
    return Effect.callback((resume) => {
      const offered = this.#offer(event, sinks)
      if (offered instanceof Promise) offered.then(resume)
      else if (Exit.isExit(offered)) resume(offered)
      else
        offered.group.batch.onDone((exit) =>
          resume(this.refusalOf(offered.added) ?? exitOf(exit, offered.group, offered.place)),
        )
    })
  }

  /** Adds a delivery to the open group. Returns the exit instead if the caller needn't wait. */
  #offer(event: Event, sinks: ReadonlyArray<string>) {
    const refusal = this.refusal()
    if (refusal !== undefined) return refusal
    const own = this.#options.own()
    if (own === undefined && this.#commits.isWithoutStream) return withoutStream
    const isShared = this.isShared(sinks)
    const appends = isShared ? this.#shared : this.#own
    const key = keyOf(event)
    const under = appends.find(key)
    if (under !== undefined) {
      this.counters.duplicates += 1
      // The database refused an event of the group. It may be this one, and then the sender must repeat it.
      return under.batch.promise.then((exit) => under.refusal ?? asDuplicate(exit))
    }
    if (appends.isOverloaded) return tooSlow
    const why = own?.backlogs.whyFull(sinks, event.webhook, isShared ? this.#options.waitingInShared : undefined) ?? ""
    if (why !== "") return Exit.fail(full("backlog", why))
    return appends.add(event, sinks, key)
  }

  /** Runs work while nothing is committed to this relay's own stream. */
  exclusively<A, E>(work: Effect.Effect<A, E>): Effect.Effect<A, E> {
    return Effect.acquireUseRelease(
      Effect.promise(() => this.#own.pause()),
      () => work,
      (resume) => Effect.sync(resume),
    )
  }

  /** Appends entries to one stream, own or shared, in one commit with `also`. */
  reappend(entries: ReadonlyArray<Reappended>, origin: Origin, also?: Also): Effect.Effect<Stored, JournalError> {
    return Effect.suspend(() => {
      const isShared = this.isShared(entries[0]?.sinks ?? [])
      const group = new Group()
      for (const { event, sinks } of entries) {
        const key = keyOf(event)
        if (origin === Origin.delivered && group.find(key) === "same") continue
        group.add(event, sinks, origin, key)
      }
      const commit = (group: Group): Promise<CommitExit> =>
        isShared ? this.#commits.toShared(group, also) : this.#commits.toOwn(group, also)
      const appends = isShared ? this.#shared : this.#own
      return Effect.flatten(Effect.promise(() => appends.commit({ group, commit })))
    })
  }

  async drain(): Promise<void> {
    await Promise.all([this.#own.drain(), this.#shared.drain()])
  }

  #stored(group: Group, stored: Stored, millis: number, isShared: boolean): void {
    const { first, timeline, void: voids } = stored
    const { batch, keys } = group
    const { entries } = batch
    const isAltered = (place: number) => entries[place]?.event.altered === true && keys.places.includes(place)
    const altered = entries.keys().filter((place) => isAltered(place))
    const appended = entries.length - voids.length
    if (first > 0) {
      const row = { first, timeline, events: appended, commit: group.commit }
      if (isShared) this.#options.toShared.push(row)
      else {
        for (const entry of entries) place(entry, first)
        this.#options.own()?.push(voided(entries, stored), row, entries.length, batch.size)
      }
    }
    const { counters } = this
    counters.commits += 1
    counters.commitMillis += millis
    counters.duplicates += voids.length
    counters.appended += appended
    counters.altered += new Set([...stored.altered.filter((place) => !voids.includes(place)), ...altered]).size
  }
}
