/**
 * PgBouncer itself, for tests: Debian's, on loopback, before a PostgreSQL of the
 * tests. It hands few connections to many clients, so two of them meet in one.
 */
import { spawnSync } from "node:child_process"
import { chmodSync, mkdtempSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { freePort } from "../lib/port.ts"
import { type Postgres, reasonToSkip as reasonToSkipPostgres, user } from "./Postgres.ts"
import { ServerProcess } from "./ServerProcess.ts"

/** Debian puts it where only root's path leads. */
const program = process.env.RELAY_PGBOUNCER ?? "/usr/sbin/pgbouncer"

/** As in `1.18.0`; `undefined` where there is none. */
const version = (): string | undefined => {
  const { status, stdout } = spawnSync(program, ["--version"], { encoding: "utf8" })
  return status === 0 ? /PgBouncer (\d+\.\d+\.\d+)/.exec(stdout)?.[1] : undefined
}

/** Why the tests that need it don't run, and how to run them; `undefined` when they do. */
export const reasonToSkip = (): string | undefined =>
  version() === undefined
    ? "it needs PgBouncer: apt-get install pgbouncer, or RELAY_PGBOUNCER=PATH"
    : reasonToSkipPostgres()

/** From 1.21 on it keeps prepared statements apart, so a client that prepares does not notice it. */
export const keepsPrepared = (): boolean => {
  const [major = 0, minor = 0] = (version() ?? "").split(".").map(Number)
  return major > 1 || minor >= 21
}

export type Mode = "session" | "transaction" | "statement"

export interface PgBouncer {
  /** Of the tests' user, with the password, by the pooler. */
  readonly url: string
  readonly address: string
  readonly port: number
  /** Takes a new port of the server behind it: its clients stay. */
  readonly pointTo: (port: number) => Promise<void>
  readonly stop: () => Promise<void>
}

/** One that is started, with so many connections to the server. */
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
