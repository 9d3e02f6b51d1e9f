/**
 * Commits wait for a synchronous standby that is unavailable, an operator ends
 * the waits, and the network is cut within the server's answer, after each byte
 * of it. No delivery is answered as stored before a standby has it.
 */
import { Duration, Effect, Exit, Logger, Scope } from "effect"
import type { WholeJournal } from "../../../src/journal/JournalType.ts"
import * as PostgresJournal from "../../../src/journal/postgres/PostgresJournal.ts"
import * as DatabaseSchema from "../../../src/journal/postgres/tables/DatabaseSchema.ts"
import { openDatabase } from "../../journal/postgres/database.ts"
import { event } from "../../journal/samples.ts"
import { makePostgres, missing, type Postgres } from "../../parts/Postgres.ts"
import { makeProxy, type Proxy as TcpProxy } from "../../parts/Proxy.ts"
import { type Line, mutantsOf } from "../Line.ts"
import { eventually, skipped } from "../relay/Subject.ts"

/** Bytes from one cut to the next. */
const steps = { normal: 53, long: 1 }
/** A commit is sent this many times before the standby is back, and the answer of each but the last is cut. */
const tries = 3
const ends = ["cancel", "terminate"] as const
/** The sink with an order has its events in the shared stream, the other one in the relay's own. */
const sinks = ["lake", "ordered"] as const

interface Wait {
  readonly pid: number
  /** The client's, as the server sees it. */
  readonly port: number
}

const waits = `SELECT pid, client_port AS port FROM pg_stat_activity
  WHERE wait_event = 'SyncRep' AND query ~ 'INSERT INTO log|append_shared'`

interface Stage {
  readonly server: Postgres
  readonly proxy: TcpProxy
  readonly journal: WholeJournal
}

/** Commits wait for the standby of this name from now on, or for none if it is empty. */
const follow = async ({ server }: Stage, standby: string): Promise<void> => {
  await server.sql(`ALTER SYSTEM SET synchronous_standby_names = '${standby}'`)
  await server.sql("SELECT pg_reload_conf()")
}

/** A delivery, and its answer once there is one. */
class Delivery {
  answer: string | undefined
  readonly answered: Promise<void>

  constructor({ journal }: Stage, id: string, sink: string) {
    this.answered = Effect.runPromise(Effect.exit(journal.append(event(id), [sink]))).then((exit) => {
      this.answer = Exit.isSuccess(exit) ? exit.value : "refused"
    })
  }

  /** The next wait of its commit, on another connection than the last; `undefined` if it was answered instead. */
  async wait({ server }: Stage, last?: Wait): Promise<Wait | undefined> {
    let found: Wait | undefined
    const isOver = async () => {
      const rows = (await server.sql(waits)) as unknown as ReadonlyArray<Wait>
      found = rows.find(({ pid }) => pid !== last?.pid)
      return found !== undefined || this.answer !== undefined
    }
    if (!(await eventually(isOver, 30))) throw new Error("a commit neither waits for the standby nor is answered")
    return found
  }
}

/** A delivery whose commit waits. The server requires the standby only some milliseconds after its settings changed. */
const waiting = async (stage: Stage, id: string, sink: string) => {
  for (let sent = 1; ; sent++) {
    const delivery = new Delivery(stage, `${id} ${sent}`, sink)
    const wait = await delivery.wait(stage)
    if (wait !== undefined) return { delivery, wait, sent }
  }
}

interface Cut {
  readonly end: (typeof ends)[number]
  readonly sink: (typeof sinks)[number]
  /** Bytes of the answer that pass. */
  readonly at: number
}

interface Tried {
  /** Whether the answer of the first try is at least that long. */
  readonly isWithin: boolean
  readonly sent: number
  readonly broken: ReadonlyArray<string>
}

const tryCut = async (stage: Stage, { end, sink, at }: Cut): Promise<Tried> => {
  const { server, proxy } = stage
  await follow(stage, "nobody")
  const { delivery, wait, sent } = await waiting(stage, `${end} ${sink} ${at}`, sink)
  let last: Wait | undefined = wait
  let isWithin = false
  for (let count = 1; last !== undefined && count < tries; count++) {
    const before = proxy.cutsWithin()
    proxy.cutWithin(last.port, at)
    await server.sql(`SELECT pg_${end}_backend(${last.pid})`)
    last = await delivery.wait(stage, last)
    if (count === 1) isWithin = proxy.cutsWithin() > before
  }
  const early = delivery.answer
  await follow(stage, "")
  await delivery.answered
  const what = `pg_${end}_backend, ${sink}, cut after ${at} bytes`
  // The commit of a refused delivery may have been stored or not.
  if (early !== undefined && early !== "refused") {
    return { isWithin, sent, broken: [`${what}: answered ${early}, and no standby had it`] }
  }
  const { answer = "" } = delivery
  return { isWithin, sent, broken: answer === "appended" ? [] : [`${what}: ${answer} once the standby was back`] }
}

const open = Effect.fnUntraced(function* (server: Postgres, proxy: TcpProxy) {
  const db = yield* openDatabase(server.url.replace(`:${server.port}/`, `:${proxy.port}/`))
  yield* DatabaseSchema.migrate(db, "relay")
  const journal = yield* PostgresJournal.make(db, {
    name: "a",
    retention: Duration.days(1),
    maxSize: 1024 ** 3,
    duplicates: { age: Duration.hours(24), count: 100_000 },
  })
  journal.knowSinks?.([{ name: "lake" }, { name: "ordered", exclusive: true }])
  // Lanes that exist by then take no statement of their own.
  for (const sink of sinks) yield* journal.append(event(`before ${sink}`), [sink])
  return journal
})

const line = "fleet-cut-commit"

export const cutCommit: Line = {
  name: line,
  fault: "answers of commits cut off while a synchronous standby is away",
  run: async ({ long }) => {
    const lacking = missing()
    if (lacking !== undefined) return skipped(lacking)
    const server = await makePostgres()
    const proxy = await makeProxy(server.port)
    const scope = Scope.makeUnsafe()
    const broken: Array<string> = []
    let [rounds, sent] = [0, sinks.length]
    try {
      const journal = await Effect.runPromise(
        open(server, proxy).pipe(Scope.provide(scope), Effect.provide(Logger.layer([]))),
      )
      const stage = { server, proxy, journal }
      for (const end of ends) {
        for (const sink of sinks) {
          let isWithin = true
          for (let at = 0; isWithin && broken.length < 3; at += long ? steps.long : steps.normal) {
            const tried = await tryCut(stage, { end, sink, at })
            rounds += 1
            sent += tried.sent
            isWithin = tried.isWithin
            broken.push(...tried.broken)
          }
        }
      }
      const [row] = await server.sql("SELECT sum(count - cardinality(void))::int AS stored FROM relay.log", "relay")
      if (broken.length === 0 && row?.stored !== sent) broken.push(`${sent} were sent, and ${row?.stored} are stored`)
    } finally {
      await Effect.runPromise(Scope.close(scope, Exit.void))
      await proxy.close()
      await server.stop()
    }
    return { rounds, acknowledged: sent, lost: 0, duplicates: 0, broken }
  },
}

export const cutMutants = mutantsOf({
  "fleet-cut-commit": {
    "a commit that ends with the server's warning counts as lost": [
      "src/journal/postgres/connection/Connection.ts",
      'notice.routine === "SyncRepWaitForLSN"',
      'notice.routine === ""',
    ],
    "a later try of a commit waits for the standby too": [
      "src/journal/postgres/tables/DatabaseSchema.ts",
      "IF FOUND THEN\n         PERFORM FROM stream s WHERE s.id = 1 FOR KEY SHARE;",
      "IF FOUND THEN",
    ],
  },
})
