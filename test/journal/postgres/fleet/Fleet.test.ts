import { expect } from "bun:test"
import { Cause, Effect, Exit, SubscriptionRef } from "effect"
import type { Log } from "../../../../src/journal/Journal.ts"
import { floorOf, sharedStream, streamOf } from "../../../../src/journal/Sequences.ts"
import { it } from "../../../lib/effect.ts"
import { suiteUnless } from "../../../lib/lacking.ts"
import { reasonToSkip } from "../../../parts/Postgres.ts"
import { event, letter, retrying, settlement } from "../../samples.ts"
import { meanwhile, type Relay, relays, seconds } from "../relays.ts"

const owned = ({ journal }: Relay): ReadonlyArray<Log> =>
  journal.streams === undefined ? [] : SubscriptionRef.getUnsafe(journal.streams)

const ids = (entries: ReadonlyArray<{ readonly event: { readonly id: string } }>) =>
  entries.map(({ event }) => event.id)

suiteUnless(reasonToSkip(), "relays on one database", () => {
  it.effect("write their own streams, and a delivery that arrives at both is kept once", function* () {
    const { start } = yield* relays
    const [a, b] = [yield* start("a"), yield* start("b")]
    expect(yield* a.journal.append(event("one"), ["lake"])).toBe("appended")
    expect(yield* b.journal.append(event("one"), ["lake"])).toBe("duplicate")
    expect(yield* b.journal.append(event("two"), ["lake"])).toBe("appended")
    const both = yield* Effect.all(
      [a.journal.append(event("three"), ["lake"]), b.journal.append(event("three"), ["lake"])],
      {
        concurrency: "unbounded",
      },
    )
    expect([...both].sort()).toEqual(["appended", "duplicate"])
    expect(streamOf(yield* a.journal.head)).not.toBe(streamOf(yield* b.journal.head))
    const all = yield* a.journal.events({ limit: 10 })
    expect(ids(all.events).sort()).toEqual(["one", "three", "two"])
  })

  it.effect(
    "take over what a stalled relay has written; it starts nothing then, and stores nothing more",
    function* () {
      const { start } = yield* relays
      const [a, b] = [yield* start("a"), yield* start("b")]
      yield* a.journal.openLane("lake")
      for (const id of ["one", "two", "three"]) yield* a.journal.append(event(id), ["lake"])
      yield* a.journal.settle([settlement("lake", 1, { retry: [retrying(1)] })])
      yield* seconds(2)
      const stream = owned(a)[0]
      expect([a.journal.mayStart(), stream?.mayStart()]).toEqual([true, true])
      a.freeze()
      yield* seconds(4)
      expect(a.journal.mayStart()).toBe(false)
      expect(owned(b).map(({ id }: Log & { id?: number }) => id)).not.toContain(0)
      yield* seconds(6)
      const taken = owned(b).find((log) => (log as Log & { id?: number }).id === 0)
      if (taken === undefined) throw new Error("the stream was not taken over")
      const lane = yield* taken.openLane("lake")
      expect(lane).toMatchObject({ cursor: { sequence: 1 }, backlog: 3, retries: [{ sequence: 1 }] })
      expect(ids(yield* taken.read(1, 10))).toEqual(["two", "three"])
      yield* taken.settle([settlement("lake", 2, { endRetry: [1], deadLetter: [letter(2)] })])
      a.thaw()
      const late = stream === undefined ? Effect.void : Effect.asVoid(stream.settle([settlement("lake", 3)]))
      const refused = yield* Effect.exit(late)
      expect(Exit.isFailure(refused) && Cause.squash(refused.cause)).toMatchObject({
        reason: { _tag: "JournalFenced" },
      })
      expect(stream?.mayStart()).toBe(false)
      // The relay has lost its own stream and the shared one. It reclaims the stream that has its name, and delivers
      // once the other relay must know of that.
      yield* seconds(3)
      expect(a.journal.mayStart()).toBe(false)
      yield* seconds(3)
      expect(a.journal.mayStart()).toBe(true)
      expect(taken.mayStart()).toBe(false)
      expect((yield* a.journal.openLane("lake")).cursor.sequence).toBe(2)
      expect(yield* a.journal.append(event("four"), ["lake"])).toBe("appended")
      expect((yield* a.journal.fleet?.status ?? Effect.die("no fleet")).counters.fenced).toBe(2)
      expect((yield* b.journal.fleet?.status ?? Effect.die("no fleet")).counters.takeovers).toBeGreaterThan(0)
    },
  )

  it.effect("hand over immediately when they stop, and reclaim their own stream when they return", function* () {
    const { start } = yield* relays
    const [a, b] = [yield* start("a"), yield* start("b")]
    yield* a.journal.append(event("one"), ["lake"])
    yield* a.stop
    yield* seconds(2)
    const taken = owned(b).find((log) => (log as Log & { id?: number }).id === 0)
    expect(ids(yield* taken?.read(0, 10) ?? Effect.succeed([]))).toEqual(["one"])
    const again = yield* start("a")
    expect(yield* again.journal.head).toBe(1)
    yield* again.journal.append(event("two"), ["lake"])
    expect(yield* again.journal.head).toBe(2)
    yield* seconds(2)
    expect(taken?.mayStart()).toBe(false)
  })

  it.effect("refuse a second live relay of a name, and let a relay return that ended without leaving", function* () {
    const { start } = yield* relays
    const a = yield* start("a")
    yield* seconds(1)
    const refused = yield* meanwhile(Effect.flip(start("a")))
    expect(refused.message).toContain("Another relay on this database is called a")
    yield* a.journal.append(event("one"), ["lake"])
    a.freeze()
    const again = yield* meanwhile(start("a"))
    expect(yield* again.journal.head).toBe(1)
    a.thaw()
    const ended = yield* meanwhile(Effect.flip(a.journal.broken))
    expect(ended.message).toContain("Another relay has taken the name a")
  })

  it.effect("give events of a sink that needs one mind to one stream, in the order of their commits", function* () {
    const { start } = yield* relays
    const [a, b] = [yield* start("a"), yield* start("b")]
    for (const { journal } of [a, b]) yield* journal.openLane("ordered", { exclusive: true })
    yield* seconds(2)
    const holders = [a, b].flatMap((relay) =>
      owned(relay).filter((log) => (log as Log & { id?: number }).id === sharedStream),
    )
    expect(holders.length).toBe(1)
    const shared = holders[0] as Log
    for (const [index, id] of ["1", "2", "3", "4", "5"].entries()) {
      yield* (index % 2 === 0 ? a : b).journal.append(event(id), ["ordered", "lake"])
    }
    yield* seconds(1)
    const entries = yield* shared.read(floorOf(sharedStream), 10)
    expect(ids(entries)).toEqual(["1", "2", "3", "4", "5"])
    expect(entries.map(({ sequence }) => sequence - floorOf(sharedStream))).toEqual([1, 2, 3, 4, 5])
    expect(yield* b.journal.append(event("1"), ["ordered", "lake"])).toBe("duplicate")
    yield* shared.openLane("lake")
    expect(yield* shared.openLane("ordered")).toMatchObject({ backlog: 5 })
    yield* shared.settle([
      settlement("ordered", floorOf(sharedStream) + 5, { deadLetter: [letter(floorOf(sharedStream) + 2)] }),
    ])
    expect(yield* b.journal.replayDeadLetters([`ordered:${floorOf(sharedStream) + 2}`])).toBe(1)
    yield* seconds(1)
    expect(yield* shared.returned("ordered")).toEqual([{ sequence: floorOf(sharedStream) + 2, attempts: 1 }])
  })

  it.effect("see each other: names, streams, backlogs, pauses", function* () {
    const { start } = yield* relays
    const [a, b] = [yield* start("a"), yield* start("b")]
    const lanes = [{ name: "lake", type: "file", condition: "running", message: "", oldestAt: 0 }] as const
    const sinks = { lake: "file" }
    yield* b.journal.fleet?.introduce(() => ({
      ...{ version: "9", configHash: "x", sinks, address: "h:1", lanes: [] },
    })) ?? Effect.void
    for (const { journal } of [a, b]) yield* journal.openLane("lake")
    yield* a.journal.append(event("one"), ["lake"])
    yield* b.journal.append(event("two"), ["lake"])
    yield* b.journal.setPaused("lake", true)
    yield* seconds(3)
    const status = yield* a.journal.fleet?.status ?? Effect.die("no fleet")
    expect(
      status.members.map(({ name, isSelf, version, configHash, lanes }) => [name, isSelf, version, configHash, lanes]),
    ).toEqual([
      ["a", true, "", "", []],
      ["b", false, "9", "x", lanes],
    ])
    expect(status.streams.map(({ owner, lanes }) => [owner, lanes.lake?.backlog ?? 0])).toContainEqual(["b", 1])
    expect((yield* a.journal.lanes).find(({ name }) => name === "lake")).toMatchObject({ backlog: 2, paused: true })
    const refused = yield* Effect.flip(a.journal.dropLane("lake"))
    expect(refused.message).toContain("in the config of b")
  })

  it.effect("know each other's sinks after a change of config, and after a failover that lost it", function* () {
    const { start, remember, promote } = yield* relays
    const [a, b] = [yield* start("a"), yield* start("b")]
    let [configHash, sinks]: [string, Record<string, string>] = ["x", { lake: "file" }]
    yield* b.journal.fleet?.introduce(() => ({ version: "9", configHash, sinks, address: "", lanes: [] })) ??
      Effect.void
    const seen = Effect.gen(function* () {
      yield* seconds(3)
      const { members } = yield* a.journal.fleet?.status ?? Effect.die("no fleet")
      return members[1]?.lanes.map(({ name, type }) => `${name} ${type}`).sort()
    })
    expect(yield* seen).toEqual(["lake file"])
    yield* remember
    configHash = "y"
    sinks = { lake: "file", crm: "http" }
    expect(yield* seen).toEqual(["crm http", "lake file"])
    expect((yield* Effect.flip(a.journal.dropLane("crm"))).message).toContain("in the config of b")
    expect((yield* a.journal.lanes).map(({ name }) => name)).toContain("crm")
    yield* promote(2, true)
    expect(yield* seen).toEqual(["crm http", "lake file"])
  })

  it.effect("move an orphaned lane of all streams, and tell the owners of its retries", function* () {
    const { start } = yield* relays
    const [a, b] = [yield* start("a"), yield* start("b")]
    for (const { journal } of [a, b]) yield* journal.openLane("new")
    yield* a.journal.append(event("one"), ["old"])
    yield* b.journal.append(event("two"), ["old"])
    yield* b.journal.append(event("three"), ["old"])
    const first = floorOf(streamOf(yield* b.journal.head)) + 1
    yield* b.journal.settle([settlement("old", first, { retry: [retrying(first)] })])
    yield* seconds(2)
    expect(yield* a.journal.moveLane("old", "new")).toBe(3)
    yield* seconds(2)
    const mine = (yield* b.journal.lanes).filter(({ name }) => name === "new" || name === "old")
    expect(mine.map(({ name }) => name)).toEqual(["new"])
    expect((yield* b.journal.openLane("new")).retries).toMatchObject([{ sequence: first }])
    expect(ids(yield* a.journal.read(1, 10))).toEqual(["one", "three"])
    // The owner has read its stream again, and writes it under a new epoch.
    expect((yield* b.journal.fleet?.status ?? Effect.die("no fleet")).counters.fenced).toBe(1)
  })

  it.effect("see it even if others have since appended to the shared stream under the lost numbers", function* () {
    const { start, sql } = yield* relays
    const [a, b] = [yield* start("a"), yield* start("b")]
    for (const { journal } of [a, b]) yield* journal.openLane("ordered", { exclusive: true })
    yield* seconds(2)
    for (const id of ["1", "2", "3"]) yield* a.journal.append(event(id), ["ordered"])
    yield* seconds(1)
    const second = floorOf(sharedStream) + 2
    yield* sql(`DELETE FROM relay.log WHERE first >= ${second}; DELETE FROM relay.seen WHERE sequence >= ${second}`)
    for (const id of ["4", "5", "6"]) yield* b.journal.append(event(id), ["ordered"])
    yield* seconds(4)
    expect((yield* b.journal.status).message).toContain("lost 2 events")
    const shared = [a, b].flatMap(owned).find((log) => (log as Log & { id?: number }).id === sharedStream)
    expect(ids(yield* (shared as Log).read(floorOf(sharedStream), 10))).toEqual(["1", "4", "5", "6"])
  })

  it.effect("see it also where more was appended since, before the next sign of life", function* () {
    const { start, sql } = yield* relays
    const a = yield* start("a")
    for (const id of ["one", "two", "three"]) yield* a.journal.append(event(id), ["lake"])
    yield* sql("DELETE FROM relay.log WHERE first >= 3; DELETE FROM relay.seen WHERE sequence >= 3")
    yield* a.journal.append(event("four"), ["lake"])
    yield* seconds(3)
    expect((yield* a.journal.status).message).toContain("lost 1 events that were answered, from seq_3 on")
    expect(ids(yield* a.journal.read(0, 10))).toEqual(["one", "two", "four"])
  })

  it.effect("keep every event and its order if a lane is renamed during appends", function* () {
    const { start } = yield* relays
    const { journal } = yield* start("a")
    yield* journal.openLane("one")
    const sent: Array<string> = []
    const append = Effect.forEach(
      Array.from({ length: 60 }, (_, index) => `${index}`),
      (id) =>
        Effect.andThen(
          journal.append(event(id), ["one"]),
          Effect.sync(() => sent.push(id)),
        ),
      { concurrency: 4, discard: true },
    )
    const rename = Effect.forEach(
      [
        ["two", "one"],
        ["three", "two"],
        ["one", "three"],
        ["four", "one"],
      ] as const,
      ([name, renamedFrom]) => journal.openLane(name, { renamedFrom }),
      { discard: true },
    )
    yield* Effect.all([append, rename], { concurrency: "unbounded" })
    const lane = yield* journal.openLane("four", { renamedFrom: "one" })
    expect(lane).toMatchObject({ backlog: 60, cursor: { sequence: 0 } })
    const entries = yield* journal.read(0, 100)
    expect(ids(entries.filter(({ sinks }) => sinks.includes("four"))).sort()).toEqual([...sent].sort())
    expect((yield* journal.lanes).map(({ name }) => name)).toEqual(["four"])
    const { events } = yield* journal.events({ limit: 100 })
    expect(
      new Set(events.flatMap(({ deliveries }) => deliveries.map(({ sink, outcome }) => `${sink} ${outcome}`))),
    ).toEqual(new Set(["four pending"]))
  })

  it.effect("give events from a relay with an older config to the lane under its new name", function* () {
    const { start } = yield* relays
    const [a, b] = [yield* start("a"), yield* start("b")]
    for (const { journal } of [a, b]) yield* journal.openLane("old", { exclusive: true })
    yield* seconds(2)
    const isOwner = (relay: Relay) => owned(relay).some((log) => (log as Log & { id?: number }).id === sharedStream)
    const [owner, other] = isOwner(a) ? [a, b] : [b, a]
    yield* other.journal.append(event("1"), ["old"])
    const shared = () =>
      owned(owner).find((log) => (log as Log & { id?: number }).id === sharedStream) ??
      Effect.runSync(Effect.die("lost"))
    // The other relay is reloaded first. Its events still go to the lane under the owner's name for it.
    other.journal.knowSinks?.([{ name: "new", renamedFrom: "old", exclusive: true }])
    yield* other.journal.append(event("2"), ["new"])
    yield* other.journal.openLane("new", { exclusive: true, renamedFrom: "old" })
    yield* other.journal.append(event("3"), ["new"])
    yield* seconds(3)
    expect(yield* shared().openLane("old", { exclusive: true })).toMatchObject({ backlog: 3 })
    // The owner is reloaded next, while a third relay may still append under the old name.
    yield* shared().openLane("new", { exclusive: true, renamedFrom: "old" })
    yield* owner.journal.append(event("4"), ["old"])
    yield* other.journal.append(event("5"), ["new"])
    yield* seconds(1)
    expect(yield* shared().openLane("new")).toMatchObject({ backlog: 5 })
    const entries = yield* shared().read(floorOf(sharedStream), 10)
    expect(entries.map(({ event: { id }, sinks }) => [id, sinks])).toEqual(
      ["1", "2", "3", "4", "5"].map((id) => [id, ["new"]]),
    )
  })

  it.effect("store nothing from before the failover on a promoted server, and claim their streams again", function* () {
    const { start, sql, promote } = yield* relays
    const { journal } = yield* start("a")
    yield* journal.openLane("lake")
    for (const id of ["one", "two", "three"]) yield* journal.append(event(id), ["lake"])
    yield* journal.settle([settlement("lake", 3)])
    yield* sql(
      `DELETE FROM relay.log WHERE first >= 2; DELETE FROM relay.seen WHERE sequence >= 2;
         UPDATE relay.progress SET lanes = jsonb_set(lanes, '{lake,sequence}', '1'), changed = '{}'
         WHERE stream = 0`,
    )
    yield* promote(2)
    const refused = yield* Effect.flip(journal.settle([settlement("lake", 3, { retry: [retrying(3)] })]))
    expect(refused.reason._tag).toBe("JournalFenced")
    // The append waits until the stream is claimed.
    expect(yield* journal.append(event("four"), ["lake"])).toBe("appended")
    yield* seconds(2)
    const lane = { backlog: 1, cursor: { sequence: 1 }, retrying: 0 }
    expect(yield* journal.openLane("lake")).toMatchObject(lane)
    expect(yield* journal.append(event("four"), ["lake"])).toBe("duplicate")
    const { events } = yield* journal.events({ limit: 10 })
    expect(events.map(({ event: { id }, deliveries }) => [id, deliveries[0]?.outcome])).toEqual([
      ["four", "pending"],
      ["one", "delivered"],
    ])
    expect((yield* journal.status).alarm.lines.map((line) => /lost .* on/.exec(line)?.[0])).toEqual([
      "lost 2 events that were answered, from seq_2 on",
    ])
  })

  it.effect("keep a stream that was claimed on the promoted server before a heartbeat has found it", function* () {
    const { start, sql, promote } = yield* relays
    const { journal } = yield* start("a")
    yield* journal.openLane("lake")
    yield* journal.append(event("one"), ["lake"])
    yield* seconds(2)
    const epoch = Effect.map(sql("SELECT epoch::text FROM relay.stream WHERE id = 0"), ([row]) => row?.epoch)
    const former = yield* epoch
    yield* promote(2)
    const refused = yield* Effect.flip(journal.settle([settlement("lake", 1)]))
    expect(refused.reason._tag).toBe("JournalFenced")
    // The next heartbeat is a second after the last.
    yield* seconds(0.5)
    const claimed = yield* epoch
    expect(claimed).not.toBe(former)
    yield* seconds(3)
    expect(yield* epoch).toBe(claimed)
  })

  it.effect(
    "continue if a failover lost the row of a relay's name, or gave it back to an earlier process",
    function* () {
      const { start, sql, promote } = yield* relays
      const { journal } = yield* start("a")
      yield* sql("DELETE FROM relay.member")
      yield* promote(2)
      yield* seconds(3)
      expect(yield* journal.append(event("one"), ["lake"])).toBe("appended")
      yield* sql("UPDATE relay.member SET instance = 'earlier'")
      yield* promote(3)
      yield* seconds(3)
      expect(yield* journal.append(event("two"), ["lake"])).toBe("appended")
    },
  )

  it.effect("report that settlements can't be stored, and why", function* () {
    const { start, sql } = yield* relays
    const { journal } = yield* start("a")
    yield* journal.openLane("lake")
    yield* journal.append(event("one"), ["lake"])
    yield* sql("ALTER TABLE relay.progress RENAME COLUMN lanes TO gone")
    yield* Effect.flip(journal.settle([settlement("lake", 1)]))
    expect((yield* journal.status).message).toContain("What the lanes settle can't be stored")
    yield* sql("ALTER TABLE relay.progress RENAME COLUMN gone TO lanes")
    yield* journal.settle([settlement("lake", 1)])
    expect((yield* journal.status).message).toBe("")
  })

  it.effect("notice that a failover lost answered deliveries, and count them", function* () {
    const { start, sql } = yield* relays
    const a = yield* start("a")
    yield* a.journal.openLane("lake")
    for (const id of ["one", "two", "three"]) yield* a.journal.append(event(id), ["lake"])
    yield* sql("DELETE FROM relay.log WHERE first >= 2; DELETE FROM relay.seen WHERE sequence >= 2")
    yield* seconds(3)
    const { health, alarm } = yield* a.journal.status
    expect(health).toBe("red")
    expect(alarm.lines.join()).toContain("lost 2 events that were answered")
    expect(alarm.lines.join()).toContain("from seq_2 on")
    expect(yield* a.journal.append(event("two"), ["lake"])).toBe("appended")
    expect(ids(yield* a.journal.read(0, 10))).toEqual(["one", "two"])
    yield* a.journal.acknowledge
    yield* seconds(2)
    expect((yield* a.journal.status).health).toBe("ok")
  })

  it.effect(
    "say each what a failover lost of its appends to the shared stream before the owner read them",
    function* () {
      const { start, sql, promote } = yield* relays
      const [a, b] = [yield* start("a"), yield* start("b")]
      for (const { journal } of [a, b]) yield* journal.openLane("ordered", { exclusive: true })
      yield* a.journal.append(event("kept"), ["ordered"])
      yield* b.journal.append(event("kept too"), ["ordered"])
      yield* seconds(2)
      yield* b.journal.append(event("one"), ["ordered"])
      yield* a.journal.append(event("two"), ["ordered"])
      yield* b.journal.append(event("three"), ["ordered"])
      const floor = floorOf(sharedStream)
      yield* sql(`DELETE FROM relay.log WHERE first > ${floor + 2} AND first < ${floorOf(sharedStream + 1)}`)
      yield* promote(7)
      yield* seconds(3)
      const lines = (yield* a.journal.status).alarm.lines
      expect(lines.map((line) => /lost (\d+) events .* from (seq_\d+)/.exec(line)?.slice(1)).sort()).toEqual([
        ["1", `seq_${floor + 4}`],
        ["2", `seq_${floor + 3}`],
      ])
      // Another failover loses nothing.
      yield* promote(8)
      yield* seconds(3)
      expect((yield* b.journal.status).alarm.lines.length).toBe(2)
    },
  )
})
