/** The database comes back in an earlier state on the same timeline while relays run, as by a snapshot or a dump. */
import { expect } from "bun:test"
import { Effect, SubscriptionRef } from "effect"
import type { Log } from "../../../../src/journal/Journal.ts"
import type { OwnedStream } from "../../../../src/journal/postgres/lanes/OwnedStream.ts"
import { floorOf, sharedStream } from "../../../../src/journal/Sequences.ts"
import { it } from "../../../lib/effect.ts"
import { suiteUnless } from "../../../lib/lacking.ts"
import { reasonToSkip } from "../../../parts/Postgres.ts"
import { event, letter, settlement } from "../../samples.ts"
import { meanwhile, type Relay, relays, seconds } from "../relays.ts"

const owned = ({ journal }: Relay) =>
  (journal.streams === undefined ? [] : SubscriptionRef.getUnsafe(journal.streams)) as ReadonlyArray<Log & OwnedStream>

const shared = (all: ReadonlyArray<Relay>) => all.flatMap(owned).find(({ id }) => id === sharedStream)

const lost = (relay: Relay) =>
  Effect.map(relay.journal.status, ({ alarm }) =>
    alarm.lines.map((line) => /lost (\d+) events .* from (seq_\d+)/.exec(line)?.slice(1)).sort(),
  )

suiteUnless(reasonToSkip(), "a database that went back to an earlier state", () => {
  it.effect("is noticed before anything is stored: each loss is named, and later events are there", function* () {
    const { start, remember, goBack } = yield* relays
    const all = [yield* start("a"), yield* start("b")]
    const [a] = all
    if (a === undefined) throw new Error("no relay")
    for (const { journal } of all) yield* journal.openLane("ordered", { exclusive: true })
    yield* a.journal.openLane("lake")
    yield* seconds(3)
    for (const { journal } of all) yield* journal.append(event("kept"), ["ordered"])
    yield* remember
    yield* seconds(3)
    const append = (id: string) =>
      Effect.forEach(all, ({ journal }, relay) => journal.append(event(`${id} ${relay}`), ["ordered"]))
    for (const id of ["1", "2", "3"]) yield* append(id)
    yield* a.journal.append(event("own"), ["lake"])
    yield* seconds(1)
    const owner = shared(all)
    const end = floorOf(sharedStream) + 7
    yield* owner?.settle([settlement("ordered", end)]) ?? Effect.die("nobody has the shared stream")
    yield* goBack

    const late = yield* Effect.flip(owner?.settle([settlement("ordered", end)]) ?? Effect.void)
    expect(late.reason._tag).toBe("JournalFenced")
    for (const sink of ["ordered", "lake"]) {
      const refused = yield* Effect.flip(a.journal.append(event(`early ${sink}`), [sink]))
      expect(refused.reason._tag).toBe("JournalUnavailable")
    }
    yield* seconds(8)
    for (const id of ["4", "5"]) yield* append(id)
    yield* a.journal.append(event("own"), ["lake"])
    yield* seconds(1)

    const stream = shared(all)
    const lane = yield* stream?.openLane("ordered") ?? Effect.die("nobody has the shared stream")
    expect(lane).toMatchObject({ backlog: 5, cursor: { sequence: floorOf(sharedStream) } })
    const entries = yield* stream?.read(floorOf(sharedStream), 10) ?? Effect.succeed([])
    expect(entries.map((entry) => entry.event.id)).toEqual(["kept", "4 0", "4 1", "5 0", "5 1"])
    expect(yield* a.journal.openLane("lake")).toMatchObject({ backlog: 1 })
    const first = floorOf(sharedStream) + 2
    expect(yield* lost(a)).toEqual([
      ["1", "seq_1"],
      ["3", `seq_${first}`],
      ["3", `seq_${first + 1}`],
    ])
  })

  it.effect(
    "is noticed by a settlement if it has the last heartbeat: new events don't count as delivered",
    function* () {
      const { start, remember, goBack } = yield* relays
      const relay = yield* start("a")
      const { journal } = relay
      yield* journal.openLane("lake")
      yield* seconds(3)
      yield* journal.append(event("kept"), ["lake"])
      yield* seconds(1)
      yield* remember
      // No heartbeat is sent from here on, because no time passes.
      yield* journal.append(event("lost"), ["lake"])
      const [own] = owned(relay)
      yield* goBack
      const late = yield* Effect.flip(own?.settle([settlement("lake", 2)]) ?? Effect.void)
      expect(late.reason._tag).toBe("JournalFenced")
      yield* seconds(8)
      yield* journal.append(event("new"), ["lake"])
      expect(yield* journal.openLane("lake")).toMatchObject({ backlog: 2, cursor: { sequence: 0 } })
    },
  )

  it.effect("is noticed on the shared stream although new events have passed the end of the former log", function* () {
    const { start, remember, goBack } = yield* relays
    const relay = yield* start("a")
    const { journal } = relay
    yield* journal.openLane("ordered", { exclusive: true })
    yield* seconds(3)
    yield* journal.append(event("kept"), ["ordered"])
    yield* seconds(1)
    yield* remember
    // No heartbeat is sent from here on, because no time passes.
    yield* journal.append(event("lost"), ["ordered"])
    const owner = shared([relay]) ?? (yield* Effect.die("nobody has the shared stream"))
    const end = floorOf(sharedStream) + 3
    yield* owner.reach(end - 1)
    yield* goBack
    for (const id of ["new 1", "new 2"]) yield* journal.append(event(id), ["ordered"])
    const late = yield* Effect.flip(Effect.andThen(owner.reach(end), owner.settle([settlement("ordered", end)])))
    expect(late.reason._tag).toBe("JournalFenced")
  })

  it.effect("is noticed by a settlement if it lacks a dead letter: the event is sent again", function* () {
    const { start, remember, goBack } = yield* relays
    const relay = yield* start("a")
    const { journal } = relay
    yield* journal.openLane("lake")
    yield* seconds(3)
    for (const id of ["1", "2"]) yield* journal.append(event(id), ["lake"])
    yield* seconds(1)
    yield* remember
    // No heartbeat is sent from here on, because no time passes.
    yield* journal.settle([settlement("lake", 1, { delivered: [], deadLetter: [letter(1)] })])
    yield* goBack
    const late = yield* Effect.flip(journal.settle([settlement("lake", 2)]))
    expect(late.reason._tag).toBe("JournalFenced")
    yield* seconds(8)
    expect(yield* journal.openLane("lake")).toMatchObject({ backlog: 2, deadLetters: 0, cursor: { sequence: 0 } })
  })

  it.effect("is noticed by an append if it lacks a rename: a sink's events stay in one lane, in order", function* () {
    const { start, remember, goBack } = yield* relays
    const relay = yield* start("a")
    const { journal } = relay
    yield* journal.openLane("before")
    yield* seconds(3)
    yield* journal.append(event("1"), ["before"])
    yield* seconds(1)
    yield* remember
    // No heartbeat is sent from here on, because no time passes.
    journal.knowSinks?.([{ name: "after", renamedFrom: "before" }])
    yield* journal.openLane("after", { renamedFrom: "before" })
    yield* goBack
    const refused = yield* Effect.flip(journal.append(event("2"), ["after"]))
    expect(refused.reason._tag).toBe("JournalUnavailable")
    yield* seconds(8)
    yield* journal.append(event("2"), ["after"])
    expect(yield* journal.openLane("after", { renamedFrom: "before" })).toMatchObject({ backlog: 2 })
    expect((yield* journal.lanes).map(({ name }) => name)).not.toContain("before")
    const [own] = owned(relay)
    const entries = (yield* own?.read(0, 10) ?? Effect.succeed([])).map(({ event, sinks }) => [event.id, sinks])
    expect(entries).toEqual([
      ["1", ["after"]],
      ["2", ["after"]],
    ])
  })

  it.effect("is named again if as many events are lost from the same sequence on", function* () {
    const { start, remember, goBack } = yield* relays
    const relay = yield* start("a")
    const { journal } = relay
    yield* journal.append(event("kept"), ["lake"])
    yield* seconds(3)
    yield* remember
    yield* seconds(3)
    for (const isAcknowledged of [true, false]) {
      yield* journal.append(event("lost"), ["lake"])
      yield* seconds(1)
      yield* goBack
      yield* seconds(8)
      expect(yield* lost(relay)).toEqual([["1", "seq_2"]])
      if (isAcknowledged) yield* meanwhile(journal.acknowledge)
    }
    yield* journal.append(event("lost"), ["lake"])
    yield* seconds(1)
    yield* goBack
    yield* seconds(8)
    expect(yield* lost(relay)).toEqual([
      ["1", "seq_2"],
      ["1", "seq_2"],
    ])
    expect(new Set((yield* meanwhile(journal.audit.list({ limit: 10 }))).map(({ note }) => note)).size).toBe(2)
  })

  it.effect("does not end a relay that had not started then: it takes its name back", function* () {
    const { start, remember, goBack } = yield* relays
    const { freeze } = yield* start("a")
    yield* seconds(2)
    yield* remember
    freeze()
    const { journal } = yield* meanwhile(start("a"))
    yield* seconds(3)
    yield* goBack
    yield* seconds(8)
    expect(yield* journal.append(event("one"), ["lake"])).toBe("appended")
  })

  it.effect("is not reported if only the last heartbeat is lost, as after a crash of the server", function* () {
    const { start, sql } = yield* relays
    const { journal } = yield* start("a")
    yield* seconds(3)
    yield* sql("UPDATE relay.member SET beat = beat - 1")
    expect(yield* journal.append(event("one"), ["lake"])).toBe("appended")
    yield* seconds(3)
    expect((yield* journal.fleet?.status ?? Effect.die("no fleet")).counters.fenced).toBe(0)
  })

  it.effect("is not a server whose timelines begin again with all that there was, as after pg_upgrade", function* () {
    const { start, promote } = yield* relays
    const { journal } = yield* start("a")
    yield* promote(3)
    yield* seconds(3)
    yield* journal.append(event("one"), ["lake"])
    yield* promote(1)
    yield* seconds(3)
    expect(yield* journal.append(event("two"), ["lake"])).toBe("appended")
    expect((yield* journal.status).alarm.lines).toEqual([])
  })
})
