/**
 * NATS itself, for tests: Debian's `nats-server` on loopback, with JetStream.
 * RELAY_NATS_SERVER=PATH names another.
 *
 * What a test starts it stops: the server runs under a shell that kills it and
 * removes its files when the test process ends, however that ends.
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { freePort } from "../lib/port.ts"

const program = process.env.RELAY_NATS_SERVER ?? "nats-server"

/** As in `2.9.10`; `undefined` where there is none. */
const version = (): string | undefined => {
  const { status, stdout } = spawnSync(program, ["--version"], { encoding: "utf8" })
  return status === 0 ? /v(\d+\.\d+\.\d+)/.exec(stdout)?.[1] : undefined
}

/** Why there can be no server; `undefined` where there can. */
export const lacking = (): string | undefined =>
  version() === undefined ? "it needs nats-server: apt-get install nats-server, or RELAY_NATS_SERVER=PATH" : undefined

/** Why the server's tests don't run, and how to run them; `undefined` when they do. */
export const reasonToSkip = (): string | undefined => {
  const why = lacking()
  if (why !== undefined) return why
  return process.env.RELAY_PARTS === "1" ? undefined : "RELAY_PARTS=1 bun test runs it against nats-server"
}

/** From 2.10 on a server tells users their rights, and writes through to the disk when it is asked to. */
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
  /** Ends it, and removes what it wrote. */
  readonly stop: () => Promise<void>
}

/** A server of one's own, not started. `config` is more of its configuration, in NATS' own words. */
export const makeNats = async (config = "", port?: number): Promise<NatsServer> => {
  const home = mkdtempSync(join(tmpdir(), "relay-nats-"))
  const listens = port ?? (await freePort())
  const server = `127.0.0.1:${listens}`
  const file = join(home, "nats.conf")
  // What is acknowledged is on the disk; an older server knows no such setting, and keeps it in the system's memory.
  const sync = isModern() ? "sync_interval: always" : ""
  writeFileSync(file, `listen: "${server}"\njetstream { store_dir: "${home}/data", ${sync} }\n${config}\n`)

  let shell: ChildProcess | undefined
  let pid = 0
  const kill = async (): Promise<void> => {
    const own = shell
    shell = undefined
    if (own === undefined) return
    process.kill(pid, "SIGKILL")
    own.stdin?.end("keep\n")
    if (own.exitCode === null) await once(own, "exit")
  }
  return {
    server,
    port: listens,
    start: async () => {
      let said = ""
      // The shell's standard input is ours: it ends with this process, and then the shell ends the server.
      const own = spawn(
        "sh",
        [
          "-c",
          'home=$1; shift; exec 3<&0; "$@" </dev/null >&2 & pid=$!; echo $pid; (read -r word <&3; kill -9 $pid 2>/dev/null; [ "$word" = keep ] || rm -rf "$home") & wait $pid',
          ...["sh", home, program, "-c", file],
        ],
        { stdio: ["pipe", "pipe", "pipe"] },
      )
      shell = own
      const [first] = await once(own.stdout, "data")
      pid = Number(String(first).trim())
      await new Promise<void>((resolve, reject) => {
        own.stderr.on("data", (chunk) => {
          said = `${said}${chunk}`.slice(-20_000)
          if (said.includes("Server is ready")) resolve()
        })
        own.once("exit", () => reject(new Error(`nats-server ended: ${said}`)))
      })
    },
    kill,
    signal: (signal) => void process.kill(pid, signal),
    stop: async () => {
      await kill()
      rmSync(home, { recursive: true, force: true })
    },
  }
}

/** One that is started. */
export const startNats = async (config = "", port?: number): Promise<NatsServer> => {
  const server = await makeNats(config, port)
  await server.start()
  return server
}

let shared: Promise<NatsServer> | undefined

/** The server that all tests of a process share, which takes anybody; tests that kill it make one of their own. */
export const sharedNats = (): Promise<NatsServer> => {
  shared ??= startNats()
  return shared
}
