/**
 * One replay, or its dry run. It reads the selected events, oldest first, and
 * appends each again for its sinks. A dry run reads the same events and only counts,
 * so the two agree.
 *
 * **Guarantee.** It ends, because it stops at the newest event at its start and
 * leaves out copies made by replays. It holds only one page of events, however many
 * match. It gives way to ingest: it waits while a sink has many pending events or
 * the journal has little space. It searches for at most half of the time, and
 * appends for at most a quarter of it.
 */
import { Cause, Clock, Duration, Effect, Exit, Result, Schedule } from "effect"
import type { RelayConfig } from "../../config/Config.ts"
import type { Archive, DeliveryStatus, EventPage, EventQuery, FoundEvent, ReplayCounts } from "../../journal/Archive.ts"
import { deliveryMatchOf, nextQuery } from "../../journal/EventQuery.ts"
import type { JournalError } from "../../journal/Journal.ts"
import { Refused } from "../api/ApiParts.ts"
import { named } from "../api/EventSelection.ts"
import { NewerEvents } from "./NewerEvents.ts"
import { type LeftOut, paceOf, type Replay, type ReplayRequest, roomAt, Summary } from "./ReplayReport.ts"

/** The number of events in one search. */
const pageSize = 256
const waitFor = Duration.millis(250)
/** The rest after a commit, as a multiple of the commit's duration. */
const restAfter = 3
/** Failures of the journal that are temporary. */
const passing: ReadonlySet<string> = new Set<JournalError["reason"]["_tag"]>(["JournalUnavailable", "JournalFull"])

interface RunOptions {
  readonly id: string
  readonly archive: Archive["Service"]
  /** The active config. */
  readonly config: () => RelayConfig
  readonly request: ReplayRequest
  readonly onProgress: (share: number) => void
}

interface Planned {
  readonly found: FoundEvent
  readonly sinks: ReadonlyArray<string>
}

export class ReplayRun {
  readonly #options: RunOptions
  readonly #summary = new Summary()
  /** Used by a dry run. */
  readonly #newer: NewerEvents
  #newerCounts: Replay["newer"] = []
  readonly #query: EventQuery
  readonly #isSelected: (delivery: DeliveryStatus) => boolean
  readonly #through: string
  readonly #startedAt: number
  /** Events that the log held at the start. */
  readonly #held: number
  #looked = 0
  #reached: string
  #state: Replay["state"] = "running"
  #message = ""
  #endedAt: number | undefined

  private constructor(options: RunOptions, at: { readonly held: number; readonly end: string; readonly now: number }) {
    const { id, after = "", through = at.end, ...selection } = options.request.events
    this.#options = options
    this.#newer = new NewerEvents(options.request.dryRun === true ? options.config().sinks : [])
    this.#through = through
    this.#startedAt = at.now
    this.#held = at.held
    this.#reached = after
    this.#query = {
      ...selection,
      ...(id !== undefined && named(id)),
      after,
      through,
      ...(this.#newer.isNeeded && { bodies: true }),
      limit: pageSize,
    }
    this.#isSelected = deliveryMatchOf(this.#query) ?? (() => true)
  }

  static readonly make = Effect.fnUntraced(function* (options: RunOptions) {
    const { archive } = options
    const { head, first } = yield* archive.status
    const end = yield* archive.end
    return new ReplayRun(options, { held: head + 1 - first, end, now: yield* Clock.currentTimeMillis })
  })

  get hasEnded(): boolean {
    return this.#endedAt !== undefined
  }

  get report(): Replay {
    const { id, request } = this.#options
    return {
      id,
      events: { ...request.events, through: this.#through },
      to: request.to,
      dryRun: request.dryRun === true,
      ...(request.rate !== undefined && { rate: request.rate }),
      state: this.#state,
      message: this.#message,
      startedAt: this.#startedAt,
      ...(this.#endedAt !== undefined && { endedAt: this.#endedAt }),
      share: this.#share,
      reached: this.#reached,
      ...this.#summary.counts,
      newer: this.#newerCounts,
    }
  }

  get #share(): number {
    return this.#state === "finished" ? 1 : Math.min(0.99, this.#looked / Math.max(1, this.#held))
  }

  /** Runs to the end. The report includes the end, however it happens. */
  readonly run: Effect.Effect<void> = Effect.suspend(() => this.#walk()).pipe(
    Effect.onExit((exit) => Effect.map(Clock.currentTimeMillis, (now) => this.#end(exit, now))),
    Effect.exit,
    Effect.asVoid,
  )

  #end(exit: Exit.Exit<void, JournalError | Refused>, now: number): void {
    this.#endedAt = now
    this.#message = ""
    if (Exit.isSuccess(exit)) this.#state = "finished"
    else if (Cause.hasInterruptsOnly(exit.cause)) this.#state = "cancelled"
    else {
      this.#state = "failed"
      this.#message = Result.match(Cause.findError(exit.cause), {
        onSuccess: ({ message }) => message,
        onFailure: () => "internal error; the log has the cause, please report it",
      })
    }
  }

  readonly #walk = Effect.fnUntraced({ self: this }, function* (this: ReplayRun): Effect.fn.Return<
    void,
    JournalError | Refused
  > {
    for (let query = this.#query; ; ) {
      const look: Effect.Effect<EventPage, JournalError> = this.#options.archive.events(query)
      const [took, page] = yield* this.#patiently(Effect.timed(look))
      for (let rest = page.events; rest.length > 0; ) rest = yield* this.#take(rest)
      this.#looked += page.looked
      this.#reached = page.next ?? this.#through
      this.#options.onProgress(this.#share)
      if (page.next === undefined) break
      query = nextQuery(query, page.next)
      yield* Effect.sleep(took)
    }
    this.#newerCounts = yield* this.#newer.count(this.#options.archive)
  })

  /** Retries while the journal is unavailable or full. */
  readonly #patiently = <A>(effect: Effect.Effect<A, JournalError>): Effect.Effect<A, JournalError> =>
    effect.pipe(
      Effect.tapError(({ message }) => this.#wait(message)),
      Effect.retry({ while: ({ reason }) => passing.has(reason._tag), schedule: Schedule.spaced(waitFor) }),
      Effect.tap(() => this.#wait("")),
    )

  /** Sets the reason why the replay waits; empty if it no longer waits. */
  readonly #wait = (message: string) =>
    Effect.sync(() => {
      this.#state = message === "" ? "running" : "waiting"
      this.#message = message
    })

  /** Sends or counts the first of some events. Returns the rest. */
  readonly #take = Effect.fnUntraced({ self: this }, function* (this: ReplayRun, events: ReadonlyArray<FoundEvent>) {
    const isDry = this.#options.request.dryRun === true
    const room = isDry ? events.length : yield* this.#room(events)
    const taken = events.slice(0, room)
    const planned = taken.flatMap((found) => this.#plan(found) ?? [])
    if (isDry) for (const event of planned) this.#note(event)
    else yield* this.#send(planned)
    this.#reached = taken.at(-1)?.place ?? this.#reached
    return events.slice(room)
  })

  /** Counts an event in a dry run. */
  #note({ found, sinks }: Planned): void {
    const { sequence, event, body } = found
    this.#summary.sent(found, sinks)
    if (body !== undefined) this.#newer.add(sequence, { ...event, body }, sinks)
  }

  /** Decides where an event goes. Returns `undefined` if it is left out. */
  #plan(found: FoundEvent): Planned | undefined {
    const why = this.#unfit(found)
    const sinks = why === undefined ? this.#sinksOf(found, (sink) => this.#summary.removedSink(sink)) : []
    if (sinks.length > 0) return { found, sinks }
    this.#summary.leftOut(why ?? "unrouted")
    return undefined
  }

  #unfit({ origin, event }: FoundEvent): LeftOut | undefined {
    if (origin !== "delivered" && this.#query.sequence === undefined) return "copies"
    if (event.erased !== undefined) return "erased"
    return event.problem === undefined ? undefined : "quarantined"
  }

  /** Returns the sinks of an event. A renamed sink has its new name. */
  #sinksOf({ deliveries }: FoundEvent, onRemoved: (sink: string) => void = () => {}): ReadonlyArray<string> {
    const { to } = this.#options.request
    if (to !== "routed") return [to.sink]
    const { sinks } = this.#options.config()
    const found = new Set<string>()
    for (const delivery of deliveries) {
      if (!this.#isSelected(delivery)) continue
      const { sink } = delivery
      const now = sinks.find(({ name }) => name === sink) ?? sinks.find(({ renamedFrom }) => renamedFrom === sink)
      if (now === undefined) onRemoved(sink)
      else found.add(now.name)
    }
    return [...found]
  }

  /** Returns how many of these events fit now. Waits until at least one fits. */
  readonly #room = Effect.fnUntraced({ self: this }, function* (this: ReplayRun, events: ReadonlyArray<FoundEvent>) {
    const { archive, config } = this.#options
    for (;;) {
      const fit = events.filter((found) => this.#unfit(found) === undefined)
      const sinks = new Set(fit.flatMap((found) => this.#sinksOf(found)))
      const { filling } = yield* archive.status
      const targets: Array<RelayConfig["sinks"][number]> = []
      for (const sink of sinks) {
        const target = config().sinks.find(({ name }) => name === sink)
        if (target === undefined) return yield* new Refused({ message: `the sink ${sink} is no longer in the config` })
        targets.push(target)
      }
      const room = yield* roomAt(archive, targets)
      const why = filling === 95 ? "the journal is almost full" : room.why
      yield* this.#wait(why)
      if (why === "") return Math.min(events.length, room.events)
      yield* Effect.sleep(waitFor)
    }
  })

  /** Appends events, one slice per commit, with a rest after each. With a rate, slices and rests are adjusted to it. */
  readonly #send = Effect.fnUntraced(
    { self: this },
    function* (this: ReplayRun, planned: ReadonlyArray<Planned>): Effect.fn.Return<void, JournalError> {
      const pace = paceOf(this.#options.request.rate)
      for (let left = planned; left.length > 0; ) {
        const targets = left.slice(0, pace.most).map(({ found, sinks }) => ({ sequence: found.sequence, sinks }))
        // An appended event is counted even if the replay is cancelled in the meantime.
        const appended = this.#options.archive.replay(targets).pipe(
          Effect.tap((counts) => Effect.sync(() => this.#count(left, counts))),
          Effect.uninterruptible,
        )
        const [took, { done }] = yield* this.#patiently(Effect.timed(appended))
        left = left.slice(done)
        yield* Effect.sleep(Duration.max(Duration.times(took, restAfter), pace.rest(done)))
      }
    },
  )

  #count(planned: ReadonlyArray<Planned>, { done, gone }: ReplayCounts): void {
    const isGone = new Set(gone)
    for (const { found, sinks } of planned.slice(0, done)) {
      if (isGone.has(found.sequence)) this.#summary.leftOut("gone")
      else this.#summary.sent(found, sinks)
      this.#reached = found.place
    }
  }
}
