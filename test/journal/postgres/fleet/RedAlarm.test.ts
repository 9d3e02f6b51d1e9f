import { expect } from "bun:test"
import { Effect } from "effect"
import * as RedAlarm from "../../../../src/journal/postgres/fleet/RedAlarm.ts"
import { it } from "../../../lib/effect.ts"
import { suiteUnless } from "../../../lib/lacking.ts"
import { seeded } from "../../../lib/seeded.ts"
import { reasonToSkip, sharedPostgres } from "../../../parts/Postgres.ts"
import { event } from "../../samples.ts"
import { openDatabase } from "../database.ts"
import { meanwhile, relays, seconds } from "../relays.ts"

/** Three relays' alarms on one database, whose time is a count of steps. */
const alarms = Effect.fnUntraced(function* (seed: number) {
  const { url, sql } = yield* Effect.promise(sharedPostgres)
  const schema = `alarm_${process.pid}_${seed}`
  const ask = (text: string) => Effect.promise(() => sql(text.replaceAll("meta", `${schema}.meta`), "relay"))
  yield* Effect.promise(() => sql(`CREATE SCHEMA ${schema} AUTHORIZATION relay`, "relay"))
  const db = yield* openDatabase(url, { schema })
  yield* Effect.orDie(db.query("CREATE TABLE meta (key text PRIMARY KEY, value text NOT NULL)"))
  let now = 0
  const clocks = { wall: () => ++now, steady: () => ++now }
  const made = [0, 1, 2].map(() => RedAlarm.make(db, clocks))
  const value = Effect.map(
    ask("SELECT value FROM meta WHERE key = 'alarm'"),
    ([row]) => (row?.value ?? null) as string | null,
  )
  /** A relay is told what the database has; the lines that it shows then. */
  const hear = Effect.fnUntraced(function* (alarm: RedAlarm.RedAlarm) {
    const askedAt = ++now
    const told = yield* value
    yield* alarm.heard(told, askedAt)
    return alarm.state(told, askedAt).lines
  })
  const restore = (told: string | null) =>
    Effect.andThen(
      ask("DELETE FROM meta"),
      told === null ? Effect.void : ask(`INSERT INTO meta VALUES ('alarm', '${told.replaceAll("'", "''")}')`),
    )
  return { made, value, hear, restore }
})

suiteUnless(reasonToSkip(), "the alarm of a fleet", () => {
  it.effect("is raised again where a failover has lost it, until it is acknowledged", () =>
    Effect.gen(function* () {
      const { start, sql, promote } = yield* relays
      const [a, b] = [yield* start("a"), yield* start("b")]
      const red = Effect.forEach([a, b], ({ journal }) =>
        Effect.map(journal.status, ({ health, alarm }) => [health, alarm.lines.length]),
      )
      yield* a.journal.openLane("lake")
      yield* a.journal.append(event("one"), ["lake"])
      yield* sql("DELETE FROM relay.log")
      yield* seconds(3)
      expect(yield* red).toEqual([
        ["red", 1],
        ["red", 1],
      ])
      yield* sql("DELETE FROM relay.meta WHERE key = 'alarm'")
      yield* promote(2)
      yield* seconds(3)
      expect(yield* red).toEqual([
        ["red", 1],
        ["red", 1],
      ])
      yield* meanwhile(b.journal.acknowledge)
      yield* seconds(2)
      yield* promote(3)
      yield* seconds(3)
      expect(yield* red).toEqual([
        ["ok", 0],
        ["ok", 0],
      ])
    }).pipe(Effect.scoped),
  )

  it.effect("shows each line at every relay until it is acknowledged, whatever failovers lose", () =>
    Effect.gen(function* () {
      for (let seed = 1; seed <= 5; seed++) {
        const { made, value, hear, restore } = yield* alarms(seed)
        const next = seeded(seed)
        const any = () => made[Math.floor(next() * made.length)] as RedAlarm.RedAlarm
        const settle = Effect.andThen(Effect.forEach(made, hear), Effect.forEach(made, hear))
        const open = new Set<string>()
        /** A standby that is behind, and lines of which it does not know that they were acknowledged: it may have them red again. */
        let behind: { readonly value: string | null; readonly lines: Set<string> } | undefined
        const mayReturn = new Set<string>()
        for (let step = 0; step < 40; step++) {
          const what = next()
          if (what < 0.35) {
            yield* any().raiseDamaged(step)
            open.add(`Event ${step} `)
          } else if (what < 0.6) yield* hear(any())
          else if (what < 0.75) behind = { value: yield* value, lines: new Set([...open, ...mayReturn]) }
          else if (what < 0.9 && behind !== undefined) {
            yield* restore(behind.value)
            for (const line of behind.lines) mayReturn.add(line)
          } else {
            yield* settle
            yield* any().clear
            for (const line of [...open, ...mayReturn]) behind?.lines.add(line)
            open.clear()
            mayReturn.clear()
          }
        }
        yield* settle
        for (const shown of yield* Effect.forEach(made, hear)) {
          const lines = shown.map((line) => line.slice(0, line.indexOf("can't")))
          expect({ seed, lost: [...open].filter((line) => !lines.includes(line)) }).toEqual({ seed, lost: [] })
          const known = (line: string) => open.has(line) || mayReturn.has(line)
          expect({ seed, false: lines.filter((line) => !known(line)) }).toEqual({ seed, false: [] })
        }
        yield* any().clear
        for (const shown of yield* Effect.forEach(made, hear)) expect({ seed, shown }).toEqual({ seed, shown: [] })
      }
    }).pipe(Effect.scoped),
  )
})
