/**
 * Random histories of two relays on a real PostgreSQL: appends, duplicates, settlements, pruning, takeovers, crashes,
 * and promotions of servers that have all rows or were behind. A model knows which events the promoted server lacks,
 * and the relays must report exactly these.
 */
import { expect } from "bun:test"
import { Duration, Effect, Exit, SubscriptionRef } from "effect"
import type { OwnedStream } from "../../../../src/journal/postgres/lanes/OwnedStream.ts"
import { KnownRows } from "../../../../src/journal/postgres/tables/KnownRows.ts"
import { sharedStream, streamOf } from "../../../../src/journal/Sequences.ts"
import { Draw } from "../../../faults/simulation/Draw.ts"
import { it } from "../../../lib/effect.ts"
import { suiteUnless } from "../../../lib/lacking.ts"
import { reasonToSkip, sharedPostgres } from "../../../parts/Postgres.ts"
import { event, settlement } from "../../samples.ts"
import { openDatabase } from "../database.ts"
import { meanwhile, type Relay, relays, seconds } from "../relays.ts"

const histories = Number(process.env.RELAY_ROUNDS ?? 4)
const steps = 40

/** The events of a commit. */
interface Row {
  readonly first: number
  readonly events: number
  readonly by: Relay
}

const names = ["a", "b"] as const
type Name = (typeof names)[number]

const owned = ({ journal }: Relay) =>
  (journal.streams === undefined ? [] : SubscriptionRef.getUnsafe(journal.streams)) as ReadonlyArray<OwnedStream>

const loss = /lost (?:at least )?(\d+ events) that were answered, (from seq_\d+) on/

/**
 * Plays a history, and returns the number of events that it lost. The relays have a lane that settles often, a lane
 * that is behind, and a lane of the shared stream.
 */
const play = Effect.fnUntraced(function* (seed: number) {
  const draw = new Draw(seed, "known rows")
  const { start, sql, remember, promote } = yield* relays
  // In some histories everything that is settled is pruned within a second, and in some nothing is.
  const retention = draw.chance(0.7) ? Duration.seconds(1) : Duration.days(36_525)
  const live = new Map<Name, Relay>()
  const frozen = new Set<Name>()
  let history: ReadonlySet<Row> = new Set()
  let behind: ReadonlySet<Row> | undefined
  const expected = new Set<string>()
  const said = new Set<string>()
  let [timeline, sent, lost] = [1, 0, 0]

  const join = Effect.fnUntraced(function* (name: Name) {
    const relay = yield* meanwhile(start(name, retention))
    relay.journal.knowSinks?.([{ name: "lake" }, { name: "audit" }, { name: "ordered", exclusive: true }])
    live.set(name, relay)
  })
  const awake = () => names.flatMap((name) => (frozen.has(name) ? [] : (live.get(name) ?? [])))

  /** Appends up to three events in one commit. Some are duplicates. */
  const append = Effect.gen(function* () {
    const [first, ...rest] = awake()
    if (first === undefined) return
    const by = draw.pick([first, ...rest])
    const sinks = [draw.pick(["lake", "audit", "ordered", "ordered"])]
    const ids = Array.from({ length: draw.int(1, 3) }, () => (draw.chance(0.2) ? draw.int(0, sent) : ++sent))
    const all = yield* Effect.forEach(
      new Set(ids),
      (id) => Effect.exit(by.journal.append(event(`e${id}`, { receivedAt: 0 }), sinks)),
      { concurrency: "unbounded" },
    )
    const events = all.filter((exit) => Exit.isSuccess(exit) && exit.value === "appended").length
    if (events === 0) return
    const stream = sinks[0] === "ordered" ? sharedStream : streamOf(yield* by.journal.head)
    const rows = yield* sql(`SELECT max(first) AS first FROM relay.log WHERE first >> 42 = ${stream}`)
    history = new Set([...history, { first: Number(rows[0]?.first), events, by }])
  })

  const settle = Effect.gen(function* () {
    const lanes = draw.chance(0.3) ? ["lake", "audit", "ordered"] : ["lake", "ordered"]
    for (const stream of awake().flatMap(owned)) {
      const due = [...stream.backlogs.keys()].filter((lane) => lanes.includes(lane))
      yield* Effect.exit(stream.settle(due.map((lane) => settlement(lane, stream.end))))
    }
  })

  const freeze = (name: Name) => {
    live.get(name)?.freeze()
    frozen.add(name)
  }
  const thaw = () => {
    for (const name of frozen) live.get(name)?.thaw()
    frozen.clear()
  }

  /** Names the relay's knowledge of a row. Relays know their streams, and their own appends to the shared stream. */
  const knownBy = ({ first, by }: Row) => {
    const relays = [...live.values()]
    const stream = streamOf(first)
    if (stream === sharedStream) return relays.includes(by) ? `shared by ${relays.indexOf(by)}` : undefined
    return relays.some((relay) => owned(relay).some(({ id, isLost }) => id === stream && !isLost))
      ? `own ${stream}`
      : undefined
  }

  const promoted = Effect.gen(function* () {
    const isBehind = behind !== undefined && draw.chance(0.8)
    timeline += draw.int(1, 2)
    if (behind !== undefined && isBehind) {
      const losses = new Map<string, Array<Row>>()
      for (const row of history) {
        const knower = behind.has(row) ? undefined : knownBy(row)
        if (knower !== undefined) losses.set(knower, [...(losses.get(knower) ?? []), row])
      }
      for (const rows of losses.values()) {
        const events = rows.reduce((sum, { events }) => sum + events, 0)
        lost += events
        expected.add(`${events} events from seq_${Math.min(...rows.map(({ first }) => first))}`)
      }
      history = behind
    }
    yield* promote(timeline, isBehind)
    if (frozen.size === 0 && draw.chance(0.7)) freeze(draw.pick(names))
    // The frozen relay hears of the promotion only after others have used the lost sequences again and pruned those
    // events.
    if (draw.chance(0.7)) {
      yield* seconds(draw.pick([2, 9]))
      for (let more = draw.int(4, 12); more > 0; more--) yield* append
      yield* seconds(1)
      yield* settle
      yield* seconds(2)
    }
    thaw()
    yield* seconds(draw.pick([0, 9]))
    yield* named
  })

  const named = Effect.gen(function* () {
    thaw()
    yield* seconds(3)
    for (const { journal } of live.values()) {
      for (const line of (yield* journal.status).alarm.lines) said.add(loss.exec(line)?.slice(1).join(" ") ?? line)
    }
    expect({ seed, said: [...said].sort() }).toEqual({ seed, said: [...expected].sort() })
  })

  for (const name of names) yield* join(name)
  for (let step = 0; step < steps; step++) {
    const what = draw.next()
    const name = draw.pick(names)
    if (what < 0.5) yield* append
    else if (what < 0.65) yield* settle
    else if (what < 0.75) yield* seconds(draw.int(1, 3))
    else if (what < 0.8) {
      // Nine seconds are enough for the other relay to take over the streams, and one is not.
      if (frozen.size > 0) thaw()
      else freeze(name)
      yield* seconds(draw.pick([1, 9]))
    } else if (what < 0.84) {
      // The relay ends without notice, and starts again.
      if (!frozen.has(name)) live.get(name)?.freeze()
      live.delete(name)
      frozen.delete(name)
      yield* join(name)
      // The other relay must hear that the streams are owned again. If two relays owned a stream, both would count its
      // losses.
      yield* seconds(2)
    } else if (what < 0.93) {
      yield* remember
      behind = history
    } else yield* promoted
  }
  yield* named
  return lost
})

suiteUnless(reasonToSkip(), "what relays know of rows", () => {
  it.effect("counts from the end of the promoted server's log, whatever was appended and pruned since", function* () {
    const { schema, sql, start, promote } = yield* relays
    const { journal } = yield* start("a")
    yield* journal.append(event("one"), ["lake"])
    yield* promote(2)
    yield* seconds(3)
    for (const id of ["two", "three"]) yield* journal.append(event(id), ["lake"])
    yield* sql("INSERT INTO relay.pruned (stream, timeline, last, void) VALUES (0, 2, 7, 1)")
    const { url } = yield* Effect.promise(sharedPostgres)
    const known = new KnownRows()
    known.push({ first: 5, timeline: 1, events: 1, commit: null })
    const lost = yield* known.takeLost(yield* openDatabase(url, { schema }), { floor: 0, accepted: 5 })
    expect(lost).toEqual({ events: 4, from: 2, isPart: false })
  })

  it.effect(
    "names what a failover lost, and nothing that was pruned or is there",
    function* () {
      let lost = 0
      for (let seed = 1; seed <= histories; seed++) lost += yield* Effect.scoped(play(seed))
      expect(lost).toBeGreaterThan(0)
    },
    histories * 60_000,
  )
})
