/** Databases on the PostgreSQL of the tests. */
import { Effect } from "effect"
import type { ConnectionOptions } from "../../../src/journal/postgres/connection/Connection.ts"
import { parse } from "../../../src/journal/postgres/connection/DatabaseUrl.ts"
import * as PooledDatabase from "../../../src/journal/postgres/connection/PooledDatabase.ts"
import { makePostgres, type Options, type Postgres } from "../../parts/Postgres.ts"

export const connectionTo = (url: string, more: Partial<ConnectionOptions> = {}): ConnectionOptions => {
  const parsed = parse(url)
  if (typeof parsed === "string") throw new Error(parsed)
  return {
    url: parsed,
    password: undefined,
    tls: {},
    schema: "relay",
    applicationName: "relay test",
    connectTimeout: 2_000,
    ...more,
  }
}

export const openDatabase = (url: string, more: Partial<ConnectionOptions> = {}, poolSize = 2) => {
  const options = connectionTo(url, more)
  return PooledDatabase.open({ connection: () => options, poolSize })
}

/** A server for one test. */
export const ownPostgres = (options: Options = {}) =>
  Effect.acquireRelease(
    Effect.promise(() => makePostgres(options)),
    (server) => Effect.promise(server.stop),
  )

/** A standby for one test. */
export const ownStandby = (...[of, following, port]: [Postgres, ...Parameters<Postgres["standby"]>]) =>
  Effect.acquireRelease(
    Effect.promise(() => of.standby(following, port)),
    (server) => Effect.promise(server.stop),
  )
