/**
 * A listener that closes while file descriptors are exhausted, if it `mayPause`, and
 * opens again when some are free. It also opens again after its runtime has ended
 * it: Deno ends a listener that can't accept. And it can be replaced, to use another
 * certificate.
 *
 * While it is closed the system refuses connections immediately, and clients retry.
 * When it is replaced no connection is refused (see `sharePort`): connections of the
 * old listener stay until their clients have moved on, or were idle for long.
 */
import { closeSync, openSync, readdirSync, readFileSync } from "node:fs"
import { Duration, Effect, Latch, Scope, Semaphore } from "effect"
import type { Address } from "../config/Address.ts"
import { repeating } from "../event/Rounds.ts"
import type { Libc, Listener } from "./platform/Platform.ts"
import type { Handler } from "./RequestGuard.ts"

// Keeps a reserve of file descriptors. Otherwise connections could use up all of
// them, and the admin API, the sinks and the log files would have none.
//
// When only the reserve is left, the listener for deliveries closes and the reserve
// is released for everything else. The listener reopens when the reserve and a
// margin are available again.

/** For the admin API, a sink or two, and the log files. */
const reserveSize = 8
/** The number of additional descriptors that must be available before the listener reopens. */
const margin = 4
/** With fewer left, a sink or a log file may already fail, because it may open more than one. */
const fewest = 3

/** Maximum connections that arrive within a millisecond. */
const fastest = 20
/** Milliseconds between two checks. */
const between = { least: 50, most: 1_000 }

const numberIn = (file: string, pattern: RegExp): number => Number(pattern.exec(readFileSync(file, "latin1"))?.[1])
let limit: number | undefined

/**
 * Returns the milliseconds until the next check. Even the fastest senders can't use
 * up the remaining descriptors before it.
 */
const untilCheck = (): number => {
  try {
    limit ??= numberIn("/proc/self/limits", /^Max open files +(\d+)/m)
    // FDSize is the size of the process's descriptor table, so no descriptor is above it.
    const left = limit - numberIn("/proc/self/status", /^FDSize:\s+(\d+)/m)
    return Math.min(Math.max(left / fastest, between.least), between.most) || between.least
  } catch {
    return between.least
  }
}

const closeAll = (descriptors: Array<number>): void => {
  for (const descriptor of descriptors.splice(0)) closeSync(descriptor)
}

/** Opens `count` descriptors, or none. */
const take = (count: number): Array<number> | undefined => {
  const taken: Array<number> = []
  try {
    while (taken.length < count) taken.push(openSync("/dev/null", "r"))
    return taken
  } catch {
    closeAll(taken)
    return undefined
  }
}

/** One reserve for the process, like its table of descriptors. */
const held: Array<number> = []
let areAllUsed = false

/**
 * Called when a listener could not accept. Its end has freed one descriptor, so the
 * next check must require more than one.
 */
const exhaustDescriptors = (): void => {
  areAllUsed = true
}

/** Reports whether only the reserve is left. */
export const areExhausted = (): boolean => areAllUsed

/** Takes the reserve if enough descriptors are available. */
const reserveDescriptors = (): void => {
  if (held.length === 0) held.push(...(take(reserveSize) ?? []))
}

/** Releases the reserve for everything else. */
const releaseDescriptors = (): void => closeAll(held)

/**
 * Reports whether descriptors are exhausted, and takes the reserve again if they are
 * not. It runs several times a second for a few microseconds. If no connection is
 * left that could end (`isLast`), one free descriptor is enough.
 */
const checkDescriptors = (isLast: boolean): boolean => {
  const taken = take(!areAllUsed ? fewest : isLast ? 1 : reserveSize + margin)
  if (taken !== undefined && areAllUsed) held.push(...taken.splice(margin))
  areAllUsed = taken === undefined
  closeAll(taken ?? [])
  return areAllUsed
}

// Lets another listening socket of this process take over an address without refusing a connection, because neither
// runtime can change the certificate of an open listener. All its sockets have SO_REUSEPORT, and a filter makes the
// kernel pass each new connection to the newest one. The older sockets still accept connections whose handshake was in
// progress; if closed immediately, they would reset these. Another relay still can't listen there, because its first
// socket has no SO_REUSEPORT.

/** Linux, asm-generic/socket.h: the same on x86-64 and ARM64. */
const SOL_SOCKET = 1
const SO_REUSEPORT = 15
const SO_ACCEPTCONN = 30
const SO_ATTACH_REUSEPORT_CBPF = 51

/** Memory whose address doesn't change. */
const bytes = (length: number): Uint8Array => new Uint8Array(new ArrayBuffer(length))
const int = (value: number): Uint8Array => {
  const memory = bytes(4)
  new DataView(memory.buffer).setInt32(0, value, true)
  return memory
}

const isAccepting = (libc: Libc, fd: number): boolean => {
  const value = int(0)
  return libc.getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, value, int(4)) === 0 && value[0] === 1
}

/** The port has the same offset for IPv4 and IPv6. */
const portOf = (libc: Libc, fd: number): number => {
  const address = bytes(28)
  return libc.getsockname(fd, address, int(28)) === 0 ? new DataView(address.buffer).getUint16(2) : 0
}

/** Returns the descriptors of this process's sockets that listen on a port. */
export const listeningSockets = (libc: Libc, port: number): ReadonlyArray<number> =>
  readdirSync("/proc/self/fd")
    .map(Number)
    .filter((fd) => isAccepting(libc, fd) && portOf(libc, fd) === port)

/** Throws if the system does not allow it. */
const set = (libc: Libc, fd: number, option: number, value: Uint8Array): void => {
  if (libc.setsockopt(fd, SOL_SOCKET, option, value, value.length) !== 0) {
    throw new Error("the system does not let two sockets share an address; a restart takes the new certificate")
  }
}

/** Lets other sockets with the option listen on the same address. */
const sharePort = (libc: Libc, fds: ReadonlyArray<number>): void => {
  for (const fd of fds) set(libc, fd, SO_REUSEPORT, int(1))
}

/**
 * Passes each new connection from now on to the socket with this index, among the
 * sockets that share the address. They are numbered from 0 in the order in which
 * they were opened. When a socket is closed, the last one takes its index.
 */
const preferSocket = (libc: Libc, fd: number, index: number): void => {
  // One instruction, `return index`.
  const filter = bytes(8)
  const instruction = new DataView(filter.buffer)
  instruction.setUint16(0, 0x06, true)
  instruction.setUint32(4, index, true)
  const program = bytes(16)
  const fields = new DataView(program.buffer)
  fields.setUint16(0, 1, true)
  // `memcpy` returns the address that it copied to: the runtimes share no other way to get an address.
  fields.setBigUint64(8, BigInt(libc.memcpy(filter, filter, 0)), true)
  set(libc, fd, SO_ATTACH_REUSEPORT_CBPF, program)
}

// The requests of one listener. Once it is retired, because another has taken over its address,
// each answer asks the client to reconnect.

interface Generation {
  readonly handle: Handler
  readonly retire: () => void
  /** Reports whether no request since it was retired is in progress. */
  readonly isIdle: () => boolean
}

export const makeGeneration = (handler: Handler): Generation => {
  let isRetired = false
  let inProgress = 0
  const handleLast = async (request: Request): Promise<Response> => {
    inProgress += 1
    try {
      const response = await handler(request)
      response.headers.set("connection", "close")
      return response
    } finally {
      inProgress -= 1
    }
  }
  return {
    handle: (request) => (isRetired ? handleLast(request) : handler(request)),
    retire: () => {
      isRetired = true
    },
    isIdle: () => inProgress === 0,
  }
}

/** A listener that can pause, resume and be replaced while its address stays the same. */
export interface PausableListener {
  readonly address: Address
  /**
   * Opens another listener at the same address, and retires this one. Dies if that is not possible, and nothing has
   * changed.
   */
  readonly replace: (libc: Libc) => Effect.Effect<void>
  /** Listens again on a Unix socket whose path another process may have taken. */
  readonly reopen: () => void
  /**
   * Lets another process of this user listen on the same address. Returns `false` unless there is exactly one socket
   * here. Throws if the system doesn't allow it.
   */
  readonly share: (libc: Libc) => boolean
  /** Closes for good. Resolves when the last connection has ended. */
  readonly close: (force: boolean) => Promise<void>
}

/** Options of each listener. */
export interface ListenerOptions {
  readonly address: Address
  readonly sharesPort: boolean
  /** Called when the runtime has ended the listener. */
  readonly onEnd: () => void
}

/** A listener whose requests can be retired. */
export interface RetirableListener extends Listener {
  readonly generation: Generation
}

/** How often a closed listener tries to reopen, and how often a retired listener is checked. */
const checkEvery = Duration.millis(50)

/** How long a runtime may take to close a socket, because Deno does not close it immediately. */
const closing = { every: Duration.millis(5), times: 200 }

const exhausted = "file descriptors are used up (`ulimit -n`, LimitNOFILE)"

type Listen = (options: ListenerOptions) => RetirableListener

/** The listeners at one address: the accepting one, and earlier ones that still have a socket or connections. */
class Listeners {
  readonly #listen: Listen
  /** The listeners that may have connections. Unless `areAllKnown`, others may have some too. */
  readonly all = new Set<RetirableListener>()
  areAllKnown = true
  /** Open from when the runtime has ended a listener until the next check. */
  readonly ended = Latch.makeUnsafe(false)
  accepting: RetirableListener | undefined
  /** The listeners that still have their sockets, in the order of the kernel's numbers (see `preferSocket`). */
  sharing: Array<RetirableListener> = []

  constructor(listen: Listen) {
    this.#listen = listen
  }

  /** Opens a listener, which accepts from now on. Throws if the address is not available. */
  begin(address: Address, sharesPort: boolean): RetirableListener {
    const onEnd = () => {
      // Its connections stay open.
      this.areAllKnown = false
      exhaustDescriptors()
      this.all.delete(listener)
      this.leave(listener)
      if (this.accepting === listener) this.accepting = undefined
      this.ended.openUnsafe()
    }
    const listener = this.#listen({ address, sharesPort, onEnd })
    this.all.add(listener)
    this.sharing.push(listener)
    this.accepting = listener
    return listener
  }

  /** Called when a listener's socket is closed. The last listener takes its index. */
  leave(listener: RetirableListener): void {
    const index = this.sharing.indexOf(listener)
    const last = this.sharing.at(-1)
    if (index < 0 || last === undefined) return
    this.sharing[index] = last
    this.sharing.pop()
  }

  /** Closes a listener's socket. Its connections stay. */
  end(listener: RetirableListener): void {
    const ended = () => this.all.delete(listener)
    listener.close(false).then(ended, ended)
  }

  /** Closes all sockets. */
  endAll(): void {
    for (const listener of this.sharing) this.end(listener)
    this.sharing = []
    this.accepting = undefined
  }
}

/** Closes the listeners while descriptors are exhausted, if it `mayPause`, and opens another when none accepts. */
const makeCheck = (listeners: Listeners, address: Address, mayPause: boolean): Effect.Effect<void> => {
  let isPaused = false
  const pause = Effect.suspend(() => {
    isPaused = true
    listeners.endAll()
    // Not earlier, because connections that wait to be accepted would take them.
    releaseDescriptors()
    return Effect.logError(`${exhausted}: no delivery is accepted until some are given back`)
  })
  const resume = Effect.suspend(() => {
    try {
      listeners.begin(address, false)
    } catch {
      // The next check tries again.
      return Effect.void
    }
    if (!isPaused) return Effect.void
    isPaused = false
    reserveDescriptors()
    return Effect.logInfo("there are file descriptors again: deliveries are accepted")
  })
  return Effect.suspend(() => {
    if (mayPause && checkDescriptors(listeners.areAllKnown && listeners.all.size === 0)) {
      return isPaused ? Effect.void : pause
    }
    return listeners.accepting === undefined ? resume : Effect.void
  })
}

/** Replaces the current listener. The old socket is closed in `scope` once its connections are idle. */
const makeReplace = (listeners: Listeners, address: Address, retireAfter: Duration.Duration, scope: Scope.Scope) => {
  const oneAtATime = Semaphore.makeUnsafe(1)
  /** The socket of the accepting listener, once it has replaced another. */
  let newest = -1

  const endRetired = Effect.fnUntraced(function* (libc: Libc, listener: RetirableListener) {
    if (!listeners.sharing.includes(listener)) return
    const sockets = () => listeningSockets(libc, address.port).length
    const before = sockets()
    listeners.end(listener)
    for (let tries = 0; sockets() >= before && tries < closing.times; tries++) yield* Effect.sleep(closing.every)
    listeners.leave(listener)
    const { accepting, sharing } = listeners
    // Until here, the filter named no socket, so any of them accepted.
    if (accepting !== undefined) preferSocket(libc, newest, sharing.indexOf(accepting))
  })

  const replace = Effect.fnUntraced(function* (libc: Libc) {
    const old = listeners.accepting
    // If it is closed, there is nothing to replace, and the next listener opens with the new options.
    if (old === undefined) return
    const sockets = listeningSockets(libc, address.port)
    sharePort(libc, sockets)
    try {
      const next = listeners.begin(address, true)
      newest = listeningSockets(libc, address.port).find((socket) => !sockets.includes(socket)) ?? -1
      preferSocket(libc, newest, listeners.sharing.indexOf(next))
    } catch (error) {
      const { accepting } = listeners
      if (accepting !== undefined && accepting !== old) {
        listeners.end(accepting)
        listeners.leave(accepting)
      }
      listeners.accepting = old
      throw error
    }
    old.generation.retire()
    const ending = Effect.sleep(retireAfter).pipe(
      Effect.andThen(Effect.repeat(Effect.sleep(checkEvery), { until: old.generation.isIdle, times: 600 })),
      Effect.andThen(oneAtATime.withPermit(endRetired(libc, old))),
    )
    yield* Effect.forkIn(ending, scope)
  })
  return (libc: Libc) => oneAtATime.withPermit(replace(libc))
}

/** How a listener opens. */
interface OpenOptions {
  readonly mayPause: boolean
  /** When idle connections of a replaced listener may be closed. */
  readonly retireAfter: Duration.Duration
  /** Takes over the address from the only socket of another process, which shares the address. */
  readonly takesOver: Libc | undefined
}

/** Opens a listener. Dies with the error of `listen` if the address is not available. */
export const open = Effect.fnUntraced(function* (
  listen: Listen,
  first: Address,
  { mayPause, retireAfter, takesOver }: OpenOptions,
): Effect.fn.Return<PausableListener, never, Scope.Scope> {
  const listeners = new Listeners(listen)
  const { address } = listeners.begin(first, takesOver !== undefined)
  if (takesOver !== undefined) {
    const [socket = -1] = listeningSockets(takesOver, address.port)
    // The other process's socket has the index 0.
    preferSocket(takesOver, socket, 1)
  }
  if (mayPause) reserveDescriptors()
  let isClosed = false
  const check = makeCheck(listeners, address, mayPause)
  const checkIfOpen = Effect.suspend(() => {
    listeners.ended.closeUnsafe()
    return isClosed ? Effect.void : check
  })
  const rest = Effect.suspend(() => {
    if (listeners.accepting === undefined) return Effect.sleep(checkEvery)
    const { await: ended } = listeners.ended
    return mayPause ? Effect.raceFirst(ended, Effect.sleep(untilCheck())) : ended
  })
  yield* Effect.forkScoped(repeating("checking a listener", Effect.andThen(rest, checkIfOpen)))
  return {
    address,
    replace: makeReplace(listeners, address, retireAfter, yield* Scope.Scope),
    reopen: () => {
      const old = listeners.accepting
      listeners.begin(address, false)
      if (old === undefined) return
      listeners.end(old)
      listeners.leave(old)
    },
    share: (libc) => {
      const sockets = listeningSockets(libc, address.port)
      if (listeners.accepting === undefined || sockets.length !== 1) return false
      sharePort(libc, sockets)
      return true
    },
    close: async (force) => {
      isClosed = true
      if (mayPause) releaseDescriptors()
      await Promise.all([...listeners.all].map((listener) => listener.close(force)))
    },
  }
})
