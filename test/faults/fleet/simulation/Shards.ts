/** The databases of a simulated fleet, and which of them has an account. */
import { crc32 } from "node:zlib"
import { Effect, Result, type Scope } from "effect"
import pg from "pg"
import { type JournalError, unavailable } from "../../../../src/journal/Journal.ts"
import type { Database } from "../../../../src/journal/postgres/connection/Database.ts"
import type { DatabaseError } from "../../../../src/journal/postgres/connection/DatabaseError.ts"
import * as DatabaseSchema from "../../../../src/journal/postgres/tables/DatabaseSchema.ts"
import { floorOf } from "../../../../src/journal/Sequences.ts"
import { openDatabase } from "../../../journal/postgres/database.ts"
import type { Accepted, Loss } from "./Losses.ts"
import { Link } from "./Machines.ts"

/** Where each account is. */
const accounts = "CREATE TABLE account (name text PRIMARY KEY, shard int NOT NULL)"

const refused = ({ message }: DatabaseError): JournalError => unavailable(message)

/** The journal's tables on a standby. */
const tables = "stream member log pruned seen progress retry dead outcome ended imported audit hour sink meta".split(
  " ",
)

/** Gives the tables the rows that were kept. */
const restoring = tables.flatMap((table) => [
  `DELETE FROM ${table}`,
  `INSERT INTO ${table} OVERRIDING SYSTEM VALUE TABLE behind_${table}`,
])

const deadlock = "40P01"

const onTimeline = (schema: string, timeline: number): string =>
  `CREATE OR REPLACE FUNCTION ${schema}.server_timeline() RETURNS bigint LANGUAGE sql STABLE AS 'SELECT ${timeline}::bigint'`

const accepted = async (client: pg.Client): Promise<Accepted> => {
  const width = floorOf(1)
  const { rows } = await client.query<{ stream: string; accepted: string }>(
    `SELECT stream, max(last) - stream * ${width} - sum(void) AS accepted FROM (
       SELECT first / ${width} AS stream, first + count - 1 AS last, cardinality(void) AS void FROM log
       UNION ALL SELECT stream, last, void FROM pruned
     ) AS rows GROUP BY stream`,
  )
  return new Map(rows.map(({ stream, accepted }) => [Number(stream), Number(accepted)]))
}

/** The lanes of a stream. */
export interface StreamLanes {
  readonly stream: number
  readonly owner: string | null
  readonly lanes: ReadonlyArray<string>
  readonly names: Readonly<Record<string, { readonly to: string }>>
}

/** One database: a schema of its own, on the server of the tests. */
export class Shard {
  /** Between it and all relays. */
  readonly link = new Link()
  /** Appends that were stored although another epoch had started before they were sent. */
  readonly trespasses = new Set<string>()
  readonly #url: string
  readonly #schema: string
  /** The schema of the server that wrote before a split. */
  readonly #former: string
  #timeline = 1
  /** Events that the former server had accepted when another server was promoted. */
  #atSplit: Accepted = new Map()

  constructor(url: string, schema: string) {
    this.#url = url
    this.#schema = schema
    this.#former = `${schema}_former`
  }

  get open(): Effect.Effect<Database, never, Scope.Scope> {
    return Effect.map(openDatabase(this.#url, { schema: this.#schema }), (db) => this.#watched(db))
  }

  /** The server that wrote before a split. */
  get openFormer(): Effect.Effect<Database, never, Scope.Scope> {
    return openDatabase(this.#url, { schema: this.#former })
  }

  #watched(db: Database): Database {
    return {
      ...db,
      queryUnsafe: async <Row>(...all: Parameters<Database["queryUnsafe"]>) => {
        const [, , params = [], options] = all
        if (options?.name !== "append") return db.queryUnsafe<Row>(...all)
        const [stream, claim] = params
        const epoch = Number((claim as ReadonlyArray<string>)[0])
        const asked = await db.queryUnsafe<{ epoch: number }>("work", "SELECT epoch FROM stream WHERE id = $1", [
          stream,
        ])
        const answer = await db.queryUnsafe<Row>(...all)
        const before = Result.isSuccess(asked) ? asked.success.rows[0]?.epoch : undefined
        const [row] = Result.isSuccess(answer) ? (answer.success.rows as ReadonlyArray<{ owned?: boolean }>) : []
        if (row?.owned === true && before !== undefined && before > epoch) {
          this.trespasses.add(`an append to stream ${stream} under epoch ${epoch} was taken, in epoch ${before}`)
        }
        return answer
      },
    }
  }

  /** Copies the tables, as the state of a standby that receives nothing more. */
  remember(): Promise<void> {
    const statements = tables.flatMap((table) => [
      `DROP TABLE IF EXISTS behind_${table}`,
      `CREATE TABLE behind_${table} AS TABLE ${table}`,
    ])
    return this.#undisturbed(async (client) => {
      await client.query("BEGIN ISOLATION LEVEL REPEATABLE READ")
      for (const statement of statements) await client.query(statement)
      await client.query("COMMIT")
    })
  }

  /** Promotes another server, with all rows or with the copied ones. */
  promote(isBehind: boolean): Promise<Loss> {
    this.#timeline += 1
    return this.#become([...(isBehind ? restoring : []), onTimeline(this.#schema, this.#timeline)])
  }

  /** From now on the same server has the state that was kept, as after the restore of a snapshot or a dump. */
  goBack(): Promise<Loss> {
    return this.#become(restoring)
  }

  /** Another server takes writes from now on, and the former one goes on for those who are left with it. */
  async split(): Promise<void> {
    const former = this.#timeline
    this.#timeline += 1
    await this.#become([
      ...tables.flatMap((table) => [
        `DELETE FROM ${this.#former}.${table}`,
        `INSERT INTO ${this.#former}.${table} OVERRIDING SYSTEM VALUE TABLE ${table}`,
      ]),
      ...["audit", "ended"].map(
        (table) =>
          `SELECT setval(pg_get_serial_sequence('${this.#former}.${table}', 'id'), (SELECT coalesce(max(id), 1) FROM ${table}))`,
      ),
      onTimeline(this.#former, former),
      onTimeline(this.#schema, this.#timeline),
    ])
    this.#atSplit = await this.#acceptedIn(this.#former)
  }

  /** Ends the former server: the events that it accepted since the split are lost. */
  async endFormer(): Promise<Loss> {
    return { before: await this.#acceptedIn(this.#former), after: this.#atSplit }
  }

  #acceptedIn(schema: string): Promise<Accepted> {
    return this.#with(async (client) => {
      await client.query(`SET search_path = ${schema}`)
      return accepted(client)
    })
  }

  #become(statements: ReadonlyArray<string>): Promise<Loss> {
    return this.#undisturbed(async (client) => {
      await client.query("BEGIN")
      await client.query(`LOCK TABLE ${tables.join(", ")} IN ACCESS EXCLUSIVE MODE`)
      const before = await accepted(client)
      for (const statement of statements) await client.query(statement)
      const after = await accepted(client)
      await client.query("COMMIT")
      return { before, after }
    })
  }

  /** The streams, with their lanes and the other names of these, as `progress` has them or the same table of a standby. */
  lanes(progress: string): Promise<ReadonlyArray<StreamLanes>> {
    return this.#with(async (client) => {
      const { rows } = await client.query(
        `SELECT stream, owner, ARRAY(SELECT jsonb_object_keys(lanes)) AS lanes, names
         FROM ${progress} JOIN stream ON id = stream ORDER BY stream`,
      )
      return rows as ReadonlyArray<StreamLanes>
    })
  }

  /** The notes of the audit log. */
  auditNotes(): Promise<ReadonlyArray<string>> {
    return this.#with(async (client) => {
      const { rows } = await client.query<{ note: string }>(`SELECT note FROM ${this.#schema}.audit`)
      return rows.map(({ note }) => note)
    })
  }

  async #undisturbed<A>(work: (client: pg.Client) => Promise<A>): Promise<A> {
    for (;;) {
      try {
        return await this.#with(work)
      } catch (error) {
        // Relays lock tables in another order: of two that wait for each other PostgreSQL ends one.
        if (!(error instanceof pg.DatabaseError) || error.code !== deadlock) throw error
      }
    }
  }

  async #with<A>(work: (client: pg.Client) => Promise<A>): Promise<A> {
    const client = new pg.Client({ connectionString: this.#url })
    await client.connect()
    try {
      await client.query(`SET search_path = ${this.#schema}; SET lock_timeout = 0`)
      return await work(client)
    } finally {
      await client.end()
    }
  }

  /** Has its tables before the first relay comes. */
  get prepare(): Effect.Effect<void, JournalError> {
    return Effect.gen({ self: this }, function* () {
      const db = yield* this.open
      yield* Effect.mapError(DatabaseSchema.migrate(db, this.#schema), refused)
      yield* Effect.mapError(DatabaseSchema.migrate(yield* this.openFormer, this.#former), refused)
      yield* Effect.mapError(db.query(accounts), refused)
    }).pipe(Effect.scoped)
  }
}

/**
 * Finds the database of an account, for one relay. An account stays in the database of its first event, so all events
 * of a key and all duplicates meet in one database. An added database gets only accounts that nobody has seen.
 */
export class Directory {
  readonly #first: () => Database | undefined
  readonly #count: () => number
  readonly #known = new Map<string, number>()

  /** `first` is the database that says where accounts are, `count` how many this relay knows of. */
  constructor(first: () => Database | undefined, count: () => number) {
    this.#first = first
    this.#count = count
  }

  shardOf(account: string): Effect.Effect<number, JournalError> {
    return Effect.suspend(() => {
      const known = this.#known.get(account)
      if (known !== undefined) return Effect.succeed(known)
      const db = this.#first()
      if (db === undefined) return Effect.fail(unavailable("simulated: nobody says where the account is"))
      return Effect.flatMap(Effect.mapError(this.#ask(db, account), refused), (shard) => {
        if (shard >= this.#count()) return Effect.fail(unavailable("simulated: this relay is yet to be reloaded"))
        this.#known.set(account, shard)
        return Effect.succeed(shard)
      })
    })
  }

  #ask(db: Database, account: string) {
    return Effect.map(
      db.query<{ shard: number }>(
        "INSERT INTO account VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET name = excluded.name RETURNING shard",
        [account, crc32(account) % this.#count()],
      ),
      ({ rows }) => rows[0]?.shard ?? 0,
    )
  }
}
