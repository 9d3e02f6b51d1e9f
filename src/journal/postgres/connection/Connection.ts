/**
 * One connection to one server, over `pg`. No other file uses that library.
 *
 * **Guarantee.** An open connection has the session settings that the relay requires, and its server has fsync
 * on. Its statements never reject. A statement that gets no answer in time destroys its connection.
 */

import { readFileSync } from "node:fs"
import type { Duplex } from "node:stream"
import { Result } from "effect"
import type { ClientConfig, CustomTypesConfig, Client as PgClient } from "pg"
import { localUser } from "../../../runtime/Files.ts"
import type { Answer, Params, QueryOptions, Server } from "./Database.ts"
import { type DatabaseError, databaseError, errorAt, lost, ofConnecting, ofServer, readOnly } from "./DatabaseError.ts"
import type { DatabaseUrl, Host } from "./DatabaseUrl.ts"

/**
 * The session settings that the relay requires, and how it applies them.
 *
 * A direct connection gets them once. Behind a pooler no session state is certain to last: each transaction may run
 * in another session, with settings of other clients. There each transaction sets its own settings for itself, and
 * no statement is prepared. This works in every pooler mode that has transactions, and changes nothing for other
 * clients.
 *
 * A server's description of itself. A server may lack some of these settings.
 */
const facts = `SELECT
  pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on' AS "isReadOnly",
  coalesce(current_setting('fsync', true), 'on') = 'on' AS fsync,
  current_setting('server_encoding') AS encoding,
  current_setting('server_version') AS version,
  current_setting('server_version_num')::int AS "versionNumber",
  pg_backend_pid() AS process`

interface Facts extends Omit<Server, "name" | "isPooled"> {
  readonly isReadOnly: boolean
  readonly fsync: boolean
  /** The database's encoding. */
  readonly encoding: string
  /** The process that answers. A pooler names another one when a client logs in. */
  readonly process: number
}

/** The server's timeline, which rises with each promotion of a standby. */
const timeline = "('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int"

/** The identifier of the server's data. A standby shares its primary's; `pg_upgrade` creates another. */
const systemIdentifier = "(SELECT system_identifier::text FROM pg_control_system())"

/** Sequential scans are off, because a plan made while a table was small is kept while the table grows. */
const settings = (schema: string): Readonly<Record<string, string>> => ({
  search_path: `quote_ident('${schema.replaceAll("'", "''")}')`,
  synchronous_commit:
    "CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END",
  client_min_messages: "'warning'",
  statement_timeout: "'0'",
  lock_timeout: "'0'",
  idle_in_transaction_session_timeout: "'10s'",
  jit: "'off'",
  enable_seqscan: "'off'",
})

const set = (all: Readonly<Record<string, string>>, isLocal: boolean): string =>
  `SELECT ${Object.entries(all).map(([name, value]) => `set_config('${name}', ${value}, ${isLocal})`)}`

/** Sets them for the whole session. */
const ofSession = (schema: string): string =>
  set({ client_encoding: "'UTF8'", default_transaction_isolation: "'read committed'", ...settings(schema) }, false)

/**
 * Begins a transaction, with its settings. It fails if a server of another timeline answers, because a pooler
 * keeps its clients when it turns to another server.
 */
const ofTransaction = (schema: string, from: number): string =>
  [
    "BEGIN ISOLATION LEVEL READ COMMITTED",
    set(settings(schema), true),
    ...(from === 0 ? [] : [`SELECT 1 / (${timeline} = ${from})::int`]),
  ].join("; ")

/** PostgreSQL's code for the division by zero above. */
const otherServer = "22012"
/** PgBouncer's answer to BEGIN when its `pool_mode` is `statement`. */
const noTransactions = "08P01"

export interface ConnectionOptions {
  readonly url: DatabaseUrl
  /** Takes precedence over the password in the url. */
  readonly password: string | undefined
  /** Paths of PEM files, which each new connection reads again. */
  readonly tls: { readonly ca?: string; readonly certificate?: string; readonly key?: string }
  readonly schema: string
  /** The relay's name in the server's own tools. */
  readonly applicationName: string
  /** Milliseconds. */
  readonly connectTimeout: number
}

/** The oldest version that PostgreSQL's developers support and that the tests cover. */
const oldestVersion = 140_000

/** SQL_ASCII stores any bytes unchecked, so another database may not be able to read a dump of it. */
const notUtf8 = (encoding: string): string =>
  `the encoding of the database is ${encoding}, which can't hold every event: create a database by CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0, and name it in the "url"`

/** Milliseconds that a statement may take unless its caller says otherwise. */
export const usualTimeout = 30_000

type Pg = typeof import("pg")
let loaded: Promise<Pg> | undefined
const load = (): Promise<Pg> => {
  loaded ??= import("pg")
  return loaded
}

const int8 = 20
const int8s = 1016

const typesOf = ({ types }: Pg): CustomTypesConfig => {
  const parserOf = types.getTypeParser as (oid: number, format?: string) => (text: never) => unknown
  const numbers = parserOf(1007)
  return {
    getTypeParser: ((oid: number, format?: string) => {
      if (oid === int8 && format !== "binary") return Number
      if (oid === int8s && format !== "binary") return (text: never) => numbers(text)
      return parserOf(oid, format)
    }) as CustomTypesConfig["getTypeParser"],
  }
}

const pem = (key: string, path: string): string => {
  try {
    // A variable may hold the PEM text itself.
    return path.includes("-----BEGIN ") ? path : readFileSync(path, "utf8")
  } catch {
    throw databaseError("misconfigured", `the file of "tls.${key}" of "journal" can't be read`)
  }
}

const tlsOf = ({ url, tls }: ConnectionOptions): NonNullable<ClientConfig["ssl"]> => {
  if (url.sslMode === "disable") return false
  return {
    ...(tls.ca !== undefined && { ca: pem("ca", tls.ca) }),
    ...(tls.certificate !== undefined && { cert: pem("certificate", tls.certificate) }),
    ...(tls.key !== undefined && { key: pem("key", tls.key) }),
    rejectUnauthorized: url.sslMode !== "require",
    ...(url.sslMode === "verify-ca" && { checkServerIdentity: () => undefined }),
  }
}

const clientConfig = (options: ConnectionOptions, { host, port, name }: Host, pg: Pg): ClientConfig => {
  const { url, password = url.password } = options
  const user = url.user ?? localUser()
  return {
    host,
    port,
    user,
    database: url.database ?? user,
    // With a function, the library doesn't look for a password in files and variables.
    password: () => {
      if (password !== undefined) return password
      const hint = 'it asks for a password: set "journal": { "password": … }'
      throw errorAt(name, "misconfigured", hint)
    },
    ssl: tlsOf(options),
    enableChannelBinding: true,
    connectionTimeoutMillis: options.connectTimeout,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    application_name: options.applicationName,
    types: typesOf(pg),
    pipeline: true,
  }
}

/** A connection, used by one caller at a time. */
export class Connection {
  readonly #client: PgClient
  server: Server
  isReadOnly = true
  /** The timeline of the server's log, or 0 if the server doesn't report it. */
  timeline = 0
  /** The identifier of the server's data, or empty if the server does not report it. */
  system = ""
  #isOpen = true
  /** Number of statements under way. */
  #underWay = 0
  /** The statement that begins a transaction. */
  #beginning = "BEGIN"
  /** The result of beginning a transaction, until its first statement is sent. */
  #begun: Promise<Result.Result<unknown, DatabaseError>> | undefined
  #isInside = false
  /** Set if a commit that waited for its standby was cancelled: it is on one machine only. */
  #wasCancelled = false
  /** Called once, when the connection can't be used any more. */
  onClosed: () => void = () => {}

  private constructor(client: PgClient, name: string) {
    this.#client = client
    this.server = { name, version: "", versionNumber: 0, isPooled: false }
    client.on("error", () => this.#closed())
    client.on("end", () => this.#closed())
    client.on("notice", (notice) => {
      // Compared by its place in the server's source, because the text is in the server's language.
      if (notice.routine === "SyncRepWaitForLSN") this.#wasCancelled = true
    })
  }

  /** Connects, and prepares the session. Rejects only with a {@link DatabaseError}. */
  static async open(options: ConnectionOptions, host: Host): Promise<Connection> {
    const pg = await load()
    const { connectTimeout } = options
    let client: PgClient | undefined
    let isUnbound = false
    try {
      client = new pg.Client(clientConfig(options, host, pg))
      client.on("error", () => {})
      contain(client)
      if (options.url.channelBinding === "require") requireBinding(client, () => (isUnbound = true))
      await client.connect()
    } catch (error) {
      if (client !== undefined) destroy(client)
      if (isUnbound) throw errorAt(host.name, "misconfigured", "it offers no channel binding")
      throw error instanceof Error && /timeout/.test(error.message)
        ? errorAt(host.name, "unavailable", `it did not answer within ${connectTimeout} milliseconds`)
        : ofConnecting(error, host.name)
    }
    const connection = new Connection(client, host.name)
    try {
      await connection.#begin(options)
      return connection
    } catch (error) {
      connection.close()
      throw error
    }
  }

  /** Two round trips, and two more behind a pooler. */
  async #begin({ schema, connectTimeout }: ConnectionOptions): Promise<void> {
    const limit = { timeout: connectTimeout }
    const { name } = this.server
    const refused = (words: string) => errorAt(name, "misconfigured", words)
    const [found] = given(await this.query<Facts>(facts, [], limit)).rows
    if (found === undefined) throw refused("its answer is not PostgreSQL's")
    const { version, versionNumber, isReadOnly, fsync, encoding, process } = found
    if (versionNumber < oldestVersion) throw refused(`the relay needs version 14 or later, and this is ${version}`)
    if (!fsync) throw refused("fsync is off, so a crash of the server would lose what was answered 2xx: set fsync = on")
    if (encoding !== "UTF8") throw refused(notUtf8(encoding))
    const isPooled = process !== internalsOf(this.#client).processID
    this.server = { name, version, versionNumber, isPooled }
    this.isReadOnly = isReadOnly
    if (isPooled) {
      this.#beginning = ofTransaction(schema, 0)
      // Sent separately, because a pooler that refuses it closes the connection to the statements that follow.
      const begun = await this.#send(this.#beginning, [], limit)
      if (Result.isFailure(begun) && begun.failure.code === noTransactions)
        throw refused("it is a pooler that has no transactions: set its pool_mode to session or transaction")
      given(begun)
      given(await this.#send(rollback, [], limit))
    }
    const [set] = await Promise.all([
      isPooled ? undefined : this.query(ofSession(schema), [], limit),
      isReadOnly ? undefined : this.#readHistory(limit),
    ])
    if (set !== undefined) given(set)
    if (isPooled && !isReadOnly) this.#beginning = ofTransaction(schema, this.timeline)
  }

  async #readHistory(limit: QueryOptions): Promise<void> {
    const [asked, system] = await Promise.all([
      this.query<{ readonly timeline: number }>(`SELECT ${timeline} AS timeline`, [], limit),
      this.query<{ readonly system: string }>(`SELECT ${systemIdentifier} AS system`, [], limit),
    ])
    if (Result.isSuccess(system)) this.system = system.success.rows[0]?.system ?? ""
    if (Result.isSuccess(asked)) this.timeline = asked.success.rows[0]?.timeline ?? 0
    else if (this.server.isPooled) given(asked)
  }

  /**
   * Checks again whether the server takes writes, and on which timeline. It takes at most two round trips, and
   * rejects as {@link open} does.
   */
  async look(timeout: number): Promise<void> {
    const [found] = given(await this.query<Facts>(facts, [], { timeout })).rows
    this.isReadOnly = found?.isReadOnly ?? true
    if (!this.isReadOnly) await this.#readHistory({ timeout })
  }

  get isOpen(): boolean {
    return this.#isOpen
  }

  get isBusy(): boolean {
    return this.#underWay > 0
  }

  /**
   * Begins a transaction, which ends with a `COMMIT` or a `ROLLBACK`. Callers need not wait: the first
   * statement is sent in the same round trip, and fails if this does.
   */
  begin(timeout = usualTimeout): void {
    this.#isInside = true
    this.#begun = this.#send(this.#beginning, [], { timeout }).then((begun) => {
      // The first statement may be sent already, and must not run outside the transaction.
      if (Result.isFailure(begun)) this.destroy()
      return Result.mapError(begun, (failure) => (failure.code === otherServer ? moved(this.server) : failure))
    })
  }

  /** Sends one statement at a time, in one round trip. */
  async query<Row>(
    sql: string,
    params: Params,
    options: QueryOptions = {},
  ): Promise<Result.Result<Answer<Row>, DatabaseError>> {
    if (this.server.isPooled && !this.#isInside) {
      this.begin(options.timeout)
      const [answer, ended] = await Promise.all([
        this.query<Row>(sql, params, options),
        this.query(commit, [], options),
      ])
      return Result.isFailure(answer) || Result.isSuccess(ended) ? answer : Result.fail(ended.failure)
    }
    const begun = this.#begun
    this.#begun = undefined
    if (sql === commit || sql === rollback) this.#isInside = false
    const [beginning, answer] = await Promise.all([begun, this.#send<Row>(sql, params, options)])
    return beginning !== undefined && Result.isFailure(beginning) ? Result.fail(beginning.failure) : answer
  }

  #send<Row>(sql: string, params: Params, options: QueryOptions): Promise<Result.Result<Answer<Row>, DatabaseError>> {
    const at = this.server.name
    const failed = (words: string, isLost = true) => Result.fail(errorAt(at, "unavailable", words, { isLost }))
    if (!this.#isOpen) return Promise.resolve(failed("the connection is closed", false))
    const limit = options.timeout ?? usualTimeout
    this.#underWay += 1
    return new Promise((resolve) => {
      const end = (result: Result.Result<Answer<Row>, DatabaseError>) => {
        clearTimeout(timer)
        this.#underWay -= 1
        resolve(result)
      }
      const timer = setTimeout(() => {
        end(failed(`no answer within ${limit} milliseconds`))
        this.destroy()
      }, limit)
      const name = this.server.isPooled ? undefined : options.name
      const statement = { text: sql, values: params as Array<unknown>, ...(name !== undefined && { name }) }
      this.#client.query(statement, (error: Error | undefined, answers) => {
        if (error) {
          const failure = this.#isOpen ? ofServer(error, at) : lost(error, at)
          // A read-only server was demoted while it was connected.
          if (failure.isLost || failure.code === readOnly) this.destroy()
          return end(Result.fail(failure))
        }
        if (this.#wasCancelled) {
          this.destroy()
          return end(failed("the commit was cancelled while it waited for its standby, and may be on one machine only"))
        }
        const answer = Array.isArray(answers) ? answers.at(-1) : answers
        if (answer.command === "ROLLBACK" && sql === commit) {
          return end(Result.fail(errorAt(at, "failed", "a statement of the transaction failed")))
        }
        end(Result.succeed({ rows: answer.rows as ReadonlyArray<Row>, count: answer.rowCount ?? 0 }))
      })
    })
  }

  /** Closes the connection in order, without waiting for the server's answer. */
  close(): void {
    if (!this.#isOpen) return
    this.#closed()
    if (this.isBusy) {
      destroy(this.#client)
      return
    }
    const timer = setTimeout(() => destroy(this.#client), closing)
    this.#client.end(() => clearTimeout(timer))
  }

  /**
   * Destroys the connection without notice. The server rolls back an open transaction, but doesn't cancel a
   * commit that waits for its standby.
   */
  destroy(): void {
    destroy(this.#client)
    this.#closed()
  }

  #closed(): void {
    if (!this.#isOpen) return
    this.#isOpen = false
    this.onClosed()
  }
}

/**
 * Unwraps the answer to a question about the server. If it failed, nothing of the relay's is lost, because
 * nothing of the relay's was sent.
 */
const given = <A>(result: Result.Result<A, DatabaseError>): A => {
  if (Result.isSuccess(result)) return result.success
  const { reason, message, code } = result.failure
  throw databaseError(reason, message, { code })
}

export const commit = "COMMIT"
export const rollback = "ROLLBACK"

/**
 * The error after a pooler turned to another server: this connection's facts about the earlier server no longer
 * hold.
 */
const moved = ({ name }: Server): DatabaseError =>
  errorAt(name, "unavailable", "the pooler now leads to another server, because one was promoted")

/** The fields that the library's types leave out. */
interface Internals {
  /** The server process of the connection, as the server named it at the login. */
  readonly processID: number | null
  readonly connection: NodeJS.EventEmitter & {
    readonly stream: { destroy(): void }
    attachListeners(stream: Duplex): void
  }
}

const internalsOf = (client: PgClient): Internals => client as unknown as Internals

/** Maximum milliseconds for closing the connection in order. */
const closing = 500

/** The only way to end a connection that doesn't answer. */
const destroy = (client: PgClient): void => internalsOf(client).connection.stream.destroy()

/**
 * Ends a connection on bytes that aren't PostgreSQL's protocol. For some of them the library's reader throws
 * where no caller can catch it.
 */
const contain = (client: PgClient): void => {
  const { connection } = internalsOf(client)
  const attach = connection.attachListeners
  connection.attachListeners = (stream) => {
    const before = stream.listeners("data")
    attach.call(connection, stream)
    for (const listener of stream.listeners("data")) {
      if (before.includes(listener)) continue
      stream.off("data", listener as (chunk: Buffer) => void)
      stream.on("data", (chunk: Buffer) => {
        try {
          listener(chunk)
        } catch {
          stream.destroy(Object.assign(new Error("not understood"), { code: "EPROTO" }))
        }
      })
    }
  }
}

/**
 * Refuses each login method that another server could pass on. It checks the server's messages before the
 * library answers them.
 */
const requireBinding = (client: PgClient, onUnbound: () => void): void => {
  const { connection } = internalsOf(client)
  const refuse = () => {
    onUnbound()
    destroy(client)
  }
  connection.on("authenticationCleartextPassword", refuse)
  connection.on("authenticationMD5Password", refuse)
  connection.on("authenticationSASL", ({ mechanisms }: { readonly mechanisms: ReadonlyArray<string> }) => {
    if (!mechanisms.includes("SCRAM-SHA-256-PLUS")) refuse()
  })
}
