/** Asks PostgreSQL's query planner which statements of the journal read more than their result, with tables as after a year. */
import { expect } from "bun:test"
import { Duration, Effect, Exit, Schedule, Scope } from "effect"
import { lossRecord } from "../../../src/journal/AuditLog.ts"
import { collect } from "../../../src/journal/EventQuery.ts"
import type { WholeJournal } from "../../../src/journal/JournalType.ts"
import type { Database, Params, Queries } from "../../../src/journal/postgres/connection/Database.ts"
import * as Housekeeping from "../../../src/journal/postgres/fleet/Upkeep.ts"
import * as PostgresJournal from "../../../src/journal/postgres/PostgresJournal.ts"
import * as AuditTable from "../../../src/journal/postgres/tables/AuditTable.ts"
import * as DatabaseSchema from "../../../src/journal/postgres/tables/DatabaseSchema.ts"
import { operation } from "../../contract/journal/auditContract.ts"
import { it } from "../../lib/effect.ts"
import { suiteUnless } from "../../lib/lacking.ts"
import { reasonToSkip, sharedPostgres } from "../../parts/Postgres.ts"
import { allEvents, play } from "../histories.ts"
import { event } from "../samples.ts"
import { openDatabase } from "./database.ts"

/** The tables that grow with events, with the number of test rows. */
const rows = { log: 20_000, seen: 40_000, outcome: 20_000, ended: 40_000, retry: 10_000, dead: 10_000 }
/** Tables that grow only with the relays, the streams and the sinks, or keep an audit log of 20,000 operations. */
const isSmall = new Set(["meta", "stream", "member", "progress", "hour", "sink", "pruned", "audit"])

/** Statements that may read more than their result, with their tables, by reason. */
const allowed: Readonly<Record<string, ReadonlyArray<string>>> = {
  "once when a relay takes a stream": [
    "log: SELECT max(first + count - 1) AS head, coalesce(sum(count - …",
    "retry: SELECT lane, sequence FROM retry WHERE sequence > $1 AND seq…",
  ],
  "once when a sink is renamed": ["imported: UPDATE imported SET lanes = lanes - $1::text || to_jsonb($2:…"],
  "once after a failover": ["log: WITH lost AS MATERIALIZED (SELECT first, timeline, place FRO…"],
  "reads no record, and rests 20 times as long as it took": [
    "dead: SELECT lane, webhook, count(*) AS letters, coalesce(sum(size…",
  ],
  "once a minute; an index that knows the oldest delivery would be written by each": [
    "seen: SELECT (SELECT greatest(reltuples, 0)::bigint FROM pg_class …",
  ],
  "the other deliveries of the same id": ["seen: WITH owned AS MATERIALIZED (SELECT epoch >> 32 AS timeline F…"],
  "once an hour": ["dead, retry: WITH pruned AS ( DELETE FROM outcome WHERE bucket >= $1::big…"],
  "reads a range of an index for each row, which the planner can't estimate": [
    "dead, ended, outcome, retry: WITH gone AS ( DELETE FROM log WHERE first = ANY($3::bigint[…",
  ],
  "4 bytes of each id of an event or an object, by which it is found": [
    "log: SELECT first, count, void, altered, received_to, found, CASE… given $1 $2 $3 $7",
    "log: SELECT first, count, void, altered, received_to, found, CASE… given $1 $2 $7 $8 $9",
  ],
  "begins among the dead letters of one event": [
    "dead: SELECT lane, sequence, at, type, attempts, record FROM ( SEL…",
    "dead: SELECT lane, sequence, at, type, attempts, record FROM ( SEL… given $2 $3 $4",
  ],
  "a search that has looked through the log looks through what is kept beyond it": [
    "dead, log, retry: SELECT DISTINCT ON (sequence) sequence, record FROM ((SELECT… given $1 $3",
  ],
  "a list for an operator, of at most 10,000 rows for each sink": [
    "alert: SELECT lane, key, state FROM alert ORDER BY lane, key…",
  ],
}

interface Plan {
  readonly "Node Type": string
  readonly "Parent Relationship"?: string
  readonly "Relation Name"?: string
  readonly "Plan Rows": number
  readonly Plans?: ReadonlyArray<Plan>
}

/** Returns the tables in a plan's scans that read more rows than they return, or read many rows. */
const scannedBy = (plan: Plan, isLimited = false): ReadonlyArray<string> => {
  const table = plan["Relation Name"]
  const isBounded = "Index Cond" in plan || "Recheck Cond" in plan || "TID Cond" in plan
  const isLong = isLimited ? "Filter" in plan : !isBounded || plan["Plan Rows"] > 1_000
  const isScan = plan["Node Type"].endsWith("Scan") && table !== undefined && !isSmall.has(table)
  const isInnerLimited = plan["Node Type"] === "Limit" || (isLimited && !isBlocking.test(plan["Node Type"]))
  return [
    ...(isScan && isLong ? [table] : []),
    // An "InitPlan" is a query of its own, which the limit doesn't end.
    ...(plan.Plans ?? []).flatMap((inner) =>
      scannedBy(inner, isInnerLimited && inner["Parent Relationship"] !== "InitPlan"),
    ),
  ]
}
/** These nodes read all their input before they return the first row. */
const isBlocking = /^(Sort|Aggregate|Hash)/

const hasPlan = /^(SELECT|INSERT|UPDATE|DELETE|WITH)\b/

/** Returns the start of a statement. If some parameters are null, also lists the others. */
const titleOf = (sql: string, params: Params): string => {
  const given = params.flatMap((value, index) => (value === null ? [] : [`$${index + 1}`]))
  return `${sql.slice(0, 60)}…${given.length < params.length ? ` given ${given.join(" ")}` : ""}`
}

interface Statement {
  readonly sql: string
  readonly params: Params
}

/** Records the statements that a database gets, once for each set of parameters that are not null. */
const recorded = (db: Database) => {
  const seen = new Map<string, Statement>()
  const note = (sql: string, params: Params = []) => {
    const text = sql.replaceAll(/\s+/g, " ").trim()
    const given = params.map((value) => value !== null)
    if (hasPlan.test(text)) seen.set(JSON.stringify([text, given]), { sql: text, params })
  }
  const noting = (queries: Queries): Queries => ({
    query: (sql, params, options) => {
      note(sql, params)
      return queries.query(sql, params, options)
    },
  })
  const database: Database = {
    ...db,
    ...noting(db),
    transact: (work) => db.transact((queries) => work(noting(queries))),
    queryUnsafe: (use, sql, params, options) => {
      note(sql, params)
      return db.queryUnsafe(use, sql, params, options)
    },
  }
  return { seen, database }
}

const options = (name: string, retention: Duration.Duration) => ({
  ...{ name, retention, maxSize: 1024 ** 3 },
  duplicates: { age: Duration.hours(1), count: 1000 },
})

/** Does with a journal whatever operators and lanes do. */
const use = Effect.fnUntraced(function* (journal: WholeJournal) {
  yield* play(journal, 7, 100)
  const all = yield* allEvents(journal)
  const [first, second, ...more] = all
  if (first === undefined || second === undefined) throw new Error("the history has no events")
  const queries = [
    { id: first.event.id },
    { object: "cli_1" },
    { since: 1, until: 2 },
    { outcome: "dead" },
    { outcome: "retrying" },
  ] as const
  for (const query of queries) yield* collect({ ...query, limit: 5 }, journal.events)
  yield* journal.end
  const letters = yield* journal.deadLetters({ limit: 10 })
  for (const lane of ["lake", "audit"]) yield* journal.returned(lane)
  yield* journal.deadLetters({ lane: "lake", limit: 5, ...(letters[0] && { before: letters[0].id }) })
  const reroute = (event: (typeof letters)[number]["entry"]["event"]) => ({ event, sinks: ["lake"] })
  yield* journal.replayDeadLetters(
    letters.map(({ id }) => id),
    reroute,
  )
  yield* journal.import("another", [{ sequence: 9, event: event("another"), replayed: false, pending: ["lake"] }])
  yield* journal.audit.record(operation())
  yield* journal.audit.list({ limit: 5 })
  yield* journal.hour.replace("{}")
  yield* journal.hour.read
  yield* journal.setPaused("audit", true)
  yield* journal.setPaused("audit", false)
  yield* journal.acknowledge
  journal.knowSinks?.([{ name: "ordered", exclusive: true }])
  yield* journal.append(event("ordered"), ["ordered"])
  yield* journal.read(0, 100)
  yield* journal.erase([second.sequence, ...more.slice(0, 3).map(({ sequence }) => sequence)], true)
  yield* journal.scrub
  yield* journal.openLane("renamed", { renamedFrom: "audit" })
  yield* journal.openLane("both")
  yield* journal.append(event("both"), ["both"])
  yield* journal.openLane("renamed", { renamedFrom: "both" })
  yield* journal.openLane("left")
  yield* journal.append(event("left"), ["left"])
  yield* journal.append(event("left too"), ["left"])
})

/** Fills the tables for each stream of the schema. */
const filling = (schema: string) => `
  SET search_path = ${schema};
  INSERT INTO log (first, count, received_from, received_to, routes, keys, ids, void, altered, bytes)
  SELECT floor + 1000000 + n * 8, 8, at, at, '[["lake"]]', decode(repeat('00', 128), 'hex'), decode(repeat('00', 32), 'hex'),
    '{}', '{}', decode(repeat('00', 400), 'hex')
  FROM (SELECT id * 4398046511104 AS floor FROM stream) AS stream, generate_series(1, ${rows.log}) AS n,
    LATERAL (SELECT (extract(epoch FROM now()) * 1000)::bigint - (${rows.log} - n) * 1000 AS at) AS at;
  INSERT INTO seen SELECT n, n, n, n, n FROM generate_series(1, ${rows.seen}) AS n ON CONFLICT DO NOTHING;
  INSERT INTO outcome SELECT id * 34359738368 + 10000 + n, 'lake', '\\x00' FROM stream, generate_series(1, ${rows.outcome}) AS n;
  INSERT INTO ended (sequence, lane, at, outcome, last, copy, note)
  SELECT id * 4398046511104 + 1000000 + n * 8, 'lake', n, 'dropped', CASE WHEN n % 1000 = 0 THEN id * 4398046511104 + 1000000 + n * 8 END,
    CASE WHEN n % 2 = 0 THEN n END, '{}' FROM stream, generate_series(1, ${rows.ended}) AS n;
  INSERT INTO retry SELECT 'lane' || n % 50, id * 4398046511104 + 1000000 + n * 8, '', n, 1000, n, 1, '[]', decode(repeat('00', 400), 'hex')
  FROM stream, generate_series(1, ${rows.retry}) AS n;
  INSERT INTO dead SELECT 'lane' || n % 50, id * 4398046511104 + 2000000 + n * 8, n, 'a', 400, '[]', decode(repeat('00', 400), 'hex'), 'w'
  FROM stream, generate_series(1, ${rows.dead}) AS n;
  INSERT INTO imported SELECT 'other', n, '[]' FROM generate_series(1, ${rows.retry}) AS n;
  INSERT INTO audit (at, who, "by", what, "on", result, note, relay)
  SELECT n, '', '', '', '', '', '', '' FROM generate_series(1, 20000) AS n;`

suiteUnless(reasonToSkip(), "the statements of the journal on PostgreSQL", () => {
  it.live(
    "read no more rows than they return, but for those that may",
    function* () {
      const schema = `scans_${process.pid}`
      const server = yield* Effect.promise(sharedPostgres)
      const { seen, database } = recorded(yield* openDatabase(server.url, { schema }))
      yield* DatabaseSchema.migrate(database, schema)
      const opened = Effect.fnUntraced(function* (name: string, retention = Duration.days(1)) {
        const scope = yield* Scope.make()
        const journal = yield* Scope.provide(PostgresJournal.make(database, options(name, retention)), scope)
        return { journal, close: Scope.close(scope, Exit.void) }
      })
      const has = (sql: RegExp) =>
        Effect.sync(() => [...seen.values()].some((one) => sql.test(one.sql))).pipe(
          Effect.repeat({ until: (isThere) => isThere, schedule: Schedule.spaced("20 millis") }),
        )
      const a = yield* opened("a")
      yield* use(a.journal)
      const b = yield* opened("b", Duration.zero)
      // The lane is in another relay's stream.
      yield* b.journal.moveLane("left", "moved")
      yield* b.journal.dropLane("moved")
      yield* a.close
      yield* has(/^WITH gone AS \( DELETE FROM log/)
      yield* Housekeeping.forgetDuplicates(database, { age: 0, count: 1 })
      yield* AuditTable.putNew(database, [{ ...lossRecord(1, "lost"), relay: "a" }])
      yield* b.close
      yield* Effect.promise(() => server.sql(filling(schema), "relay"))
      for (const table of [...Object.keys(rows), ...isSmall, "imported"])
        yield* Effect.promise(() => server.sql(`VACUUM ANALYZE ${schema}.${table}`, "relay"))
      const found = new Set<string>()
      for (const { sql, params } of seen.values()) {
        const { rows } = yield* database.query<{ readonly "QUERY PLAN": ReadonlyArray<{ readonly Plan: Plan }> }>(
          `EXPLAIN (FORMAT JSON) ${sql}`,
          params,
        )
        const plans = rows.flatMap((row) => row["QUERY PLAN"])
        const scanned = new Set(plans.flatMap(({ Plan }) => scannedBy(Plan)))
        if (scanned.size > 0) found.add(`${[...scanned].toSorted().join(", ")}: ${titleOf(sql, params)}`)
      }
      expect(seen.size).toBeGreaterThan(80)
      // The planner goes by samples of the rows, so not each of the allowed statements is found each time.
      expect([...found.difference(new Set(Object.values(allowed).flat()))]).toEqual([])
    },
    120_000,
  )
})
