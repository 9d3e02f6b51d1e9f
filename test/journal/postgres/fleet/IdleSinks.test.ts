import { expect } from "bun:test"
import { Effect, Layer } from "effect"
import { servicesOf } from "../../../../src/journal/JournalType.ts"
import type { Database } from "../../../../src/journal/postgres/connection/Database.ts"
import { lanesOf, scripted, spec } from "../../../delivery/fixture.ts"
import { it } from "../../../lib/effect.ts"
import { suiteUnless } from "../../../lib/lacking.ts"
import { reasonToSkip } from "../../../parts/Postgres.ts"
import { event } from "../../samples.ts"
import { meanwhile, relays, seconds } from "../relays.ts"

/** Counts all statements and transactions, by their first words. */
const counting = () => {
  const asked = new Map<string, number>()
  const count = (sql: string) => {
    const what = sql.trim().replaceAll(/\s+/g, " ").slice(0, 50)
    asked.set(what, (asked.get(what) ?? 0) + 1)
  }
  const over = (db: Database): Database => ({
    ...db,
    query: <Row>(...all: Parameters<Database["query"]>) => {
      count(all[0])
      return db.query<Row>(...all)
    },
    transact: (work) => {
      count("a transaction")
      return db.transact(work)
    },
    queryUnsafe: <Row>(...all: Parameters<Database["queryUnsafe"]>) => {
      count(all[0])
      return db.queryUnsafe<Row>(...all)
    },
  })
  return { asked, over }
}

/** Four relays with the same sinks, of which one gets events: their statements at the start, and in twenty seconds. */
const statements = (sinks: number) =>
  Effect.gen(function* () {
    const { start } = yield* relays
    const { asked, over } = counting()
    const delivered: Array<ReadonlyArray<number>> = []
    const journals = yield* Effect.forEach(["a", "b", "c", "d"], (name) =>
      Effect.gen(function* () {
        const { journal } = yield* start(name, undefined, over)
        const sink = scripted(() => "pass")
        delivered.push(sink.delivered)
        const idle = Array.from({ length: sinks - 1 }, (_, n) => spec(`idle_${n}`, scripted(() => "pass").sink))
        const services = Layer.succeedContext(servicesOf(journal))
        yield* meanwhile(Layer.build(Layer.provideMerge(lanesOf([spec("sink", sink.sink), ...idle]), services)))
        return journal
      }),
    )
    const sum = () => [...asked.values()].reduce((sum, times) => sum + times, 0)
    const atStart = sum()
    yield* seconds(5)
    asked.clear()
    for (let n = 0; n < 20; n++) {
      for (const [at, journal] of journals.entries()) yield* journal.append(event(`${at} ${n}`), ["sink"])
      yield* seconds(1)
    }
    yield* seconds(2)
    expect(delivered.flat()).toHaveLength(80)
    return { atStart, running: sum() }
  }).pipe(Effect.scoped)

suiteUnless(reasonToSkip(), "four relays with two hundred sinks, of which one gets events", () => {
  it.effect("ask the database as often as with ten, at the start and later", function* () {
    const [few, many] = [yield* statements(10), yield* statements(200)]
    expect(many.atStart).toBeLessThan(few.atStart * 1.5)
    expect(many.running).toBeLessThan(few.running * 1.1)
  })
})
