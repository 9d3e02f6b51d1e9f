/**
 * NATS itself, for tests: Debian's `nats-server` on loopback, with JetStream.
 * RELAY_NATS_SERVER=PATH names another.
 */
import { spawnSync } from "node:child_process"
import { mkdtempSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { freePort } from "../lib/port.ts"
import { ServerProcess } from "./ServerProcess.ts"

const program = process.env.RELAY_NATS_SERVER ?? "nats-server"

/** The version, such as `2.9.10`, or `undefined` if the program is missing. */
const version = (): string | undefined => {
  const { status, stdout } = spawnSync(program, ["--version"], { encoding: "utf8" })
  return status === 0 ? /v(\d+\.\d+\.\d+)/.exec(stdout)?.[1] : undefined
}

/** Why the server can't run here, or `undefined` if it can. */
export const lacking = (): string | undefined =>
  version() === undefined ? "it needs nats-server: apt-get install nats-server, or RELAY_NATS_SERVER=PATH" : undefined

/** Why the server's tests don't run and how to run them, or `undefined` if they run. */
export const reasonToSkip = (): string | undefined => {
  const why = lacking()
  if (why !== undefined) return why
  return process.env.RELAY_PARTS === "1" ? undefined : "RELAY_PARTS=1 bun test runs it against nats-server"
}

/** Servers from 2.10 on report users their permissions, and have a setting to sync each write to disk. */
export const isModern = (): boolean => {
  const [major = 0, minor = 0] = (version() ?? "").split(".").map(Number)
  return major > 2 || (major === 2 && minor >= 10)
}

export interface NatsServer {
  /** Host and port. */
  readonly server: string
  readonly port: number
  readonly start: () => Promise<void>
  /** kill -9. */
  readonly kill: () => Promise<void>
  readonly signal: (signal: NodeJS.Signals) => void
  /** Ends it, and removes its files. */
  readonly stop: () => Promise<void>
}

/** Makes a server for one test, not started. `config` is added to its configuration file. */
export const makeNats = async (config = "", port?: number): Promise<NatsServer> => {
  const home = mkdtempSync(join(tmpdir(), "relay-nats-"))
  const listens = port ?? (await freePort())
  const server = `127.0.0.1:${listens}`
  const file = join(home, "nats.conf")
  // Acknowledged messages are on disk. An older server has no such setting, and may keep them in the system's memory.
  const sync = isModern() ? "sync_interval: always" : ""
  writeFileSync(file, `listen: "${server}"\njetstream { store_dir: "${home}/data", ${sync} }\n${config}\n`)

  const own = new ServerProcess({
    name: "nats-server",
    home,
    command: [program, "-c", file],
    isUp: (said) => said.includes("Server is ready"),
  })
  const { start, kill, signal, stop } = own
  return { server, port: listens, start, kill, signal, stop }
}

/** Makes a server and starts it. */
export const startNats = async (config = "", port?: number): Promise<NatsServer> => {
  const server = await makeNats(config, port)
  await server.start()
  return server
}

let shared: Promise<NatsServer> | undefined

/** The server that all tests of a process share, without a login. Tests that kill a server start their own. */
export const sharedNats = (): Promise<NatsServer> => {
  shared ??= startNats()
  return shared
}
