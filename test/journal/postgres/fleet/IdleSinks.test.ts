import { expect } from "bun:test"
import { Effect, Layer, Result } from "effect"
import * as Introduction from "../../../../src/admin/Introduction.ts"
import { RelayInfo } from "../../../../src/admin/RelayInfo.ts"
import { servicesOf } from "../../../../src/journal/JournalType.ts"
import type { Database } from "../../../../src/journal/postgres/connection/Database.ts"
import { lanesOf, scripted, spec } from "../../../delivery/fixture.ts"
import { activeConfig } from "../../../lib/activeConfig.ts"
import { it } from "../../../lib/effect.ts"
import { suiteUnless } from "../../../lib/lacking.ts"
import { reasonToSkip } from "../../../parts/Postgres.ts"
import { event } from "../../samples.ts"
import { meanwhile, relays, seconds } from "../relays.ts"

/** Counts all statements and transactions, by their first words, and the characters of heartbeats and answers. */
const counting = () => {
  const asked = new Map<string, number>()
  const beats = { characters: 0 }
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
    queryUnsafe: async <Row>(...all: Parameters<Database["queryUnsafe"]>) => {
      const [use, , params] = all
      count(use)
      const answer = await db.queryUnsafe<Row>(...all)
      if (use === "beat" && Result.isSuccess(answer)) {
        beats.characters += JSON.stringify([params, answer.success.rows]).length
      }
      return answer
    },
  })
  return { asked, beats, over }
}

/** Counts for four relays with the same sinks: statements at the start and in ten seconds, and heartbeats. Only one sink gets events. */
const statements = (sinks: number) =>
  Effect.gen(function* () {
    const { start } = yield* relays
    const { asked, beats, over } = counting()
    const delivered: Array<ReadonlyArray<number>> = []
    const journals = yield* Effect.forEach(["a", "b", "c", "d"], (name) =>
      Effect.gen(function* () {
        const { journal } = yield* start(name, undefined, over)
        const sink = scripted(() => "pass")
        delivered.push(sink.delivered)
        const idle = Array.from({ length: sinks - 1 }, (_, n) => spec(`idle_${n}`, scripted(() => "pass").sink))
        const specs = [spec("sink", sink.sink), ...idle]
        const active = activeConfig({ sinks: specs.map(({ config }) => config) })
        const relay = Introduction.layer.pipe(
          Layer.provide([lanesOf(specs), active, RelayInfo.layer({ version: "1", configFile: "" })]),
          Layer.provide(Layer.succeedContext(servicesOf(journal))),
        )
        yield* meanwhile(Layer.build(relay))
        return journal
      }),
    )
    const sum = () => [...asked.values()].reduce((sum, times) => sum + times, 0)
    const atStart = sum()
    yield* seconds(5)
    asked.clear()
    beats.characters = 0
    for (let n = 0; n < 10; n++) {
      for (const [at, journal] of journals.entries()) yield* journal.append(event(`${at} ${n}`), ["sink"])
      yield* seconds(1)
    }
    yield* seconds(2)
    expect(delivered.flat()).toHaveLength(40)
    return { atStart, running: sum(), beats: beats.characters }
  }).pipe(Effect.scoped)

suiteUnless(reasonToSkip(), "four relays with a thousand sinks, of which one gets events", () => {
  it.effect(
    "ask the database as often as with ten, and tell each other as much",
    function* () {
      const [few, many] = [yield* statements(10), yield* statements(1_000)]
      expect(many.atStart).toBeLessThan(few.atStart * 1.5)
      expect(many.running).toBeLessThan(few.running * 1.1)
      expect(many.beats).toBeLessThan(few.beats * 1.1)
    },
    180_000,
  )
})
