/**
 * This relay in the fleet: the fleet, which owns the streams, and the writer of its appends. Each needs the
 * other: an append goes to a stream that the fleet owns, and emptying a lane appends its events again.
 */
import { Clock, Duration, Effect, type Scope, Semaphore } from "effect"
import { repeating } from "../../../event/Rounds.ts"
import { type JournalError, unavailable } from "../../JournalError.ts"
import { sharedStream } from "../../Sequences.ts"
import type { SearchIds } from "../../stream/SearchIds.ts"
import { empty } from "../append/LaneEmptying.ts"
import { StreamWriter } from "../append/StreamWriter.ts"
import type { WriteTrouble } from "../connection/WriteTrouble.ts"
import { KnownRows } from "../tables/KnownRows.ts"
import { type Fleet, type FleetOptions, make as makeFleet } from "./Fleet.ts"
import type { RedAlarm } from "./RedAlarm.ts"

/**
 * In milliseconds. If the last heartbeat is older, the database doesn't answer. This is reported before appends
 * are refused.
 */
const answersWithin = 2_500

/**
 * Knows from this relay's heartbeats whether PostgreSQL answers. Other statements would have to wait for a timeout
 * first. Reports whether PostgreSQL answers, and ends work that waits for it.
 */
class Silence {
  readonly #fleet: Fleet
  readonly #wall: () => number
  #since = 0

  /** `wall` gives epoch milliseconds. */
  constructor(fleet: Fleet, wall: () => number) {
    this.#fleet = fleet
    this.#wall = wall
  }

  /** When PostgreSQL last answered, in epoch milliseconds, or `undefined` while it answers. */
  get answeredAt(): number | undefined {
    const { beatAge } = this.#fleet
    if (beatAge <= answersWithin) this.#since = 0
    else if (this.#since === 0) this.#since = this.#wall() - Math.round(beatAge)
    return this.#since === 0 ? undefined : this.#since
  }

  /** Why PostgreSQL counts as unavailable; empty while it answers. */
  get message(): string {
    const { answeredAt } = this
    return answeredAt === undefined
      ? ""
      : `PostgreSQL has not answered since ${new Date(answeredAt).toISOString()}: deliveries are refused until it does. The status is from that time.`
  }

  /** Fails immediately while PostgreSQL doesn't answer, so that nobody waits for its timeouts. */
  readonly asking = <A, R>(effect: Effect.Effect<A, JournalError, R>): Effect.Effect<A, JournalError, R> =>
    Effect.suspend(() => (this.answeredAt === undefined ? effect : Effect.fail(unavailable(this.message))))

  /** Also ends as soon as PostgreSQL is seen not to answer. For questions that may be repeated. */
  readonly askingAgain = <A, R>(effect: Effect.Effect<A, JournalError, R>): Effect.Effect<A, JournalError, R> => {
    const falls = Effect.forever(Effect.andThen(this.asking(Effect.void), Effect.sleep("250 millis")))
    return this.asking(Effect.raceFirst(effect, falls))
  }
}

/** Maximum time for the last commits when the relay stops. */
const drainWithin = Duration.seconds(3)
/** Milliseconds between two reads of others' appends to the shared stream, with sinks that need it and without. */
const pollEvery = 25
const pollIdly = 1_000

/**
 * The requirements for joining: the database, this relay's name, and callbacks for losses and for another relay
 * with the name.
 */
interface MemberOptions extends Pick<FleetOptions, "db" | "name" | "onReplaced"> {
  readonly alarm: RedAlarm
  readonly trouble: WriteTrouble
  readonly searchIds: SearchIds
}

/** This relay, once it has joined. */
export interface Member {
  readonly fleet: Fleet
  readonly writer: StreamWriter
  readonly silence: Silence
  /** Reports whether the relay is stopping. */
  readonly isClosed: () => boolean
}

/** Joins the fleet. When the scope closes, it leaves the fleet once the last commits have ended. */
export const join = Effect.fnUntraced(function* ({
  alarm,
  trouble,
  searchIds,
  ...options
}: MemberOptions): Effect.fn.Return<Member, JournalError, Scope.Scope> {
  const { db } = options
  const clock = yield* Clock.Clock
  const scope = yield* Effect.scope
  const run = Effect.runForkWith(yield* Effect.context<never>())
  /** Held while the shared stream is read into memory or its lanes are changed. */
  const oneOfShared = yield* Semaphore.make(1)
  let isClosed = false

  const owner: FleetOptions["owner"] = {
    opened: (sink, { renamedFrom, exclusive }) =>
      Effect.suspend(() => {
        if (exclusive !== undefined) writer.setExclusive(sink, exclusive)
        // The pause of a renamed lane is kept.
        if (renamedFrom === undefined || renamedFrom === sink) return Effect.void
        const pause = fleet.pauseOf(renamedFrom)
        if (pause.paused === false && pause.mute === undefined) return Effect.void
        return silence.askingAgain(fleet.setPause(sink, pause))
      }),
    empty: (stream, from) => empty(stream, writer, from),
    exclusively: (stream, work) => {
      if (stream === fleet.own) return writer.exclusively(work)
      return stream.id === sharedStream ? oneOfShared.withPermit(work) : work
    },
    damaged: (sequence) => {
      run(alarm.raiseDamaged(sequence))
    },
  }
  // Each relay reports losses of its own appends to the shared stream.
  const toShared = new KnownRows()
  const fleet: Fleet = yield* makeFleet({
    ...options,
    owner,
    toShared,
    onLost: (known, own) => {
      run(Effect.forkIn(alarm.raiseLost(known, own), scope))
    },
  })
  const writer = new StreamWriter({
    db,
    searchIds,
    toShared,
    trouble,
    own: () => fleet.own,
    sign: () => fleet.sign,
    isClosed: () => isClosed,
    waitingInShared: (sink) => fleet.waitingInShared(sink),
  })
  const silence = new Silence(fleet, () => clock.currentTimeMillisUnsafe())

  yield* Effect.acquireRelease(fleet.join, () =>
    Effect.gen(function* () {
      isClosed = true
      yield* Effect.timeoutOption(
        Effect.promise(() => writer.drain()),
        drainWithin,
      )
      yield* fleet.leave
    }),
  )
  yield* fleet.run

  /** Reads the events that others append to the shared stream, if this relay delivers it. */
  const poll = Effect.suspend(() => {
    const { shared } = fleet
    const look = shared === undefined ? Effect.void : Effect.ignore(oneOfShared.withPermit(shared.follow))
    return Effect.andThen(look, Effect.sleep(writer.hasExclusive && shared !== undefined ? pollEvery : pollIdly))
  })
  yield* Effect.forkScoped(repeating("reading the shared stream", poll))
  return { fleet, writer, silence, isClosed: () => isClosed }
})
