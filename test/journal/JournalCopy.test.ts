/** Journals are copied into journals of another type, and back. */
import { beforeAll, expect } from "bun:test"
import { dirname, join } from "node:path"
import { Effect, Schema } from "effect"
import { collect } from "../../src/journal/EventQuery.ts"
import { type CopySource, check, withOperation } from "../../src/journal/JournalCopy.ts"
import type { WholeJournal } from "../../src/journal/JournalType.ts"
import { PostgresConfig } from "../../src/journal/postgres/connection/PostgresConfig.ts"
import * as PostgresCopySource from "../../src/journal/postgres/copy/PostgresCopySource.ts"
import * as PostgresCopyTarget from "../../src/journal/postgres/copy/PostgresCopyTarget.ts"
import * as PostgresJournal from "../../src/journal/postgres/PostgresJournal.ts"
import { migrate } from "../../src/journal/postgres/tables/DatabaseSchema.ts"
import * as SqliteCopySource from "../../src/journal/sqlite/copy/SqliteCopySource.ts"
import * as SqliteCopyTarget from "../../src/journal/sqlite/copy/SqliteCopyTarget.ts"
import {
  account,
  adopted,
  another,
  type CopiedJournal,
  copy,
  copyContract,
  cutOff,
  event,
  fill,
  filled,
  operations,
} from "../contract/copyContract.ts"
import { operation } from "../contract/journal/auditContract.ts"
import { it } from "../lib/effect.ts"
import { suiteUnless } from "../lib/lacking.ts"
import { type Postgres, reasonToSkip, sharedPostgres } from "../parts/Postgres.ts"
import * as MemoryJournal from "./MemoryJournal.ts"
import { openDatabase } from "./postgres/database.ts"
import { letter, settlement } from "./samples.ts"
import { session } from "./sqlite/session.ts"
import { options } from "./temporary.ts"

const inMemory = (): CopiedJournal => {
  const journal = MemoryJournal.make()
  return {
    use: (work) => work(journal),
    source: Effect.sync(journal.source),
    target: (source) => Effect.sync(() => journal.target(source)),
  }
}

const inFile = (at = options()): CopiedJournal => ({
  use: (work) => session(at, work),
  source: SqliteCopySource.source(at),
  target: (source) => SqliteCopyTarget.target(at, source),
})

const local = { SQLite: inFile, memory: inMemory }
copyContract(local, local)

suiteUnless(reasonToSkip(), "a journal's copy", () => {
  let server: Postgres
  let schemas = 0
  beforeAll(async () => {
    server = await sharedPostgres()
  }, 60_000)

  const configOf = () =>
    Schema.decodeUnknownSync(PostgresConfig)({
      url: server.url,
      schema: `copy_${process.pid}_${schemas++}`,
      name: "one",
    })

  const inDatabase = (config = configOf()): CopiedJournal => ({
    use: (work) =>
      Effect.scoped(
        Effect.gen(function* () {
          const { schema, retention, maxSize, duplicates } = config
          const database = yield* openDatabase(server.url, { schema })
          yield* Effect.orDie(migrate(database, schema))
          return yield* work(yield* PostgresJournal.make(database, { name: "one", retention, maxSize, duplicates }))
        }),
      ),
    source: PostgresCopySource.source(config),
    target: (source) => PostgresCopyTarget.target(config, source),
  })

  copyContract(local, { PostgreSQL: inDatabase })
  copyContract({ PostgreSQL: inDatabase }, { ...local, PostgreSQL: inDatabase })

  it.live(
    "is checked in a database, and only what another journal owed is imported there",
    function* () {
      const config = configOf()
      const [file, there] = [inFile(), inDatabase(config)]
      yield* file.use(fill)
      const { identity } = yield* Effect.scoped(file.source)
      yield* copy(file, there)
      const owner = yield* there.use((journal) => Effect.orDie(Effect.flip(journal.import(identity, [another]))))
      expect(owner.message).toContain("one that was copied into it")
      const checked = Effect.scoped(Effect.flatMap(PostgresCopySource.source(config, "check"), check))
      expect(yield* checked).toEqual({ events: 13, retrying: 2, deadLetters: 2, lanes: 3, damaged: 0 })
      const flip = `UPDATE ${config.schema}.dead SET record = set_byte(record, 40, get_byte(record, 40) # 1)`
      yield* Effect.promise(() => server.sql(flip))
      expect(yield* checked).toMatchObject({ deadLetters: 0, damaged: 2 })
    },
    30_000,
  )

  it.live("is the newest operation of the target's audit log", function* () {
    const [file, there, back] = [inFile(), inDatabase(), inFile()]
    yield* file.use(fill)
    yield* copy(file, there, (source) => withOperation(source, operation({ on: "there" })))
    yield* copy(there, back, (source) => withOperation(source, operation({ on: "back" })))
    const records = yield* back.use(({ audit }) => audit.list({ limit: 3 }))
    expect(records.map(({ on }) => on)).toEqual(["back", "there", `lake${operations - 1}`])
  })

  it.live(
    "has what was erased as it was: nobody reads it, and its redelivery is a duplicate",
    function* () {
      const [file, there, back] = [inFile(), inDatabase(), inFile()]
      const letters = { deadLetter: [letter(1), letter(2)] }
      const nameless = { ...event(""), body: new TextEncoder().encode("nobody") }
      const before = yield* file.use((journal) =>
        Effect.gen(function* () {
          yield* journal.openLane("lake")
          for (const one of [event("a"), nameless, event("b")]) yield* journal.append(one, ["lake"])
          yield* journal.settle([settlement("lake", 3, letters)])
          expect((yield* journal.erase([1, 2, 3], false)).erased).toEqual([1, 2, 3])
          return yield* account(journal)
        }),
      )
      const look = Effect.fnUntraced(function* (journal: WholeJournal) {
        const { events } = yield* collect({ limit: 10 }, journal.events)
        expect(events.map(({ event }) => [event.signature, event.erased?.at === undefined])).toEqual(
          events.map(() => ["", false]),
        )
        for (const one of [event("a"), nameless, event("b")]) {
          expect(yield* journal.append(one, ["lake"])).toBe("duplicate")
        }
        return yield* account(journal)
      })
      yield* copy(file, there)
      const between = yield* there.use((journal) => Effect.andThen(adopted(journal, 0), look(journal)))
      expect(between).toEqual(before)
      yield* copy(there, back)
      expect(yield* back.use(look)).toEqual(before)
    },
    30_000,
  )

  it.live("has no owner in a database until it is complete, and is not made twice", function* () {
    const [file, there] = [inFile(), inDatabase()]
    yield* file.use(fill)
    expect((yield* Effect.flip(copy(file, there, cutOff(3, 0)))).message).toBe("cut off")
    expect(yield* there.use((journal) => journal.lanes)).toEqual([])
    yield* copy(file, there)
    const twice = copy(file, there, (source) => withOperation(source, operation({ on: "twice" })))
    expect(yield* twice).toEqual({ events: 0, retries: 0, deadLetters: 0, known: filled.events })
    const records = yield* there.use(({ audit }) => audit.list({ limit: 1_000 }))
    expect(records.length).toBe(operations)
  })

  it.live(
    "restarts if relays ran in between",
    function* () {
      const [there, back] = [inDatabase(), inFile()]
      yield* there.use(fill)
      const interrupted = (source: CopySource) => cutOff(2, 4)(source)
      expect((yield* Effect.flip(copy(there, back, interrupted))).message).toBe("cut off")
      yield* there.use((journal) => journal.append(event("g"), ["lake"]))
      expect(yield* copy(there, back)).toEqual({ ...filled, events: filled.events + 1, known: 0 })
    },
    30_000,
  )

  it.live(
    "is refused while a relay runs on the journal, and into a file that is there",
    function* () {
      const at = options()
      const [file, there] = [inFile(at), inDatabase()]
      const refused = yield* file.use((journal) =>
        Effect.andThen(fill(journal), Effect.flip(copy(file, there)).pipe(Effect.orDie)),
      )
      expect(refused.message).toContain("Another relay is running on the journal")
      yield* copy(file, there)
      const running = yield* there.use(() => Effect.orDie(Effect.flip(copy(there, inFile()))))
      expect(running.message).toContain("Relays run on this journal: one")
      expect((yield* Effect.flip(copy(there, file))).message).toContain("There is a journal at")
      const nowhere = inFile({ ...at, path: join(dirname(at.path), "nowhere.db") })
      expect((yield* Effect.flip(copy(nowhere, there))).message).toContain("There is no journal at")
    },
    30_000,
  )
})
