/**
 * The runtime under the relay, Bun or Deno: serving HTTP, HMAC, signals. This
 * folder is the only code that names either.
 *
 * **A drain** keeps the listener open until nothing is under way: `onDrain`
 * tells the handler to refuse what is new, what is under way ends or meets the
 * deadline, and only then is the listener closed, at last by force. Closing
 * first would be worse on both: a half-sent body holds Bun's `stop()` for as
 * long as it stalls, and Deno's `shutdown()` cuts it off.
 */
import { readFileSync } from "node:fs"
import process from "node:process"
import { Duration, Effect, Option, Schema, type Scope } from "effect"
import { type Address, format } from "../config/Address.ts"
import type { Tls } from "../config/Config.ts"
import * as BunPlatform from "./Bun.ts"
import * as DenoPlatform from "./Deno.ts"
import { codeOf } from "./ErrorCode.ts"
import * as Door from "./ListenerGate.ts"
import type { Platform } from "./Platform.ts"
import * as Guard from "./RequestGuard.ts"

const platform: Platform = "Deno" in globalThis ? DenoPlatform.make() : BunPlatform.make()

/** `name` and `version` of the runtime, whether this is a compiled binary, its fastest HMAC, and the C library. */
export const { name, version, isCompiled, hmac, libc } = platform

export interface ServeOptions {
  readonly address: Address
  readonly tls?: Tls
  readonly handler: Guard.Handler
  /** Called with the status of each answer that is not the handler's. */
  readonly onRefused?: (status: number) => void
  /** Called once, when the drain begins: refuse from now on. */
  readonly onDrain?: Effect.Effect<void>
  /** How long a drain waits for requests under way; 10 seconds unless told. */
  readonly drainTimeout?: Duration.Duration
  /** Closes while file descriptors are used up, for the sake of all else; not unless told. */
  readonly givesWay?: boolean
  /** A backstop, in bytes, for handlers that don't count; 64 MiB unless told. */
  readonly maxBody?: number
}

/** The address can't be listened on, or a TLS file can't be used. */
export class ServeError extends Schema.TaggedError<ServeError>()("ServeError", {
  message: Schema.String,
  /** Somebody listens there already. */
  isTaken: Schema.optionalKey(Schema.Boolean),
}) {}

/** Seconds; above every wait of a handler, because Bun cuts a slow handler off by it too. */
const idleTimeout = 60
/** For connections that are idle or are being sent their last bytes. */
const lastAnswers = Duration.seconds(1)

const readPem = (path: string, what: string): Effect.Effect<string, ServeError> =>
  Effect.try({
    try: () => readFileSync(path, "utf8"),
    catch: () => new ServeError({ message: `the TLS ${what} ${path} can't be read` }),
  })

const whyNot = (error: unknown, address: Address): ServeError => {
  const where = format(address)
  switch (codeOf(error)) {
    case "EADDRINUSE":
    case "AddrInUse":
      return new ServeError({
        message: `${where} is taken: another relay, or another program, listens there`,
        isTaken: true,
      })
    case "EACCES":
    case "PermissionDenied":
      return new ServeError({ message: `${where} is not allowed: ports below 1024 need a privilege` })
    case "EADDRNOTAVAIL":
    case "AddrNotAvailable":
      return new ServeError({ message: `${where} is no address of this machine` })
    default:
      return new ServeError({ message: `can't listen on ${where}: ${error instanceof Error ? error.message : error}` })
  }
}

/** Whether the listener's connections ended in time. */
const close = (door: Door.Door, force: boolean): Effect.Effect<boolean> =>
  Effect.map(
    Effect.timeoutOption(
      Effect.promise(() => door.close(force)),
      lastAnswers,
    ),
    Option.isSome,
  )

/** Serves until the scope closes, then drains; gives the address it listens on. */
export const serve = Effect.fn("Runtime.serve")(function* (
  options: ServeOptions,
): Effect.fn.Return<Address, ServeError, Scope.Scope> {
  const run = Effect.runForkWith(yield* Effect.context<never>())
  const report = (id: string, defect: unknown) => {
    run(Effect.annotateLogs(Effect.logError("a bug while answering a request", defect), { request: id }))
  }
  const guard = Guard.make(options.handler, report, options.onRefused)
  const tls = options.tls && {
    certificate: yield* readPem(options.tls.certificate, "certificate"),
    key: yield* readPem(options.tls.key, "key"),
  }
  const listen = (address: Address, onEnd: () => void) =>
    platform.listen({
      address,
      tls,
      handler: guard.handle,
      maxBody: options.maxBody ?? 64 * 1024 * 1024,
      idleTimeout,
      onEnd,
    })
  const opening = Effect.catchDefect(Door.open(listen, options.address, options.givesWay === true), (error) =>
    Effect.fail(whyNot(error, options.address)),
  )
  const { address } = yield* Effect.acquireRelease(opening, (door) =>
    Effect.gen(function* () {
      yield* options.onDrain ?? Effect.void
      const idle = yield* Effect.timeoutOption(guard.idle, options.drainTimeout ?? Duration.seconds(10))
      if (Option.isNone(idle)) yield* Effect.logWarning("requests still under way at the end of the drain are cut off")
      const ended = Option.isSome(idle) && (yield* close(door, false))
      if (!ended) yield* close(door, true)
    }),
  )
  return address
})

const exitCodes = { SIGINT: 130, SIGTERM: 143 } as const
export type Signal = keyof typeof exitCodes

/** Calls `handle` at every SIGHUP, which ends a process that does not listen to it. */
export const onHangup = (handle: () => void): Effect.Effect<void, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => {
      process.on("SIGHUP", handle)
    }),
    () =>
      Effect.sync(() => {
        process.off("SIGHUP", handle)
      }),
  )

/**
 * Milliseconds from the first signal until the process ends, whatever still
 * holds it: above the sum of all that a drain waits for, which `Relay.ts` sets.
 */
export const drainDeadline = 24_000

/**
 * Waits for the first SIGTERM or SIGINT. From then on the next one ends the
 * process at once, and so does the deadline: what is on disk stays there, and
 * is delivered after the next start.
 */
export const firstSignal: Effect.Effect<Signal> = Effect.callback<Signal>((resume) => {
  let seen = false
  const on = (signal: Signal) => () => {
    if (seen) process.exit(exitCodes[signal])
    seen = true
    setTimeout(() => process.exit(exitCodes[signal]), drainDeadline).unref()
    resume(Effect.succeed(signal))
  }
  const handlers = { SIGINT: on("SIGINT"), SIGTERM: on("SIGTERM") }
  process.on("SIGINT", handlers.SIGINT)
  process.on("SIGTERM", handlers.SIGTERM)
  return Effect.sync(() => {
    process.off("SIGINT", handlers.SIGINT)
    process.off("SIGTERM", handlers.SIGTERM)
  })
})
