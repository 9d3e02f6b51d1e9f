/**
 * The relay that a line torments: its directory, its config, its output. Everything it leaves is removed if the line
 * held.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync, statfsSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { Status } from "../../../src/admin/status/Status.ts"
import { freePort } from "../../lib/port.ts"
import { command, type Relay, startRelay } from "../../lib/relay.ts"
import type { Options, Outcome } from "../Line.ts"
import { path, Sender, secret } from "./Traffic.ts"

const tmpfs = 0x01021994

/** Returns a directory on a disk: if the temporary directory is in memory, an fsync means nothing. */
const onDisk = (): string => [tmpdir(), "/var/tmp"].find((place) => statfsSync(place).type !== tmpfs) ?? tmpdir()

/** Retries soon, so that a line is over soon. */
export const delivery = { timeout: "2 seconds", retry: { initial: "200 millis", max: "1 second" } }

export interface Setup {
  readonly sinks: Readonly<Record<string, object>>
  /** Keys of the config's `journal` beside its path, or all of them if they include the type. */
  readonly journal?: object
  readonly delivery?: object
  /** Its deliveries come by TLS: an authority's PEM text, and the files of the listener. */
  readonly tls?: { readonly ca: string; readonly files: object }
}

export interface Start {
  readonly env?: Readonly<Record<string, string>>
  /** A line of shell before it in the same process: `ulimit -n 64`. */
  readonly after?: string
}

/** A failed line leaves its directory and reports the path. No line leaves a running relay. */
const running = new Set<Relay>()
const kept = new Set<string>()
process.on("exit", () => {
  for (const relay of running) relay.signal("SIGKILL")
  if (kept.size > 0) console.error(`kept for a look: ${[...kept].join(" ")}`)
})

export class Subject {
  readonly directory = mkdtempSync(join(onDisk(), "relay-faults-"))
  readonly journal = join(this.directory, "journal", "journal.db")
  readonly sender: Sender
  readonly config: string
  /** The port that receives deliveries. */
  readonly port: number
  readonly #settings: object
  /** Host and port of the admin API. */
  readonly admin: string
  readonly #binary: string | undefined

  private constructor(options: Options, setup: Setup, ports: readonly [deliveries: number, admin: number]) {
    const listen = `127.0.0.1:${ports[0]}`
    kept.add(this.directory)
    this.port = ports[0]
    this.admin = `127.0.0.1:${ports[1]}`
    this.#binary = options.binary
    this.sender = new Sender(listen, setup.tls?.ca)
    this.#settings = {
      listen,
      ...(setup.tls !== undefined && { tls: setup.tls.files }),
      admin: { listen: this.admin },
      journal:
        setup.journal !== undefined && "type" in setup.journal
          ? setup.journal
          : { type: "sqlite", path: this.journal, minFree: "1 MiB", ...setup.journal },
      webhooks: { scheduling: { path, secrets: [{ name: "faults", value: secret }] } },
      delivery: { ...delivery, ...setup.delivery },
      sinks: setup.sinks,
      routes: [{ name: "everything", match: "**", to: Object.keys(setup.sinks) }],
    }
    this.config = this.write("relay.config.json", {})
  }

  static async make(options: Options, setup: Setup): Promise<Subject> {
    return new Subject(options, setup, [await freePort(), await freePort()])
  }

  /** Another config of the same relay. */
  write(name: string, changes: object): string {
    const file = join(this.directory, name)
    writeFileSync(file, JSON.stringify({ ...this.#settings, ...changes }))
    return file
  }

  async start({ env = {}, after }: Start = {}, config = this.config): Promise<Relay> {
    const binary = after === undefined ? this.#binary : this.#script(after)
    const relay = await startRelay(config, { cwd: this.directory, env, ...(binary === undefined ? {} : { binary }) })
    running.add(relay)
    void relay.exited.then(() => running.delete(relay))
    return relay
  }

  #script(line: string): string {
    const file = join(this.directory, "relay.sh")
    const words = command(this.#binary).map((word) => `'${word}'`)
    writeFileSync(file, `#!/bin/sh\n${line} && exec ${words.join(" ")} "$@"\n`, { mode: 0o755 })
    return file
  }

  /** Returns the admin listener's answer at a path. */
  async ask(path: string, method = "GET", timeout = 60_000): Promise<string> {
    const signal = AbortSignal.timeout(timeout)
    // A new connection is used, because a kept one would answer even when none can be opened.
    const headers = { connection: "close" }
    return (await fetch(`http://${this.admin}${path}`, { method, signal, headers })).text()
  }

  /** Sends a request to the admin API. Returns the answer's status and text. */
  async tell(path: string, payload?: object): Promise<readonly [status: number, text: string]> {
    const json = { body: JSON.stringify(payload), headers: { "content-type": "application/json" } }
    const init = { method: "POST", ...(payload === undefined ? {} : json) }
    const response = await fetch(`http://${this.admin}/api/v1${path}`, init)
    return [response.status, await response.text()]
  }

  /** Returns the status that `relay status` shows. */
  async status(): Promise<Status> {
    return JSON.parse(await this.ask("/api/v1/status")) as Status
  }

  /** Reloads the config. Returns the answer's status and text. */
  async reload(): Promise<readonly [status: number, text: string]> {
    return this.tell("/reload")
  }

  /** Runs a command on the config. Returns its output and its exit code. */
  async run(...args: ReadonlyArray<string>): Promise<{ readonly code: number; readonly said: string }> {
    const [program = "", ...words] = [...command(this.#binary), ...args, "-c", this.config]
    const child = Bun.spawn([program, ...words], { cwd: this.directory, stdout: "pipe", stderr: "pipe" })
    const [out, error] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
    return { code: await child.exited, said: out + error }
  }

  /** Event ids of a lane's dead letters, at most a thousand. */
  async deadLetters(lane: string): Promise<ReadonlyArray<string>> {
    const letters = JSON.parse(await this.ask(`/api/v1/dead-letters?limit=1000&sink=${lane}`))
    return (letters as ReadonlyArray<{ readonly eventId: string }>).map(({ eventId }) => eventId)
  }

  /** A gauge or counter by sink. */
  async metric(name: string): Promise<ReadonlyMap<string, number>> {
    const text = await this.ask("/metrics")
    const found = text.matchAll(new RegExp(`^${name}\\{[^}]*sink="([^"]+)"[^}]*\\} (\\S+)$`, "gm"))
    return new Map([...found].map(([, sink, value]) => [sink ?? "", Number(value)]))
  }

  /** Waits until no events are pending for a sink. Returns `false` after `seconds`. */
  async drained(seconds = 60, lanes?: ReadonlyArray<string>): Promise<boolean> {
    for (const end = performance.now() + seconds * 1_000; performance.now() < end; ) {
      const backlog = await this.metric("relay_lane_backlog_events").catch(() => new Map<string, number>())
      const counted = lanes === undefined ? [...backlog.values()] : lanes.map((lane) => backlog.get(lane))
      if (backlog.size > 0 && counted.every((events) => events === 0)) return true
      await Bun.sleep(50)
    }
    return false
  }

  remove(): void {
    kept.delete(this.directory)
    rmSync(this.directory, { recursive: true, force: true })
  }
}

/** Waits until a condition holds. Returns `false` after `seconds`. */
export const eventually = async (
  holds: () => boolean | Promise<boolean>,
  seconds: number,
  every = 25,
): Promise<boolean> => {
  for (const end = performance.now() + seconds * 1_000; performance.now() < end; ) {
    if (await holds()) return true
    await Bun.sleep(every)
  }
  return false
}

/** Reads from `/proc`. Returns `nothing` if the process never existed or has ended. */
const fromProc = <A>(read: () => A, nothing: A): A => {
  try {
    return read()
  } catch {
    return nothing
  }
}

/** Resident memory of a process in MiB, or 0 if it is unknown. */
export const memory = (pid: number): number => {
  const status = fromProc(() => readFileSync(`/proc/${pid}/status`, "utf8"), "")
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1_024
}

/** Number of open file descriptors of a process, or 0 if it is unknown. */
export const openFiles = (pid: number): number => fromProc(() => readdirSync(`/proc/${pid}/fd`).length, 0)

export const skipped = (why: string): Outcome => ({
  rounds: 0,
  acknowledged: 0,
  lost: 0,
  duplicates: 0,
  broken: [],
  skipped: why,
})
