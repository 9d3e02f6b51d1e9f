/** Journals are copied into one of another type, and back. */
import { beforeAll, expect } from "bun:test"
import { join } from "node:path"
import { Effect, Schema } from "effect"
import { collect } from "../../src/journal/EventPages.ts"
import type { JournalError } from "../../src/journal/Journal.ts"
import { type CopySource, check, withOperation } from "../../src/journal/JournalCopy.ts"
import { MaintenanceError } from "../../src/journal/JournalError.ts"
import { PostgresConfig } from "../../src/journal/postgres/connection/PostgresConfig.ts"
import * as PostgresCopySource from "../../src/journal/postgres/copy/PostgresCopySource.ts"
import * as PostgresCopyTarget from "../../src/journal/postgres/copy/PostgresCopyTarget.ts"
import * as PostgresJournal from "../../src/journal/postgres/PostgresJournal.ts"
import * as SqliteCopySource from "../../src/journal/sqlite/copy/SqliteCopySource.ts"
import * as SqliteCopyTarget from "../../src/journal/sqlite/copy/SqliteCopyTarget.ts"
import type { SqliteConfig } from "../../src/journal/sqlite/SqliteConfig.ts"
import type { WholeJournal } from "../../src/journal/WholeJournal.ts"
import { operation } from "../contract/journal/auditContract.ts"
import { it } from "../lib/effect.ts"
import { suiteUnless } from "../lib/lacking.ts"
import { type Postgres, reasonToSkip, sharedPostgres } from "../parts/Postgres.ts"
import { openDatabase } from "./postgres/database.ts"
import { letter, event as old, retrying, settlement } from "./samples.ts"
import { session } from "./sqlite/session.ts"
import { options } from "./temporary.ts"

const event = (id: string) => old(id, { receivedAt: Date.now() })

/** All that a journal says of what it keeps, whatever the sequences are. */
const account = (journal: WholeJournal) =>
  Effect.gen(function* () {
    const { events } = yield* collect({ limit: 100 }, journal.events)
    const letters = yield* journal.deadLetters({ limit: 100 })
    const lanes = yield* journal.lanes
    const idOf = new Map(events.map(({ sequence, event, origin }) => [sequence, `${event.id}, ${origin}`]))
    return {
      events: events
        .map(({ event, origin, deliveries }) => ({
          id: event.id,
          altered: event.altered ?? false,
          origin,
          deliveries: deliveries
            .map(({ copy, ...one }) => (copy === undefined ? one : { ...one, copy: idOf.get(copy) }))
            .toSorted((a, b) => a.sink.localeCompare(b.sink)),
        }))
        .toSorted((a, b) => `${a.id} ${a.altered} ${a.origin}`.localeCompare(`${b.id} ${b.altered} ${b.origin}`)),
      letters: letters.map(({ lane, at, attempts, entry }) => ({
        lane,
        at,
        attempts,
        id: entry.event.id,
        body: Buffer.from(entry.event.body).toString(),
      })),
      audit: (yield* journal.audit.list({ limit: 1_000 })).map(({ id: _, ...record }) => record),
      lanes: lanes
        .map(({ name, backlog, retrying, deadLetters, paused, mute }) => ({
          ...{ name, backlog, retrying, deadLetters, paused, mute },
        }))
        .toSorted((a, b) => a.name.localeCompare(b.name)),
    }
  })

/** More than a page of a copy. */
const operations = 70

/** What another journal owed. */
const another = { sequence: 9, event: event("another"), replayed: false, pending: ["lake"] }

const mute = { from: 1, until: 1_800_000_000_000, ending: "digest", by: "alice" } as const

/** Delivered, pending behind one that was settled, retrying, dead, replayed, altered; and a lane that is paused. */
const fill = (journal: WholeJournal) =>
  Effect.gen(function* () {
    yield* journal.openLane("lake")
    yield* journal.openLane("audit")
    for (const id of ["a", "b", "c", "d", "e", "f"]) yield* journal.append(event(id), ["lake", "audit"])
    yield* journal.append({ ...event("a"), body: new TextEncoder().encode("other") }, ["lake"])
    const letters = { retry: [retrying(2, "key")], deadLetter: [letter(3), letter(1)] }
    yield* journal.settle([
      settlement("audit", 7),
      settlement("lake", 3, { ...letters, cursor: { sequence: 3, settled: [[5, 5]] }, pausedFor: 7 }),
    ])
    yield* journal.replayDeadLetters(["lake:1"])
    yield* journal.setPaused("audit", mute.until, mute)
    expect(yield* journal.import("another", [another])).toMatchObject({ pending: 1 })
    for (let index = 0; index < operations; index++) yield* journal.audit.record(operation({ on: `lake${index}` }))
  })

/** A source that gives some events at a time, and breaks after one in a pass over it. */
const cutOff =
  (size: number, last: number, passes = 1) =>
  (source: CopySource): CopySource => ({
    ...source,
    streams: source.streams.map((stream) => {
      let begun = 0
      return {
        ...stream,
        events: (after) => {
          if (after === 0) begun += 1
          return begun >= passes && after > last
            ? Effect.fail(new MaintenanceError({ message: "cut off" }))
            : Effect.map(stream.events(after), (stored) => stored.slice(0, size))
        },
      }
    }),
  })

suiteUnless(reasonToSkip(), "a journal's copy", () => {
  let server: Postgres
  let schemas = 0
  beforeAll(async () => {
    server = await sharedPostgres()
  }, 60_000)

  const inDatabase = () =>
    Schema.decodeUnknownSync(PostgresConfig)({
      url: server.url,
      schema: `copy_${process.pid}_${schemas++}`,
      name: "one",
    })

  const onPostgres = <A>(
    { schema, retention, maxSize, duplicates }: PostgresConfig,
    use: (journal: WholeJournal) => Effect.Effect<A, JournalError>,
  ) =>
    Effect.scoped(
      Effect.gen(function* () {
        const database = yield* openDatabase(server.url, { schema })
        return yield* use(yield* PostgresJournal.make(database, { name: "one", retention, maxSize, duplicates }))
      }),
    )

  const toPostgres = (from: SqliteConfig, to: PostgresConfig, change = (source: CopySource) => source) =>
    Effect.scoped(
      Effect.gen(function* () {
        const source = yield* SqliteCopySource.source(from)
        const target = yield* PostgresCopyTarget.target(to)
        return yield* target.put(change(source), () => Effect.void)
      }),
    )

  const checked = (config: PostgresConfig) =>
    Effect.scoped(Effect.flatMap(PostgresCopySource.source(config, "check"), check))

  const toSqlite = (from: PostgresConfig, to: SqliteConfig, change = (source: CopySource) => source) =>
    Effect.scoped(
      Effect.gen(function* () {
        const source = yield* PostgresCopySource.source(from)
        const target = yield* SqliteCopyTarget.target(to)
        return yield* target.put(change(source), () => Effect.void)
      }),
    )

  /** Until the relay has taken the stream of the copy. */
  const adopted = (journal: WholeJournal, backlog: number) =>
    Effect.gen(function* () {
      for (;;) {
        const lanes = yield* journal.lanes
        if (lanes.find(({ name }) => name === "lake")?.backlog === backlog) return
        yield* Effect.sleep("20 millis")
      }
    })

  it.live(
    "has all that is owed, with its retries, dead letters and history, in a database and back in a file",
    () =>
      Effect.gen(function* () {
        const [file, there, back] = [options(), inDatabase(), options()]
        const before = yield* session(file, (journal) => Effect.andThen(fill(journal), account(journal)))
        const identity = yield* Effect.scoped(
          Effect.map(SqliteCopySource.source(file), ({ streams }) => streams[0]?.name ?? ""),
        )
        const copied = { events: 8, retries: 2, deadLetters: 1, known: 0 }
        expect(yield* toPostgres(file, there)).toEqual(copied)
        const between = yield* onPostgres(there, (journal) =>
          Effect.gen(function* () {
            const { backlog = 0 } = before.lanes.find(({ name }) => name === "lake") ?? {}
            yield* adopted(journal, backlog)
            // The sender repeats what the file had.
            expect(yield* journal.append(event("f"), ["lake", "audit"])).toBe("duplicate")
            expect(yield* journal.import("another", [another])).toMatchObject({ pending: 0, known: 1 })
            const owner = yield* Effect.orDie(Effect.flip(journal.import(identity, [another])))
            expect(owner.message).toContain("one that was copied into it")
            return yield* account(journal)
          }),
        )
        expect(between).toEqual(before)
        expect(yield* checked(there)).toEqual({ events: 8, retrying: 2, deadLetters: 1, lanes: 2, damaged: 0 })
        const flip = `UPDATE ${there.schema}.dead SET record = set_byte(record, 40, get_byte(record, 40) # 1)`
        yield* Effect.promise(() => server.sql(flip))
        expect(yield* checked(there)).toMatchObject({ deadLetters: 0, damaged: 1 })
        yield* Effect.promise(() => server.sql(flip))
        expect(yield* toSqlite(there, back)).toEqual(copied)
        expect(yield* session(back, account)).toEqual(before)
        const again = yield* session(back, (journal) => journal.import("another", [another]))
        expect(again).toMatchObject({ pending: 0, known: 1 })
      }),
    30_000,
  )

  it.live("is the newest operation of the audit log where it went", () =>
    Effect.gen(function* () {
      const [file, there, back] = [options(), inDatabase(), options()]
      yield* session(file, fill)
      yield* toPostgres(file, there, (source) => withOperation(source, operation({ on: "there" })))
      const add = (source: CopySource) => withOperation(source, operation({ on: "back" }))
      yield* toSqlite(there, back, add)
      const records = yield* session(back, ({ audit }) => audit.list({ limit: 3 }))
      expect(records.map(({ on }) => on)).toEqual(["back", "there", `lake${operations - 1}`])
    }),
  )

  it.live(
    "has what was erased as it was: nobody reads it, and its redelivery is a duplicate",
    () =>
      Effect.gen(function* () {
        const [file, there, back] = [options(), inDatabase(), options()]
        const letters = { deadLetter: [letter(1), letter(2)] }
        const nameless = { ...event(""), body: new TextEncoder().encode("nobody") }
        const before = yield* session(file, (journal) =>
          Effect.gen(function* () {
            yield* journal.openLane("lake")
            for (const one of [event("a"), nameless, event("b")]) yield* journal.append(one, ["lake"])
            yield* journal.settle([settlement("lake", 3, letters)])
            expect((yield* journal.erase([1, 2, 3], false)).erased).toEqual([1, 2, 3])
            return yield* account(journal)
          }),
        )
        const look = (journal: WholeJournal) =>
          Effect.gen(function* () {
            const { events } = yield* collect({ limit: 10 }, journal.events)
            expect(events.map(({ event }) => [event.signature, event.erased?.at === undefined])).toEqual(
              events.map(() => ["", false]),
            )
            for (const one of [event("a"), nameless, event("b")]) {
              expect(yield* journal.append(one, ["lake"])).toBe("duplicate")
            }
            return yield* account(journal)
          })
        yield* toPostgres(file, there)
        const between = yield* onPostgres(there, (journal) => Effect.andThen(adopted(journal, 0), look(journal)))
        expect(between).toEqual(before)
        yield* toSqlite(there, back)
        expect(yield* session(back, look)).toEqual(before)
      }),
    30_000,
  )

  it.live("goes on where it was interrupted, and is not made twice", () =>
    Effect.gen(function* () {
      const [file, there] = [options(), inDatabase()]
      yield* session(file, fill)
      const interrupted = toPostgres(file, there, cutOff(3, 0))
      expect((yield* Effect.flip(interrupted)).message).toBe("cut off")
      // Half of it is nobody's.
      expect(
        yield* Effect.map(
          onPostgres(there, (journal) => journal.lanes),
          (lanes) => lanes.length,
        ),
      ).toBe(0)
      expect(yield* toPostgres(file, there)).toMatchObject({ events: 5, known: 3 })
      const twice = toPostgres(file, there, (source) => withOperation(source, operation({ on: "twice" })))
      expect(yield* twice).toEqual({ events: 0, retries: 0, deadLetters: 0, known: 8 })
      const records = yield* onPostgres(there, ({ audit }) => audit.list({ limit: 1_000 }))
      expect(records.length).toBe(operations)
    }),
  )

  it.live(
    "begins again where events were erased since it was interrupted, in a database and in a file",
    () =>
      Effect.gen(function* () {
        const [file, there, back] = [options(), inDatabase(), options()]
        yield* session(file, fill)
        const erase = (id: string) => (journal: WholeJournal) =>
          Effect.gen(function* () {
            const { events } = yield* collect({ id, limit: 9 }, journal.events)
            const sequences = events.map(({ sequence }) => sequence)
            expect((yield* journal.erase(sequences, true)).erased).toEqual(sequences)
          })
        const erased = (journal: WholeJournal) =>
          Effect.map(collect({ limit: 100 }, journal.events), ({ events }) =>
            [...new Set(events.flatMap(({ event }) => (event.erased === undefined ? [] : [event.id])))].sort(),
          )
        expect((yield* Effect.flip(toPostgres(file, there, cutOff(3, 0)))).message).toBe("cut off")
        yield* session(file, erase("b"))
        expect(yield* toPostgres(file, there)).toMatchObject({ events: 8, known: 0 })
        expect(yield* onPostgres(there, erased)).toEqual(["b"])
        expect((yield* Effect.flip(toSqlite(there, back, cutOff(2, 4)))).message).toBe("cut off")
        yield* onPostgres(there, erase("c"))
        expect(yield* toSqlite(there, back)).toMatchObject({ events: 8, known: 0 })
        expect(yield* session(back, erased)).toEqual(["b", "c"])
      }),
    30_000,
  )

  it.live(
    "goes on in a file as well, in either of its passes, and anew where relays ran in between",
    () =>
      Effect.gen(function* () {
        const [file, there] = [options(), inDatabase()]
        const before = yield* session(file, (journal) => Effect.andThen(fill(journal), account(journal)))
        yield* toPostgres(file, there)
        const whole = { events: 8, retries: 2, deadLetters: 1 }
        for (const [passes, known] of [
          [1, 4],
          [2, 6],
        ] as const) {
          const back = options()
          expect((yield* Effect.flip(toSqlite(there, back, cutOff(2, 4, passes)))).message).toBe("cut off")
          expect(yield* toSqlite(there, back)).toEqual({ ...whole, events: whole.events - known, known })
          expect(yield* session(back, account)).toEqual(before)
        }
        const back = options()
        expect((yield* Effect.flip(toSqlite(there, back, cutOff(2, 4)))).message).toBe("cut off")
        const { backlog = 0 } = before.lanes.find(({ name }) => name === "lake") ?? {}
        yield* onPostgres(there, (journal) =>
          Effect.andThen(adopted(journal, backlog), journal.append(event("g"), ["lake"])),
        )
        expect(yield* toSqlite(there, back)).toEqual({ ...whole, events: whole.events + 1, known: 0 })
      }),
    30_000,
  )

  it.live(
    "is refused while a relay runs on the journal, and into a file that is there",
    () =>
      Effect.gen(function* () {
        const [file, there] = [options(), inDatabase()]
        const refused = yield* session(file, (journal) =>
          Effect.andThen(fill(journal), Effect.flip(toPostgres(file, there)).pipe(Effect.orDie)),
        )
        expect(refused.message).toContain("Another relay is running on the journal")
        yield* toPostgres(file, there)
        const running = yield* onPostgres(there, () => Effect.orDie(Effect.flip(toSqlite(there, options()))))
        expect(running.message).toContain("Relays run on this journal: one")
        expect((yield* Effect.flip(toSqlite(there, file))).message).toContain("There is a journal at")
        const nowhere = { ...file, path: join(file.path, "..", "nowhere.db") }
        expect((yield* Effect.flip(toPostgres(nowhere, there))).message).toContain("There is no journal at")
      }),
    30_000,
  )
})
