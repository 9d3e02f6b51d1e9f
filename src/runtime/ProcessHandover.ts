/**
 * The two processes of a restart and their messages over an IPC channel. The first
 * process starts the second through a shell, which waits for it.
 * 1. The first sends `facts`. The second reads its config, listens on the same
 *   addresses and answers `listening`, or `refused` with the reason.
 * 2. The first closes its journal and sends `released`.
 * 3. The second opens the journal and answers `opened`.
 * 4. The first ends the shell, which also ends the channel, and notifies the service
 *   manager. The second continues alone.
 *
 * **Guarantee.** If the first process ends early, its journal is free, and the
 * second continues as if it had received all messages. A second process that has not
 * taken over ends with the scope that started it. **Gotcha.** systemd kills a main
 * process without waiting for its end, unless the process was systemd's own child
 * when it became the main process. Without the shell, it is. **Gotcha.** The two
 * processes may have different versions, so keys are only ever added to messages.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { constants } from "node:os"
import process from "node:process"
import { Cause, Context, Duration, Effect, Queue, Schema, Scope } from "effect"
import { type Address, format, reachable } from "../config/Address.ts"
import { orUndefined } from "../event/Tolerance.ts"
import * as Environment from "./Environment.ts"
import * as Hold from "./Hold.ts"
import type { Handler } from "./RequestGuard.ts"
import * as Runtime from "./Runtime.ts"
import { type Door, type DoorOptions, openDoor, type ServeError } from "./Runtime.ts"

// The ports of this process. `relay run` keeps them open during a restart, while the relay behind them closes and
// another process, or this one, opens it again.

/** Opens a port, or returns the port that is already open under the same key. */
type OpenDoor = (key: string, options: DoorOptions) => Effect.Effect<Door, ServeError, Scope.Scope>

/** By default, each port closes with its caller's scope. */
export const Doors = Context.Reference<OpenDoor>("relay/runtime/Doors", {
  defaultValue: () => (key, options) => openDoor({ ...options, key }),
})

/** Ports that are kept open. */
export interface KeptDoors {
  readonly open: OpenDoor
  /** The open ports, by the config key of the address. */
  readonly all: ReadonlyMap<string, Door>
}

/** Keeps ports open until the scope closes. */
export const keepDoors: Effect.Effect<KeptDoors, never, Scope.Scope> = Effect.gen(function* () {
  const scope = yield* Scope.Scope
  const all = new Map<string, Door>()
  const open: OpenDoor = Effect.fnUntraced(function* (key, options) {
    const kept = all.get(key)
    if (kept !== undefined) return kept
    const door = yield* Scope.provide(openDoor({ ...options, key }), scope)
    all.set(key, door)
    return door
  })
  return { open, all }
})

// Forwards requests to the process that has taken over an address. Clients send them on connections that they opened
// before.

/**
 * Sends requests to an address of this machine. Its certificate isn't checked,
 * because only a process of this user listens there.
 */
export const forwardTo = (address: Address, isTls: boolean): Handler => {
  const target = reachable(address)
  const { unix } = address
  const origin = `${isTls ? "https" : "http"}://${unix === undefined ? format(target) : target.host}`
  Environment.goDirect([target.host])
  return async (request) => {
    const { pathname, search } = new URL(request.url)
    const headers = new Headers(request.headers)
    headers.delete("connection")
    const options = {
      method: request.method,
      headers,
      body: request.body,
      redirect: "manual",
      signal: request.signal,
      // Bun's own option: the answer is forwarded unchanged.
      decompress: false,
      tls: { rejectUnauthorized: false },
      ...(unix !== undefined && { unix }),
    } as const
    return fetch(`${origin}${pathname}${search}`, options).then(
      ({ body, status, headers }) => new Response(body, { status, headers }),
      () => Hold.refuse(request),
    )
  }
}

/** The first process's description of itself. */
export const Facts = Schema.Struct({
  /** `listen` and `admin.listen` as the config has them. */
  addresses: Schema.Record(Schema.String, Schema.String),
  /** The actual ports by the same keys, because the config may have port 0. */
  ports: Schema.Record(Schema.String, Schema.Int),
  /** Identifies the journal. */
  journal: Schema.String,
  /** The version of the journal's schema. */
  schema: Schema.Int,
  pid: Schema.Int,
  /** The second process's turn at the journal. */
  turn: Schema.Struct({ instance: Schema.String, ended: Schema.Array(Schema.String) }),
})
export type Facts = typeof Facts.Type

const FromFirst = Schema.Union([Schema.TaggedStruct("facts", { facts: Facts }), Schema.TaggedStruct("released", {})])
const FromSecond = Schema.Union([
  Schema.TaggedStruct("listening", { pid: Schema.Int }),
  Schema.TaggedStruct("opened", { version: Schema.String }),
  Schema.TaggedStruct("refused", { message: Schema.String }),
])
type FromSecond = typeof FromSecond.Type

/** The second process did not take over. */
export class HandoverFailed extends Schema.TaggedError<HandoverFailed>()("HandoverFailed", {
  message: Schema.String,
}) {}

const failed = (message: string) => new HandoverFailed({ message })

/** The circumstances of this process that a restart depends on. */
export interface Situation {
  readonly pid: number
  readonly parent: number
  readonly runtime: "bun" | "deno"
  /** Whether a service manager receives messages. */
  readonly isHeard: boolean
}

const stopAndStart = "stop the relay and start it again"

/** Returns why this process can't hand over to another and what to do instead, or `undefined` if it can. */
export const refusal = ({ pid, parent, runtime, isHeard }: Situation): string | undefined => {
  if (pid === 1) return "the relay is process 1 of its container, which ends with it: restart the container"
  if (runtime !== "bun") return `the relay runs on Deno, and only Bun can hand over: ${stopAndStart}`
  // Later processes are children of this one, so the very first process has already checked its parent.
  if (parent === 1 && !isHeard)
    return `process 1 started the relay and takes no messages (NOTIFY_SOCKET), so the service would end with this process: ${stopAndStart}, or use Type=notify`
  return undefined
}

/** The situation of this process. */
export const situation = (isHeard: boolean): Situation => ({
  pid: process.pid,
  parent: startedBy,
  runtime: Runtime.name,
  isHeard,
})
const startedBy = process.ppid

/** The environment variable that marks the second process. */
const variable = "RELAY_SUCCESSOR"

/** The second process, from the view of the first. */
export interface Successor {
  /** Waits for a message. Fails if the process refuses, ends, or sends another message. */
  readonly says: <Tag extends FromSecond["_tag"]>(
    tag: Tag,
  ) => Effect.Effect<Extract<FromSecond, { readonly _tag: Tag }>, HandoverFailed>
  /** Reports that the journal is free. */
  readonly release: Effect.Effect<void>
  /**
   * Called when it has taken over. It then continues after the scope, and its parent is the process that adopts
   * orphans.
   */
  readonly taken: Effect.Effect<void>
}

/** Returns the command that starts this program again, from its original path. */
const words = (): readonly [string, ReadonlyArray<string>] => {
  const [main, ...args] = process.argv.slice(1)
  return [executable, Runtime.isCompiled ? args : [...process.execArgv, main ?? "", ...args]]
}
/** Read at the start, because an upgrade replaces the file. */
const executable = process.execPath

/** A shell script that runs a program and exits with its code. SIGTERM kills the program; SIGKILL doesn't affect it. */
const shell = `"$0" "$@" <&0 & trap 'kill -KILL $!' TERM; wait $!; code=$?; kill -0 $! 2>/dev/null && wait $!; exit $code`

/** A shell's exit code for a signal is this number plus the signal's. */
const signalled = 128

const ended = ({ exitCode }: ChildProcess): string => {
  const code = exitCode ?? signalled
  const [signal] = Object.entries(constants.signals).find(([, number]) => number === code - signalled) ?? []
  if (signal !== undefined) return `the second process was ended by ${signal}`
  return `the second process exited with ${code}; the log says why`
}

/** Sends a signal to the shell and waits for its end. */
const end = (child: ChildProcess, signal: "SIGTERM" | "SIGKILL"): Effect.Effect<void> =>
  Effect.callback((resume) => {
    if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return resume(Effect.void)
    child.once("exit", () => resume(Effect.void))
    child.kill(signal)
  })

/** Starts the program again with the same user, control group, environment, arguments and standard streams. */
export const start = Effect.fnUntraced(function* (
  facts: Facts,
): Effect.fn.Return<Successor, HandoverFailed, Scope.Scope> {
  const [file, args] = words()
  const { WATCHDOG_PID: _, ...env } = process.env
  const messages = yield* Queue.unbounded<unknown, HandoverFailed>()
  const fail = (message: string) => Queue.failCauseUnsafe(messages, Cause.fail(failed(message)))
  const child = yield* Effect.acquireRelease(
    Effect.sync(() => {
      const child = spawn("/bin/sh", ["-c", shell, file, ...args], {
        env: { ...env, [variable]: "1" },
        stdio: ["inherit", "inherit", "inherit", "ipc"],
      })
      child.on("message", (message) => Queue.offerUnsafe(messages, message))
      child.on("error", ({ message }) => fail(`/bin/sh can't be started: ${message}`))
      child.on("exit", () => fail(ended(child)))
      return child
    }),
    (child) => end(child, "SIGTERM"),
  )
  const send = (message: typeof FromFirst.Type) => Effect.sync(() => child.send(message, () => {}))
  const says: Successor["says"] = Effect.fnUntraced(function* (tag) {
    const message = yield* Queue.take(messages)
    const decoded = yield* Effect.mapError(Schema.decodeUnknownEffect(FromSecond)(message), () =>
      failed("the second process is a relay of a version that can't take over"),
    )
    if (decoded._tag === "refused") return yield* failed(decoded.message)
    if (decoded._tag !== tag) return yield* failed(`the second process said "${decoded._tag}" instead of "${tag}"`)
    return decoded as Extract<FromSecond, { readonly _tag: typeof tag }>
  })
  yield* send({ _tag: "facts", facts })
  return {
    says,
    release: send({ _tag: "released" }),
    taken: end(child, "SIGKILL"),
  }
})

/** The first process, from the view of the second. */
export interface Predecessor {
  readonly facts: Facts
  readonly listening: Effect.Effect<void>
  readonly refuse: (message: string) => Effect.Effect<void>
  /** Waits until the journal is free. */
  readonly released: Effect.Effect<void>
  /** Reports that the journal is open. Waits until the first process has confirmed it. */
  readonly opened: (version: string) => Effect.Effect<void>
  /** Waits until the first process has ended. */
  readonly ended: Effect.Effect<void>
}

const lookEvery = Duration.millis(50)
const isAlive = (pid: number): boolean => orUndefined(() => process.kill(pid, 0)) === true

/**
 * The process that started this one as its successor, or `undefined` in any other
 * process. Dies if that process sends no facts.
 */
export const predecessor: Effect.Effect<Predecessor | undefined> = Effect.gen(function* () {
  if (process.env[variable] === undefined || process.send === undefined) return undefined
  delete process.env[variable]
  const messages = yield* Queue.unbounded<unknown, Cause.Done>()
  process.on("message", (message) => Queue.offerUnsafe(messages, message))
  process.on("disconnect", () => Queue.endUnsafe(messages))
  const send = (message: FromSecond) => Effect.sync(() => process.connected && process.send?.(message))
  const next = Effect.flatMap(Queue.take(messages), Schema.decodeUnknownEffect(FromFirst))
  const first = yield* Effect.orDie(next)
  if (first._tag !== "facts") return yield* Effect.die("the first process sent no facts")
  return {
    facts: first.facts,
    listening: send({ _tag: "listening", pid: process.pid }),
    refuse: (message) => send({ _tag: "refused", message }),
    released: Effect.ignore(next),
    opened: (version) => Effect.andThen(send({ _tag: "opened", version }), Effect.ignore(next)),
    ended: Effect.repeat(
      Effect.delay(
        Effect.sync(() => isAlive(first.facts.pid)),
        lookEvery,
      ),
      {
        until: (alive) => !alive,
      },
    ).pipe(Effect.asVoid),
  }
})
