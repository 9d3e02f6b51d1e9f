/**
 * PgBouncer itself, for tests: Debian's, on loopback, in front of a PostgreSQL of the tests. Many clients share few
 * connections, so two clients can meet in the same connection.
 */
import { spawnSync } from "node:child_process"
import { chmodSync, mkdtempSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { freePort } from "../lib/port.ts"
import { type Postgres, reasonToSkip as reasonToSkipPostgres, user } from "./Postgres.ts"
import { ServerProcess } from "./ServerProcess.ts"

/** Debian installs it into a directory that only root's PATH contains. */
const program = process.env.RELAY_PGBOUNCER ?? "/usr/sbin/pgbouncer"

/** The version, such as `1.18.0`, or `undefined` if the program is missing. */
const version = (): string | undefined => {
  const { status, stdout } = spawnSync(program, ["--version"], { encoding: "utf8" })
  return status === 0 ? /PgBouncer (\d+\.\d+\.\d+)/.exec(stdout)?.[1] : undefined
}

/** Why the tests with it don't run and how to run them, or `undefined` if they run. */
export const reasonToSkip = (): string | undefined =>
  version() === undefined
    ? "it needs PgBouncer: apt-get install pgbouncer, or RELAY_PGBOUNCER=PATH"
    : reasonToSkipPostgres()

/** From 1.21 on it tracks prepared statements for each client, so clients that prepare are not affected. */
export const keepsPrepared = (): boolean => {
  const [major = 0, minor = 0] = (version() ?? "").split(".").map(Number)
  return major > 1 || minor >= 21
}

export type Mode = "session" | "transaction" | "statement"

export interface PgBouncer {
  /** The URL of the tests' user through the pooler, with the password. */
  readonly url: string
  readonly address: string
  readonly port: number
  /** Changes the port of the server behind it. Its clients stay connected. */
  readonly pointTo: (port: number) => Promise<void>
  readonly stop: () => Promise<void>
}

/** Starts a PgBouncer with at most `connections` connections to the server. */
export const startPgBouncer = async (server: Postgres, mode: Mode, connections: number): Promise<PgBouncer> => {
  const home = mkdtempSync(join(tmpdir(), "relay-pgbouncer-"))
  const port = await freePort()
  const file = join(home, "pgbouncer.ini")
  const configure = (to: number) =>
    writeFileSync(
      file,
      `[databases]
relay = host=127.0.0.1 port=${to}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = ${join(home, "users.txt")}
pool_mode = ${mode}
default_pool_size = ${connections}
${keepsPrepared() ? "max_prepared_statements = 100" : ""}
`,
    )
  writeFileSync(join(home, "users.txt"), `"${user.name}" "${user.password}"\n`)
  configure(server.port)
  for (const path of [home, file, join(home, "users.txt")]) chmodSync(path, 0o755)
  // It refuses to run as root.
  const as = process.getuid?.() === 0 ? ["-u", "nobody"] : []
  const own = new ServerProcess({
    name: "PgBouncer",
    home,
    command: [program, ...as, file],
    isUp: (said) => said.includes("process up"),
  })
  await own.start()
  const address = `127.0.0.1:${port}`
  return {
    url: server.url.replace(server.address, address),
    address,
    port,
    pointTo: async (to) => {
      configure(to)
      own.signal("SIGHUP")
    },
    stop: own.stop,
  }
}
