import { expect } from "bun:test"
import { Effect } from "effect"
import * as RedAlarm from "../../../../src/journal/postgres/fleet/RedAlarm.ts"
import { migrate } from "../../../../src/journal/postgres/tables/DatabaseSchema.ts"
import { it } from "../../../lib/effect.ts"
import { suiteUnless } from "../../../lib/lacking.ts"
import { seeded } from "../../../lib/seeded.ts"
import { reasonToSkip, sharedPostgres } from "../../../parts/Postgres.ts"
import { event } from "../../samples.ts"
import { openDatabase } from "../database.ts"
import { meanwhile, relays, seconds } from "../relays.ts"

/** The alarms of three relays on one database. Time is a count of steps. */
const alarms = Effect.fnUntraced(function* (seed: number) {
  const { url, sql } = yield* Effect.promise(sharedPostgres)
  const schema = `alarm_${process.pid}_${seed}`
  const ask = (text: string) => Effect.promise(() => sql(text.replaceAll("meta", `${schema}.meta`), "relay"))
  yield* Effect.promise(() => sql(`CREATE SCHEMA ${schema} AUTHORIZATION relay`, "relay"))
  const db = yield* openDatabase(url, { schema })
  yield* Effect.orDie(migrate(db, schema))
  let now = 0
  const clocks = { wall: () => ++now, steady: () => ++now }
  const made = [0, 1, 2].map((at) => RedAlarm.make(db, clocks, `relay ${at}`))
  const value = Effect.map(
    ask("SELECT value FROM meta WHERE key = 'alarm'"),
    ([row]) => (row?.value ?? null) as string | null,
  )
  /** Gives an alarm the value in the database. Returns the lines that it shows then. */
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
  const audit = Effect.promise(() => sql(`SELECT note FROM ${schema}.audit`, "relay"))
  return { made, value, hear, restore, audit }
})

suiteUnless(reasonToSkip(), "the alarm of a fleet", () => {
  it.effect("is raised again if a failover has lost it, until it is acknowledged", function* () {
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
  })

  it.effect("is one line for a damaged row, and stays in the audit log after it was acknowledged", function* () {
    const { start, sql } = yield* relays
    const { journal } = yield* start("a")
    yield* journal.openLane("lake")
    yield* Effect.forEach(["one", "two", "three"], (id) => journal.append(event(id), ["lake"]), {
      concurrency: "unbounded",
    })
    yield* sql("UPDATE relay.log SET bytes = decode(repeat('00', octet_length(bytes)), 'hex')")
    for (let looked = 0; looked < 2; looked++) yield* Effect.ignore(journal.events({ limit: 10 }))
    yield* Effect.ignore(journal.pastLost(0))
    yield* seconds(2)
    const { alarm } = yield* journal.status
    expect(alarm.lines.join()).toMatch(/^Events 1 to 3 can't be read as they were written: [^,]*$/)
    yield* meanwhile(journal.acknowledge)
    yield* seconds(2)
    expect((yield* journal.status).alarm.lines).toEqual([])
    const records = yield* meanwhile(journal.audit.list({ limit: 10 }))
    expect(records).toMatchObject([{ who: "relay", what: "loss", note: alarm.lines[0], relay: "a" }])
  })

  it.effect("shows 20 lines of more losses, and the audit log has each once", function* () {
    const { made, hear, audit } = yield* alarms(100)
    const [first, second] = made
    if (first === undefined || second === undefined) throw new Error("there are three")
    for (let at = 0; at < 60; at += 2) yield* first.raiseDamaged(at)
    for (let heard = 0; heard < 3; heard++) {
      for (const alarm of made) expect(yield* hear(alarm)).toHaveLength(21)
    }
    expect(yield* audit).toHaveLength(30)
    yield* second.clear
    for (const alarm of made) expect(yield* hear(alarm)).toEqual([])
  })

  it.effect("shows each line at every relay until it is acknowledged, whatever failovers lose", function* () {
    for (let seed = 1; seed <= 5; seed++) {
      const { made, value, hear, restore } = yield* alarms(seed)
      const next = seeded(seed)
      const any = () => made[Math.floor(next() * made.length)] as RedAlarm.RedAlarm
      const settle = Effect.andThen(Effect.forEach(made, hear), Effect.forEach(made, hear))
      const open = new Set<string>()
      /**
       * A standby that is behind. It doesn't know which of `lines` were acknowledged, so it may show them red again.
       */
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
  })
})
