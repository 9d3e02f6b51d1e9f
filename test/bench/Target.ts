/**
 * The servers under load: servers that do a part of a relay's work, and relays with the sinks, routes and journals of a
 * scenario.
 */
import { closeSync, fstatSync, mkdirSync, openSync, readdirSync, readSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { Duration, Effect } from "effect"
import type { BenchError } from "./BenchError.ts"
import * as Child from "./Child.ts"
import { path, secret } from "./Requests.ts"

export interface Target extends Child.Child {
  readonly port: number
  /** The number of events that the target's sink has received. Absent without a sink. The load must be distinct. */
  readonly delivered?: Effect.Effect<number, BenchError>
  /** CPU time in microseconds of the target's own database. It counts as the target's. */
  readonly databaseMicros?: () => number
}

export interface Relay extends Target {
  /** Where the admin API listens. */
  readonly adminPort: number
}

export interface Setup {
  /** A directory of the benchmark's own, on a disk that can fsync. */
  readonly directory: string
  /** How to start the relay: `<command> run -c <config>`. */
  readonly command: ReadonlyArray<string>
}

const here = new URL(".", import.meta.url).pathname

const logOf = (setup: Setup, name: string): string =>
  join(setup.directory, `${name.replaceAll(/[^a-z0-9]+/gi, "-")}.log`)

/** Starts a server of `servers.ts`, which describes the arguments `of`. */
export const server = Effect.fnUntraced(function* (
  setup: Setup,
  name: string,
  kind: "empty" | "bare" | "durable" | "forwarder" | "producer" | "sink",
  ...of: ReadonlyArray<string>
) {
  const port = yield* Child.freePort
  const command = [process.execPath, join(here, "servers.ts"), kind, String(port), ...of]
  const child = yield* Child.spawn(name, command, { log: logOf(setup, name), ready: `http://127.0.0.1:${port}/` })
  const target: Target = { ...child, port }
  return target
})

/** Parts of the relay's config that scenarios differ in. */
export interface RelayConfig {
  readonly sinks: Readonly<Record<string, unknown>>
  readonly routes: ReadonlyArray<unknown>
  readonly delivery?: unknown
  /** Replaces the scheduling service's webhook. */
  readonly webhooks?: unknown
  /** Replaces the relay's own file. */
  readonly journal?: unknown
}

/** A relay with a journal of its own in `directory/name`; `name` may have been filled before. */
export const relay = Effect.fnUntraced(function* (setup: Setup, name: string, config: RelayConfig) {
  const port = yield* Child.freePort
  const adminPort = yield* Child.freePort
  const directory = relayDirectory(setup, name)
  const file = configFile(setup, name)
  writeFileSync(
    file,
    JSON.stringify({
      listen: `127.0.0.1:${port}`,
      admin: { listen: `127.0.0.1:${adminPort}` },
      journal: { type: "sqlite", path: journalPath(directory) },
      webhooks: { scheduling: { path, secrets: [{ name: "benchmark", value: secret }] } },
      ...config,
    }),
  )
  const child = yield* Child.spawn(name, [...setup.command, "run", "-c", file], {
    log: logOf(setup, name),
    ready: `http://127.0.0.1:${adminPort}/readyz`,
  })
  const target: Relay = { ...child, port, adminPort }
  return target
})

export const relayDirectory = (setup: Setup, name: string): string => {
  const directory = join(setup.directory, name.replaceAll(/[^a-z0-9]+/gi, "-"))
  mkdirSync(directory, { recursive: true })
  return directory
}

export const configFile = (setup: Setup, name: string): string => join(relayDirectory(setup, name), "relay.config.json")

export const journalPath = (directory: string): string => join(directory, "journal.db")

const everything = (to: string) => [{ name: "everything", match: "**", to: [to] }]

/** A relay that sends all events to a file. All `routes` lead there, and the `idle` sinks get nothing. */
export const relayToFile = Effect.fnUntraced(function* (
  setup: Setup,
  name: string,
  routes: ReadonlyArray<unknown> = everything("file"),
  journal?: unknown,
  idle: ReadonlyArray<string> = [],
) {
  const directory = join(relayDirectory(setup, name), "sink")
  mkdirSync(directory, { recursive: true })
  const others = idle.map((other) => [other, { type: "file", path: join(directory, "..", `${other}.ndjson`) }])
  const sinks = { file: { type: "file", path: join(directory, "events.ndjson") }, ...Object.fromEntries(others) }
  const target = yield* relay(setup, name, { sinks, routes, ...(journal !== undefined && { journal }) })
  const lines = countLines(directory)
  return { ...target, delivered: Effect.sync(lines) }
})

/** A sink in its own process, with the number of events it has. */
const httpSink = Effect.fnUntraced(function* (setup: Setup, name: string, ...of: ReadonlyArray<string>) {
  const sink = yield* server(setup, `sink of ${name}`, "sink", ...of)
  const url = `http://127.0.0.1:${sink.port}/`
  const received = Effect.promise(async () => Number(await (await fetch(url)).text()))
  return { url, delivered: Effect.andThen(sink.alive, received) }
})

/** A relay whose only sink is an HTTP server in its own process. `more` has further keys of the sink. */
export const relayToHttp = Effect.fnUntraced(function* (setup: Setup, name: string, more?: object, journal?: object) {
  const { url, delivered } = yield* httpSink(setup, name)
  const sinks = { http: { type: "http", url, ...more } }
  const target = yield* relay(setup, name, { sinks, routes: everything("http"), ...(journal && { journal }) })
  return { ...target, delivered }
})

/** A relay to HTTP with the given journal. Its sink refuses every `every`th request. */
export const relayToFlaky = Effect.fnUntraced(function* (setup: Setup, name: string, every: number, journal: unknown) {
  const { url, delivered } = yield* httpSink(setup, name, String(every))
  const sinks = { http: { type: "http", url } }
  const target = yield* relay(setup, name, { sinks, routes: everything("http"), journal })
  return { ...target, delivered }
})

/** A server that forwards each delivery and stores none. */
export const forwarder = Effect.fnUntraced(function* (setup: Setup, name: string) {
  const { url, delivered } = yield* httpSink(setup, name)
  return { ...(yield* server(setup, name, "forwarder", url)), delivered }
})

/**
 * Counts the lines in a directory's files, and reads only new bytes. It identifies a file by its inode, because a
 * rotation renames it.
 */
const countLines = (directory: string): (() => number) => {
  const offsets = new Map<number, number>()
  const buffer = Buffer.allocUnsafe(1 << 20)
  let lines = 0
  return () => {
    for (const name of readdirSync(directory).filter((name) => !name.startsWith("."))) {
      const fd = openSync(join(directory, name), "r")
      const inode = fstatSync(fd).ino
      for (;;) {
        const offset = offsets.get(inode) ?? 0
        const read = readSync(fd, buffer, 0, buffer.length, offset)
        if (read === 0) break
        offsets.set(inode, offset + read)
        lines += occurrences(buffer.subarray(0, read), newline)
      }
      closeSync(fd)
    }
    return lines
  }
}

const newline = 10

const occurrences = (bytes: Buffer, byte: number): number => {
  let count = 0
  for (let at = bytes.indexOf(byte); at !== -1; at = bytes.indexOf(byte, at + 1)) count += 1
  return count
}

/**
 * Waits until the sink has `expected` events, or gets none for ten seconds. Returns the number of events it has then.
 */
export const awaitDelivered = Effect.fnUntraced(function* (target: Target, expected: number) {
  if (target.delivered === undefined) return expected
  let delivered = yield* target.delivered
  for (let idle = 0; delivered < expected && idle < 200; idle++) {
    yield* Effect.sleep(Duration.millis(50))
    const now = yield* target.delivered
    if (now > delivered) idle = 0
    delivered = now
    yield* target.alive
  }
  return delivered
})
