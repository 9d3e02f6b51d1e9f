/**
 * The JavaScript runtime, Bun or Deno: HTTP servers, HMAC and signals. Only this
 * folder uses their own APIs.
 *
 * **Guarantee.** A drain lets requests in progress end. `onDrain` makes the handler
 * refuse new requests. The listener closes once all earlier requests have ended, or
 * by force after the deadline.
 *
 * **Gotcha.** Closing the listener first is worse on both runtimes. Bun's `stop()`
 * waits as long as a half-sent body stalls, and Deno's `shutdown()` cuts it off.
 */
import { lookup } from "node:dns/promises"
import { chmodSync, chownSync, lstatSync, readFileSync, renameSync, rmSync, type Stats } from "node:fs"
import { connect, isIP } from "node:net"
import { networkInterfaces } from "node:os"
import process from "node:process"
import { Context, Duration, Effect, Layer, Option, Redacted, Schema, type Scope } from "effect"
import { type Address, all, format } from "../config/Address.ts"
import type { Socket, Tls } from "../config/Config.ts"
import { codeOf } from "./Errors.ts"
import { numberIn, portHolderWords } from "./Files.ts"
import { makeReception } from "./Hold.ts"
import {
  type ListenerOptions,
  makeGeneration,
  open,
  type PausableListener,
  type RetirableListener,
} from "./PausableListener.ts"
import * as BunPlatform from "./platform/Bun.ts"
import * as DenoPlatform from "./platform/Deno.ts"
import type { Libc, Listener, ListenOptions, Platform } from "./platform/Platform.ts"
import * as RequestGuard from "./RequestGuard.ts"

// A listener on a Unix socket, for a proxy on the same machine. It is bound under a temporary name, gets its mode and
// group, and is then renamed to its path. So no client connects before the permissions are set, and the stale file of a
// killed relay is replaced. **Gotcha.** When a listener closes, Bun removes the name that it was bound under, even if
// another process listens there by then.

const statOf = (path: string): Stats | undefined => lstatSync(path, { throwIfNoEntry: false })

const groupNumber = (group: string): number => {
  const found = /^\d+$/.test(group) ? Number(group) : numberIn(readFileSync("/etc/group", "utf8"), group)
  if (found === undefined) throw new Error(`there is no group "${group}" on this machine`)
  return found
}

/** Calls `listen` with the name to bind. Throws if it can't listen on the path, or can't set the permissions. */
const bindSocket = <A>(path: string, { mode, group }: Socket, listen: (name: string) => A): A => {
  const gid = group === undefined ? undefined : groupNumber(group)
  const name = `${path}.${process.pid}`
  rmSync(name, { force: true })
  const mask = process.umask(0o177)
  try {
    const listener = listen(name)
    if (gid !== undefined) chownSync(name, process.geteuid?.() ?? -1, gid)
    chmodSync(name, mode)
    renameSync(name, path)
    return listener
  } catch (error) {
    rmSync(name, { force: true })
    throw error
  } finally {
    process.umask(mask)
  }
}

/** Identifies the socket at a path, so that {@link removeSocket} doesn't remove a later one. */
const socketIdentity = (path: string): number | undefined => statOf(path)?.ino

/** Removes the socket if it is still the same one. */
const removeSocket = (path: string, identity: number | undefined): void => {
  if (identity !== undefined && socketIdentity(path) === identity) rmSync(path, { force: true })
}

/** Reports whether a listening socket was bound for this path. The kernel lists it under its temporary name. */
const isListed = (path: string): boolean => {
  try {
    const names = readFileSync("/proc/self/net/unix", "utf8")
      .split("\n")
      .map((line) => line.split(" ").at(-1) ?? "")
    return names.some((name) => name.startsWith(`${path}.`) && /^\d+$/.test(name.slice(path.length + 1)))
  } catch {
    return false
  }
}

/** Inspects a path. A socket is stale if nothing listens there. */
const inspectSocket = (path: string): Effect.Effect<"free" | "stale" | "taken" | "no socket"> =>
  Effect.suspend(() => {
    const found = statOf(path)
    if (found === undefined) return Effect.succeed("free")
    if (!found.isSocket()) return Effect.succeed("no socket")
    return Effect.callback<"stale" | "taken">((resume) => {
      const socket = connect(path, () => {
        socket.destroy()
        resume(Effect.succeed("taken"))
      })
      socket.on("error", (error) => {
        // A user who may not connect still finds it in the kernel's list.
        const isTaken = codeOf(error) !== "ECONNREFUSED" && isListed(path)
        resume(Effect.succeed(isTaken ? "taken" : "stale"))
      })
    })
  })

const platform: Platform = "Deno" in globalThis ? DenoPlatform.make() : BunPlatform.make()

/** The parts of the platform that other modules use. */
export const { name, version, isCompiled, hmac, peerOf, libc, collect } = platform

/** Unpacks gzip outside of the event loop, up to `most` bytes. Returns the bytes, or why there are none. */
export const gunzip = async (bytes: Uint8Array, most: number): Promise<Uint8Array | "tooLarge" | "notGzip"> => {
  const zlib = await import("node:zlib")
  return new Promise((resolve) => {
    zlib.gunzip(bytes, { maxOutputLength: most }, (error, unpacked) => {
      if (error === null) resolve(unpacked)
      else resolve((error as { code?: unknown }).code === "ERR_BUFFER_TOO_LARGE" ? "tooLarge" : "notGzip")
    })
  })
}

/** The options of an open port. */
export interface DoorOptions {
  readonly address: Address
  /** Permissions of a Unix socket (default: its owner and group may connect). */
  readonly socket?: Socket | undefined
  /** The config key of the address, for messages. */
  readonly key?: string
  readonly tls?: Tls
  /** Closes while file descriptors are exhausted, so that everything else has some (default: false). */
  readonly mayPause?: boolean
  /** Default: 60 seconds. */
  readonly idleTimeout?: Duration.Duration
  /** Maximum bytes of a request line and its headers, for all listeners of the process. */
  readonly maxHeaders?: number | undefined
  /** Maximum bytes of a body, for handlers that don't limit it themselves (default: 64 MiB). */
  readonly maxBody?: number
  /** Answers requests that don't wait while all others wait. */
  readonly whileHeld?: (request: Request) => Response | undefined
  /**
   * Set if this listener takes over the address from another process of this user. New connections arrive here from now
   * on. The effect waits until the other process has ended.
   */
  readonly takesOver?: Effect.Effect<void>
}

/** How requests are handled. */
export interface Handling {
  readonly handler: RequestGuard.Handler
  /** Called for each answer that is not the handler's, with its request id. */
  readonly onRefused?: (refusal: RequestGuard.Refusal, requestId: string, request: Request) => void
  /** Called once when the drain begins. The handler must refuse requests from then on. */
  readonly onDrain?: Effect.Effect<void>
  /** How long a drain waits for requests in progress (default: 10 seconds). */
  readonly drainTimeout?: Duration.Duration
}

/** The options of an HTTP server. */
export type ServeOptions = DoorOptions & Handling

/** The relay can't listen on the address. */
export class ServeError extends Schema.TaggedError<ServeError>()("ServeError", {
  message: Schema.String,
  /** Another process listens there. */
  isTaken: Schema.optionalKey(Schema.Boolean),
  /** This process lacks the privilege to listen there. Another process may have it. */
  isDenied: Schema.optionalKey(Schema.Boolean),
}) {}

/** Longer than any handler waits, because Bun applies it to slow handlers too. */
const usualIdleTimeout = Duration.seconds(60)
/** Idle connections of a replaced listener stay this much longer than `idleTimeout`, if the runtime closes none by itself. */
const retireLater = Duration.seconds(5)
const usualDrainTimeout = Duration.seconds(10)
/** How long idle connections, and connections that receive their last bytes, have to close. */
const closeTimeout = Duration.seconds(1)
/** How long requests in progress have before another process takes over. */
const longestHandover = Duration.seconds(1)
const lookEvery = Duration.millis(5)

type Place = Pick<ServeOptions, "address" | "key">
const inWords = ({ address, key }: Place): string =>
  key === undefined ? format(address) : `"${key}", ${format(address)},`

const whyNoSocket = (error: unknown, place: Place): ServeError => {
  const causes: Readonly<Record<string, string>> = {
    ENOENT: "its directory does not exist; create it, or have systemd do so (RuntimeDirectory=)",
    EACCES: "this user may not write to its directory",
    EPERM: "this user may not give it that group: only a member of the group may",
  }
  const cause = causes[codeOf(error) ?? ""] ?? (error instanceof Error ? error.message : String(error))
  return new ServeError({ message: `can't listen on ${inWords(place).replace(/,$/, "")}: ${cause}` })
}

/** Fails if a Unix socket is in use, or another file is at its path. */
const checkSocket = Effect.fnUntraced(function* (place: Place) {
  const { unix } = place.address
  if (unix === undefined) return
  const found = yield* inspectSocket(unix)
  if (found === "taken") {
    return yield* new ServeError({
      message: `${inWords(place)} is taken: another relay, or another program, listens there; stop it, or choose another path`,
      isTaken: true,
    })
  }
  if (found === "no socket") {
    const message = `${inWords(place)} is a file, and not a socket: remove it, or choose another path`
    return yield* new ServeError({ message })
  }
})

const whyNot = (error: unknown, place: Place): ServeError => {
  const { address } = place
  if (address.unix !== undefined) return whyNoSocket(error, place)
  const where = inWords(place)
  switch (codeOf(error)) {
    case "EADDRINUSE":
    case "AddrInUse":
      return new ServeError({
        message: `${where} is taken: ${portHolderWords(address.port) ?? "another relay, or another program,"} listens there; stop it, or choose another port`,
        isTaken: true,
      })
    case "EACCES":
    case "PermissionDenied":
      return new ServeError({
        message: `${where} is not allowed: a port below 1024 needs a privilege (CAP_NET_BIND_SERVICE); choose another, or give it`,
        isDenied: true,
      })
    case "EADDRNOTAVAIL":
    case "AddrNotAvailable":
      return new ServeError({
        message: `${where} is not an address of this machine: choose one that it has, or * for all of them`,
      })
    case "EINVAL":
      if (address.host.toLowerCase().startsWith("fe80:")) {
        return new ServeError({ message: `${where} is an address of one network link only: choose another address` })
      }
      break
  }
  return new ServeError({
    message: `can't listen on ${where.replace(/,$/, "")}: ${error instanceof Error ? error.message : error}`,
  })
}

/**
 * Fails with the reason why a listener did not open. Bun's own error is misleading if the host's name has no address:
 * it has the code of an earlier failure (oven-sh/bun#37690).
 */
const failWith = (error: unknown, place: Place): Effect.Effect<never, ServeError> => {
  const { host, unix } = place.address
  const isName = unix === undefined && host !== all && isIP(host) === 0
  const resolves = isName ? Effect.isSuccess(Effect.tryPromise(() => lookup(host))) : Effect.succeed(true)
  const unknown = `${inWords(place)} has no address: correct the host's name, or write its address`
  return Effect.flatMap(resolves, (found) =>
    Effect.fail(found ? whyNot(error, place) : new ServeError({ message: unknown })),
  )
}

/**
 * Returns the host to bind. A listener on `::` also accepts IPv4. Without any IPv6
 * address, the kernel may not support `::`.
 */
const boundHost = (host: string): string => {
  if (host !== all) return host
  const hasV6 = Object.values(networkInterfaces()).some((some) => some?.some(({ family }) => family === "IPv6"))
  return hasV6 ? "::" : "0.0.0.0"
}

/** Closes a listener. Returns whether its connections ended in time. */
const close = (listener: PausableListener, force: boolean): Effect.Effect<boolean> =>
  Effect.map(
    Effect.timeoutOption(
      Effect.promise(() => listener.close(force)),
      closeTimeout,
    ),
    Option.isSome,
  )

/** Listens on a port, or on a Unix socket that is removed when the listener closes. */
const listenAt = (options: ListenOptions, socket: Socket = { mode: 0o660 }): Listener => {
  const { address } = options
  const { unix } = address
  if (unix === undefined) return platform.listen(options)
  const bound = (name: string) => platform.listen({ ...options, address: { ...address, unix: name } })
  const listener = bindSocket(unix, socket, bound)
  const identity = socketIdentity(unix)
  return {
    address,
    close: (force) => {
      removeSocket(unix, identity)
      return listener.close(force)
    },
  }
}

/** A server that listens. */
export interface Serving {
  /** The address with the actual port. */
  readonly address: Address
  /** The number of requests since the start. */
  readonly requests: () => number
  /** Uses another certificate for new connections. Open connections stay, and none is refused. */
  readonly renew: (tls: Tls) => Effect.Effect<void, ServeError>
}

/** An open port, whose requests wait until a handler serves them. */
export interface Door extends Serving {
  /** Serves until the scope closes. Then it drains and closes the port, unless another process will serve the requests. */
  readonly serve: (handling: Handling) => Effect.Effect<void, never, Scope.Scope>
  /** Lets another process of this user listen here from now on. */
  readonly share: Effect.Effect<void, ServeError>
  /**
   * From now on each answer closes its connection. When `serve` ends, the port stays open and requests wait. Another
   * `serve` undoes both.
   */
  readonly leave: Effect.Effect<void>
  /** Passes all waiting and later requests to a handler. */
  readonly passTo: (handler: RequestGuard.Handler) => void
}

/** Closes the port once the requests in progress have ended, or by force after `timeout`. */
const drain = Effect.fnUntraced(function* (
  listener: PausableListener,
  guard: RequestGuard.Guard,
  timeout: Duration.Duration,
) {
  const waiting = guard.inProgress()
  if (waiting > 0) {
    const what = waiting === 1 ? "1 request" : `${waiting} requests`
    yield* Effect.logInfo(
      `waiting for ${what} under way on ${format(listener.address)}, for ${Duration.format(timeout)} at most`,
    )
  }
  const inTime = yield* Effect.timeoutOption(guard.ended, timeout)
  if (Option.isNone(inTime)) yield* Effect.logWarning("requests still under way at the end of the drain are cut off")
  const ended = Option.isSome(inTime) && (yield* close(listener, false))
  if (!ended) yield* close(listener, true)
})

/** Opens a port until the scope closes. */
export const openDoor = Effect.fn("Runtime.openDoor")(function* (
  options: DoorOptions,
): Effect.fn.Return<Door, ServeError, Scope.Scope> {
  const run = Effect.runForkWith(yield* Effect.context<never>())
  const report = (requestId: string, defect: unknown) => {
    run(Effect.annotateLogs(Effect.logError("a bug while answering a request", defect), { requestId }))
  }
  const reception = makeReception(options.whileHeld ?? (() => undefined))
  let onRefused: Handling["onRefused"]
  const guard = RequestGuard.make(
    reception.handle,
    report,
    (...refused) => onRefused?.(...refused),
    platform.readsTrailers,
  )
  let { tls } = options
  const idleTimeout = options.idleTimeout ?? usualIdleTimeout
  const listen = (own: ListenerOptions): RetirableListener => {
    const generation = makeGeneration(guard.handle)
    const listener = listenAt(
      {
        ...own,
        address: { ...own.address, host: boundHost(own.address.host) },
        tls: tls && { certificate: tls.certificate, key: Redacted.value(tls.key) },
        // A listener without a certificate is never replaced.
        handler: tls === undefined ? guard.handle : generation.handle,
        maxBody: options.maxBody ?? 64 * 1024 * 1024,
        maxHeaders: options.maxHeaders,
        idleTimeout: Math.ceil(Duration.toSeconds(idleTimeout)),
      },
      options.socket,
    )
    return { ...listener, address: { ...own.address, port: listener.address.port }, generation }
  }
  if (options.takesOver === undefined) yield* checkSocket(options)
  const isPath = options.address.unix !== undefined
  const isFirst = options.takesOver === undefined || isPath
  const takesOver = isFirst ? undefined : yield* Effect.mapError(sharingLibrary, cantShare)
  // Until then, the kernel also counts another process's socket, and `preferSocket` would select a wrong one.
  const isAlone = options.takesOver ?? Effect.void
  const opening = Effect.catchDefect(
    open(listen, options.address, {
      mayPause: options.mayPause === true,
      retireAfter: Duration.sum(idleTimeout, retireLater),
      takesOver,
    }),
    (error) => failWith(error, options),
  )
  let isClosed = false
  const end = Effect.fnUntraced(function* (listener: PausableListener, timeout: Duration.Duration) {
    if (isClosed) return
    isClosed = true
    yield* drain(listener, guard, timeout)
  })
  const listener = yield* Effect.acquireRelease(opening, (listener) => {
    reception.giveUp()
    return end(listener, closeTimeout)
  })
  const finish = Effect.fnUntraced(function* ({ onDrain = Effect.void, drainTimeout = usualDrainTimeout }: Handling) {
    if (!reception.isLeaving) {
      yield* onDrain
      return yield* end(listener, drainTimeout)
    }
    reception.hold()
    const isIdle = Effect.sync(() => guard.inProgress() <= reception.waiting())
    const idle = Effect.repeat(Effect.delay(isIdle, lookEvery), { until: (yes) => yes })
    yield* Effect.timeoutOption(idle, longestHandover)
    yield* onDrain
  })
  const renew = Effect.fn("Runtime.renew")(function* (next: Tls): Effect.fn.Return<void, ServeError> {
    const library = yield* Effect.mapError(sharingLibrary, cantRenew)
    yield* isAlone
    const before = tls
    tls = next
    yield* Effect.catchDefect(listener.replace(library), (error) => {
      tls = before
      return failWith(error, options)
    })
  })
  return {
    address: listener.address,
    requests: guard.total,
    renew,
    serve: (handling) =>
      Effect.acquireRelease(
        Effect.sync(() => {
          if (reception.isLeaving && isPath) listener.reopen()
          reception.isLeaving = false
          onRefused = handling.onRefused
          reception.passTo(handling.handler)
        }),
        () => finish(handling),
      ),
    // Another process renames its Unix socket over this one.
    share: isPath
      ? Effect.void
      : Effect.andThen(isAlone, Effect.mapError(sharingLibrary, cantShare)).pipe(
          Effect.flatMap((library) => shareWith(listener, library)),
        ),
    leave: Effect.sync(() => {
      reception.isLeaving = true
    }),
    passTo: reception.passTo,
  }
})

/** Serves until the scope closes, then drains. */
export const serve = Effect.fn("Runtime.serve")(function* (
  options: ServeOptions,
): Effect.fn.Return<Serving, ServeError, Scope.Scope> {
  const door = yield* openDoor(options)
  yield* door.serve(options)
  return door
})

/** The C library that a listener needs to share its address. Fails with the reason if there is none. */
const sharingLibrary: Effect.Effect<Libc, string> = Effect.suspend(() =>
  platform.cantSharePort === undefined
    ? Effect.mapError(Effect.try(platform.libc), () => "the C library can't be called")
    : Effect.fail(platform.cantSharePort),
)

const cantRenew = (why: string): ServeError =>
  new ServeError({ message: `the listener can't take another certificate here (${why}): restart the relay` })
const cantShare = (why: string): ServeError =>
  new ServeError({ message: `two processes can't listen at one address here: ${why}` })

const shareWith = ({ address, share }: PausableListener, library: Libc): Effect.Effect<void, ServeError> => {
  const where = format(address)
  return Effect.try({
    try: () => share(library),
    catch: () => cantShare("the system has no SO_REUSEPORT"),
  }).pipe(
    Effect.filterOrFail(
      (isShared) => isShared,
      () => cantShare(`${where} is paused, or has just taken another certificate; try again in two minutes`),
    ),
    Effect.asVoid,
  )
}

const exitCodes = { SIGINT: 130, SIGTERM: 143 } as const
/** The signals that stop the process. */
export type Signal = keyof typeof exitCodes

/** Calls `handle` for each such signal. Without a handler, the signal ends the process. */
export const onSignal = (
  signal: "SIGHUP" | "SIGUSR1" | "SIGUSR2",
  handle: () => void,
): Effect.Effect<unknown, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => process.on(signal, handle)),
    () => Effect.sync(() => process.off(signal, handle)),
  )

/** How a draining process exits early. */
export interface Exits {
  /** The time after the signal at which it always exits. */
  readonly deadline: (signal: Signal) => Duration.Duration
  /** Called before the process exits by the deadline or a second signal. The exit waits for it. */
  readonly onExit: (why: string) => Promise<void>
}

/**
 * Waits for the first SIGTERM or SIGINT. A second one ends the process immediately, and so does the deadline. Events
 * that are on disk are delivered after the next start.
 */
export const awaitSignal = (exits?: Exits): Effect.Effect<Signal> =>
  Effect.callback<Signal>((resume) => {
    let isDraining = false
    const on = (signal: Signal) => () => {
      const exit = async (why: string) => {
        await exits?.onExit(why)
        process.exit(exitCodes[signal])
      }
      if (isDraining) return exit(`${signal} again`)
      isDraining = true
      if (exits !== undefined) {
        const deadline = exits.deadline(signal)
        const why = `the stop has not ended in ${Duration.format(deadline)}`
        setTimeout(() => exit(why), Duration.toMillis(deadline)).unref()
      }
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

/** Stops this process by sending it SIGTERM. */
export const stopItself: Effect.Effect<void> = Effect.sync(() => process.kill(process.pid, "SIGTERM"))

/** For commands that run until Ctrl-C and have nothing to drain. */
export const firstSignal = awaitSignal()

// The certificate of the listener for deliveries, which a reload renews.
// **Guarantee.** No delivery is refused during a renewal. Open connections stay, and new ones get the new certificate.

type Renew = (tls: Tls) => Effect.Effect<void, ServeError>

/** The listener's certificate. `renew` fails with `ServeError`, and the old certificate stays. */
export class ListenerTls extends Context.Service<
  ListenerTls,
  {
    /** The certificate to listen with. Absent for plain HTTP. */
    readonly current: Effect.Effect<Tls | undefined>
    readonly renew: Renew
    /** Sets how the listener changes its certificate. The listener opens after everything that can renew it. */
    readonly listening: (renew: Renew) => Effect.Effect<void>
  }
>()("relay/runtime/ListenerTls") {
  static readonly layer = (tls: Tls | undefined): Layer.Layer<ListenerTls> =>
    Layer.sync(ListenerTls, () => {
      let current = tls
      let take: Renew = () => Effect.void
      return ListenerTls.of({
        current: Effect.sync(() => current),
        renew: (tls) =>
          Effect.tap(
            Effect.suspend(() => take(tls)),
            () => Effect.sync(() => (current = tls)),
          ),
        listening: (renew) => Effect.sync(() => (take = renew)),
      })
    })
}
