/**
 * PostgreSQL itself, for tests: a server on loopback with its own data and with fsync. It can be killed, frozen,
 * restarted, given standbys, and promoted.
 *
 * The server runs under a shell that kills it and removes its files when the test process ends, for whatever reason.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import {
  appendFileSync,
  chmodSync,
  chownSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import pg from "pg"
import { freePort } from "../lib/port.ts"
import { sendSignal } from "../lib/signal.ts"
import { type Authorities, certificatesIn, makeCertificates } from "./certificates.ts"
import { binaries, initdb, type Release, runAs } from "./PostgresBinaries.ts"

export { missing, type Release, reasonToSkip } from "./PostgresBinaries.ts"

/** The user that owns the database `relay`, and logs in by password (SCRAM). */
export const user = { name: "relay", password: "relay-canary-7c41e0" }

export interface Options {
  readonly release?: Release
  /** The port (default: a free one). */
  readonly port?: number
  /**
   * Whether it has a certificate. If so, `client` logs in by a certificate, and only `postgres` may connect without
   * TLS.
   */
  readonly tls?: boolean
  /** Settings in addition to the common ones. */
  readonly settings?: Readonly<Record<string, string>>
}

/** Whether commits wait for a standby. */
export type Following = "synchronous" | "asynchronous"

export interface Postgres {
  readonly port: number
  /** The directory of its data. */
  readonly data: string
  /** `host:port`. */
  readonly address: string
  /** The URL of the superuser, which needs no password. */
  readonly admin: string
  /** The URL of `user`, with the password. */
  readonly url: string
  /** The ids of its processes, the postmaster's first. */
  readonly processes: () => ReadonlyArray<number>
  /** Present with `tls`. */
  readonly certificates: Authorities | undefined
  /** Runs statements as the superuser. Returns the rows of the last statement. */
  readonly sql: (text: string, database?: string) => Promise<ReadonlyArray<Record<string, unknown>>>
  /** Starts it on its data, and waits until it answers. */
  readonly start: () => Promise<void>
  /** kill -9 of all of its processes. */
  readonly kill: () => Promise<void>
  /** Ends it in good order without waiting for clients, and keeps its data. */
  readonly shutdown: () => Promise<void>
  /** Sends SIGSTOP to all of its processes. `thaw` sends SIGCONT. */
  readonly freeze: () => void
  readonly thaw: () => void
  /** Starts a standby of this server. Returns when it streams. */
  readonly standby: (following: Following, port?: number) => Promise<Postgres>
  /** Makes a standby the primary. Returns when it accepts writes. */
  readonly promote: () => Promise<void>
  /** Kills it and removes its files. */
  readonly stop: () => Promise<void>
}

const common: Readonly<Record<string, string>> = {
  listen_addresses: "127.0.0.1",
  unix_socket_directories: "",
  fsync: "on",
  shared_buffers: "32MB",
  max_connections: "100",
  wal_level: "replica",
  max_wal_senders: "10",
  hot_standby: "on",
  // These let a killed standby be dropped soon, and a killed primary be noticed soon.
  wal_sender_timeout: "3s",
  wal_receiver_timeout: "3s",
  wal_retrieve_retry_interval: "200ms",
  log_min_messages: "warning",
  timezone: "UTC",
}

const settings = (of: Readonly<Record<string, string>>): string =>
  Object.entries(of)
    .map(([key, value]) => `${key} = '${value}'\n`)
    .join("")

/**
 * A shell script whose standard input is a pipe from this process. If the pipe ends without a word, the script kills
 * the server with its children. Its watching part ignores signals, because the system may send a hangup to everything
 * that the test process started.
 */
const supervisor = `
home=$1; shift; exec 3<&0
"$@" </dev/null >&2 & pid=$!
echo $pid
(
  trap "" HUP INT TERM
  read -r word <&3 && exit
  children=$(for stat in /proc/[0-9]*/stat; do
    read -r child name state parent rest 2>/dev/null <"$stat" && [ "$parent" = $pid ] && echo "$child"
  done)
  kill -9 $pid $children 2>/dev/null
  rm -rf "$home"
) &
wait $pid`

/** The ids of a server's processes, the postmaster's first. */
const processesOf = (postmaster: number): ReadonlyArray<number> => {
  const children = readdirSync("/proc").flatMap((name) => {
    if (!/^\d+$/.test(name)) return []
    try {
      const [, , , parent] = readFileSync(`/proc/${name}/stat`, "utf8").split(" ")
      return Number(parent) === postmaster ? [Number(name)] : []
    } catch {
      return []
    }
  })
  return [postmaster, ...children]
}

const isAlive = (process: number): boolean => {
  try {
    return readFileSync(`/proc/${process}/stat`, "utf8").split(" ")[2] !== "Z"
  } catch {
    return false
  }
}

const signalAll = (postmaster: number, signal: NodeJS.Signals): void => {
  for (const pid of processesOf(postmaster)) sendSignal(pid, signal)
}

const own = (path: string): void => {
  if (runAs.uid === undefined) return
  chownSync(path, runAs.uid, runAs.gid)
  for (const entry of readdirSync(path, { withFileTypes: true, recursive: true })) {
    chownSync(join(entry.parentPath, entry.name), runAs.uid, runAs.gid)
  }
}

/**
 * Files that a copy of a running server's data must not contain: process ids, the WAL, and files that the server
 * recreates.
 */
const notCopied = ["postmaster.pid", "postmaster.opts", "pg_wal", "pg_replslot", "pg_dynshmem", "pg_stat_tmp"]

const copyData = (from: string, to: string): void => {
  mkdirSync(to, { recursive: true, mode: 0o700 })
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    if (notCopied.includes(entry.name)) {
      if (entry.isDirectory()) mkdirSync(join(to, entry.name), { mode: 0o700 })
    } else if (entry.isDirectory()) copyData(join(from, entry.name), join(to, entry.name))
    else cpSync(join(from, entry.name), join(to, entry.name))
  }
}

const query = async (url: string, text: string): Promise<ReadonlyArray<Record<string, unknown>>> => {
  const client = new pg.Client({ connectionString: url })
  client.on("error", () => undefined)
  await client.connect()
  try {
    const result = (await client.query(text)) as pg.QueryResult | Array<pg.QueryResult>
    return (Array.isArray(result) ? result.at(-1) : result)?.rows ?? []
  } finally {
    await client.end()
  }
}

interface Home {
  readonly path: string
  readonly data: string
  readonly port: number
  readonly release: Release
  readonly tls: boolean
}

const serverOf = ({ path, data, port, release, tls }: Home): Postgres => {
  let shell: ChildProcess | undefined
  let pid = 0
  const admin = `postgres://postgres@127.0.0.1:${port}/postgres`
  const at = (database: string) => `postgres://postgres@127.0.0.1:${port}/${database}`

  /** Whether the server has reported this start, not an earlier one, as ready. */
  const isReady = (): boolean => {
    try {
      const lines = readFileSync(join(data, "postmaster.pid"), "utf8").split("\n")
      return Number(lines[0]) === pid && /^(ready|standby)\s*$/.test(lines[7] ?? "")
    } catch {
      return false
    }
  }

  const start = async (): Promise<void> => {
    let said = ""
    const command = [join(binaries(release), "postgres"), "-D", data]
    const started = spawn("sh", ["-c", supervisor, "sh", path, ...command], {
      ...runAs,
      cwd: "/",
      stdio: ["pipe", "pipe", "pipe"],
    })
    shell = started
    started.stderr.on("data", (chunk) => {
      said = `${said}${chunk}`.slice(-20_000)
    })
    const [first] = await once(started.stdout, "data")
    pid = Number(String(first).trim())
    while (!isReady()) {
      if (started.exitCode !== null) throw new Error(`PostgreSQL ended: ${said}`)
      await Bun.sleep(10)
    }
  }

  const ended = async (end: () => void): Promise<void> => {
    const running = shell
    shell = undefined
    if (running === undefined) return
    running.stdin?.end("keep\n")
    // If it has already ended, nothing is left to signal.
    if (running.exitCode !== null) return
    const exit = once(running, "exit")
    end()
    await exit
  }

  const kill = async () => {
    const processes = processesOf(pid)
    await ended(() => {
      sendSignal(pid, "SIGSTOP")
      signalAll(pid, "SIGKILL")
    })
    // Its children die later and hold its shared memory until then, so it couldn't start again.
    while (processes.some(isAlive)) await Bun.sleep(5)
  }

  const sql = (text: string, database = "relay") => query(at(database), text)

  const standby = async (following: Following, onPort?: number): Promise<Postgres> => {
    const home = mkdtempSync(join(tmpdir(), "relay-postgres-home-"))
    const copy = join(home, "data")
    const standbyPort = onPort ?? (await freePort())
    const name = `standby_${standbyPort}`
    const client = new pg.Client({ connectionString: admin })
    await client.connect()
    try {
      await client.query(
        `SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name='${name}'`,
      )
      await client.query(`SELECT pg_create_physical_replication_slot('${name}', true)`)
      await client.query("SELECT pg_backup_start('standby', true)")
      copyData(data, copy)
      const { rows } = await client.query("SELECT labelfile FROM pg_backup_stop(false)")
      writeFileSync(join(copy, "backup_label"), rows[0].labelfile)
    } finally {
      await client.end()
    }
    for (const file of ["standby.signal", "postgresql.auto.conf"]) writeFileSync(join(copy, file), "")
    const primary = `host=127.0.0.1 port=${port} user=postgres application_name=${name}`
    appendFileSync(
      join(copy, "postgresql.conf"),
      settings({ port: String(standbyPort), primary_conninfo: primary, primary_slot_name: name }),
    )
    own(home)
    const made = serverOf({ path: home, data: copy, port: standbyPort, release, tls })
    await made.start()
    const state = following === "synchronous" ? "sync_state = 'sync'" : "state = 'streaming'"
    if (following === "synchronous") {
      await query(admin, `ALTER SYSTEM SET synchronous_standby_names = '${name}'`)
      await query(admin, "SELECT pg_reload_conf()")
    }
    const follows = `SELECT 1 FROM pg_stat_replication WHERE application_name = '${name}' AND ${state}`
    while ((await query(admin, follows)).length === 0) await Bun.sleep(20)
    return made
  }

  return {
    port,
    data,
    address: `127.0.0.1:${port}`,
    admin,
    url: `postgres://${user.name}:${user.password}@127.0.0.1:${port}/relay`,
    processes: () => processesOf(pid),
    certificates: tls ? certificatesIn(data) : undefined,
    sql,
    start,
    kill,
    shutdown: () => ended(() => process.kill(pid, "SIGINT")),
    freeze: () => {
      // The postmaster stops first, so that it starts no more processes.
      sendSignal(pid, "SIGSTOP")
      signalAll(pid, "SIGSTOP")
    },
    thaw: () => signalAll(pid, "SIGCONT"),
    standby,
    promote: async () => {
      await query(admin, "SELECT pg_promote(true, 60)")
    },
    stop: async () => {
      await kill()
      rmSync(path, { recursive: true, force: true })
    },
  }
}

/** Starts a server for one test, with the database `relay`. */
export const makePostgres = async (options: Options = {}): Promise<Postgres> => {
  const { release = "npm", tls = false, port = await freePort() } = options
  const path = mkdtempSync(join(tmpdir(), "relay-postgres-home-"))
  const data = join(path, "data")
  own(path)
  initdb(release, data)
  // The certificates are in the data directory, because a standby finds its own copies there.
  const ssl = { ssl: "on", ssl_ca_file: "authority.pem", ssl_cert_file: "server.pem", ssl_key_file: "server.key" }
  if (tls) {
    makeCertificates(data)
    // PostgreSQL accepts a key only from a file that nobody else can read.
    chmodSync(join(data, "server.key"), 0o600)
    own(data)
  }
  const all = { ...common, port: String(port), ...(tls && ssl), ...options.settings }
  appendFileSync(join(data, "postgresql.conf"), settings(all))
  const host = tls ? "hostssl" : "host"
  const access = [
    "host all,replication postgres 127.0.0.1/32 trust",
    ...(tls ? ["hostssl all client 127.0.0.1/32 cert"] : []),
    `${host} all all 127.0.0.1/32 scram-sha-256`,
  ]
  writeFileSync(join(data, "pg_hba.conf"), `${access.join("\n")}\n`)
  const server = serverOf({ path, data, port, release, tls })
  await server.start()
  await server.sql(`CREATE ROLE ${user.name} LOGIN PASSWORD '${user.password}'`, "postgres")
  if (tls) await server.sql("CREATE ROLE client LOGIN", "postgres")
  await server.sql(`CREATE DATABASE relay OWNER ${user.name}`, "postgres")
  return server
}

let shared: Promise<Postgres> | undefined

/**
 * The server that all tests of a process share, each with a schema of its own. Tests that harm a server start their
 * own.
 */
export const sharedPostgres = (): Promise<Postgres> => {
  shared ??= makePostgres()
  return shared
}

/** A primary and its standby. They change places with each failover, so both addresses stay in use. */
export class Cluster {
  #servers: readonly [primary: Postgres, standby: Postgres]

  private constructor(...servers: readonly [primary: Postgres, standby: Postgres]) {
    this.#servers = servers
  }

  static async make(following: Following): Promise<Cluster> {
    const primary = await makePostgres()
    return new Cluster(primary, await primary.standby(following))
  }

  get servers(): readonly [primary: Postgres, standby: Postgres] {
    return this.#servers
  }

  /** The URL of `user`, with both addresses. */
  get url(): string {
    const [{ url, address }] = this.#servers
    return url.replace(address, this.#servers.map((server) => server.address).join(","))
  }

  /** Stops replication: the standby doesn't get what is written from now on. */
  async leaveBehind(): Promise<void> {
    const [, standby] = this.#servers
    await standby.sql("ALTER SYSTEM SET primary_conninfo = ''")
    await standby.sql("SELECT pg_reload_conf()")
    while ((await standby.sql("SELECT 1 FROM pg_stat_wal_receiver")).length > 0) await Bun.sleep(25)
  }

  /** Kills the primary and promotes the standby. */
  async failOver(): Promise<void> {
    const [primary, standby] = this.#servers
    await primary.kill()
    await standby.promote()
  }

  /** Makes the killed server, with new data, the standby of the promoted one. */
  async turn(following: Following): Promise<void> {
    const [killed, promoted] = this.#servers
    await killed.stop()
    this.#servers = [promoted, await promoted.standby(following, killed.port)]
  }

  async stop(): Promise<void> {
    for (const server of this.#servers) await server.stop()
  }
}
