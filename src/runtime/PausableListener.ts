/**
 * A listener that closes while file descriptors are exhausted, if it is one that
 * may, and opens again when there are some. It also opens again after its
 * runtime has ended it, as Deno does with one that can't accept. And it can be
 * replaced, to take another certificate.
 *
 * While it is closed the system refuses connections at once, and clients retry.
 * When it is replaced no connection is refused (see `SharedPort.ts`): those of
 * the old one stay until their clients have moved on, or were idle for long.
 */
import { Duration, Effect, Latch, Scope, Semaphore } from "effect"
import type { Address } from "../config/Address.ts"
import { repeating } from "../event/Rounds.ts"
import * as Descriptors from "./Descriptors.ts"
import type { Generation } from "./Generation.ts"
import type { Libc, Listener } from "./Platform.ts"
import * as SharedPort from "./SharedPort.ts"

/** A listener that pauses, resumes and is replaced without its address changing. */
export interface PausableListener {
  readonly address: Address
  /** Opens another at the same address, and retires this one. Dies where that is not possible, and nothing has changed. */
  readonly replace: (libc: Libc) => Effect.Effect<void>
  /** Listens again at a Unix socket whose path another process may have taken. */
  readonly reopen: () => void
  /** Lets another process of this user listen at the same address. Returns `false` while there isn't exactly one socket here. Throws if the system doesn't allow it. */
  readonly share: (libc: Libc) => boolean
  /** Does not open again; resolves when the last connection has ended. */
  readonly close: (force: boolean) => Promise<void>
}

/** The options of each listener that is opened. */
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

/** How often a closed listener tries to open again, and how often a retired one is checked. */
const checkEvery = Duration.millis(50)

/** How long a runtime may take to close a socket: Deno does it later. */
const closing = { every: Duration.millis(5), times: 200 }

const exhausted = "file descriptors are used up (`ulimit -n`, LimitNOFILE)"

type Listen = (options: ListenerOptions) => RetirableListener

/** The listeners at one address: the one that accepts, and those before it that still have a socket or connections. */
class Listeners {
  readonly #listen: Listen
  /** The listeners that still have connections, as far as is known. */
  readonly all = new Set<RetirableListener>()
  areAllKnown = true
  /** Open once the runtime has ended one, until the next check. */
  readonly ended = Latch.makeUnsafe(false)
  accepting: RetirableListener | undefined
  /** The listeners that still have their sockets, as the kernel counts them (`SharedPort.prefer`). */
  sharing: Array<RetirableListener> = []

  constructor(listen: Listen) {
    this.#listen = listen
  }

  /** Opens a listener, which accepts from now on. Throws when the address is not available. */
  begin(address: Address, sharesPort: boolean): RetirableListener {
    const onEnd = () => {
      // Its connections stay open.
      this.areAllKnown = false
      Descriptors.exhaust()
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

  /** Its socket is closed: the last one takes its place. */
  leave(listener: RetirableListener): void {
    const index = this.sharing.indexOf(listener)
    const last = this.sharing.at(-1)
    if (index < 0 || last === undefined) return
    this.sharing[index] = last
    this.sharing.pop()
  }

  /** Closes its socket. Its connections stay. */
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

/** Closes the listeners while descriptors are exhausted, where it `mayPause`, and opens another when none accepts. */
const makeCheck = (listeners: Listeners, address: Address, mayPause: boolean): Effect.Effect<void> => {
  let isPaused = false
  const pause = Effect.suspend(() => {
    isPaused = true
    listeners.endAll()
    // Not earlier: connections that wait to be accepted would take them.
    Descriptors.release()
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
    Descriptors.reserve()
    return Effect.logInfo("there are file descriptors again: deliveries are accepted")
  })
  return Effect.suspend(() => {
    if (mayPause && Descriptors.check(listeners.areAllKnown && listeners.all.size === 0)) {
      return isPaused ? Effect.void : pause
    }
    return listeners.accepting === undefined ? resume : Effect.void
  })
}

/** Replaces the listener that accepts. The socket of the old one is closed in `scope`, once its connections are idle. */
const makeReplace = (listeners: Listeners, address: Address, retireAfter: Duration.Duration, scope: Scope.Scope) => {
  const oneAtATime = Semaphore.makeUnsafe(1)
  /** The socket of the one that is accepting, once it has replaced another. */
  let newest = -1

  const endRetired = Effect.fnUntraced(function* (libc: Libc, listener: RetirableListener) {
    if (!listeners.sharing.includes(listener)) return
    const sockets = () => SharedPort.listening(libc, address.port).length
    const before = sockets()
    listeners.end(listener)
    for (let tries = 0; sockets() >= before && tries < closing.times; tries++) yield* Effect.sleep(closing.every)
    listeners.leave(listener)
    const { accepting, sharing } = listeners
    // Until here the filter named none, and any of them accepted.
    if (accepting !== undefined) SharedPort.prefer(libc, newest, sharing.indexOf(accepting))
  })

  const replace = Effect.fnUntraced(function* (libc: Libc) {
    const old = listeners.accepting
    // While it is closed there is none to replace: the next one that opens is of the new kind.
    if (old === undefined) return
    const sockets = SharedPort.listening(libc, address.port)
    SharedPort.share(libc, sockets)
    try {
      const next = listeners.begin(address, true)
      newest = SharedPort.listening(libc, address.port).find((socket) => !sockets.includes(socket)) ?? -1
      SharedPort.prefer(libc, newest, listeners.sharing.indexOf(next))
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
export interface OpenOptions {
  readonly mayPause: boolean
  /** When idle connections of a replaced listener may be closed. */
  readonly retireAfter: Duration.Duration
  /** Takes over the address from the one socket of another process, which shares it. */
  readonly takesOver: Libc | undefined
}

/** Dies with what `listen` throws when the address is not available. */
export const open = Effect.fnUntraced(function* (
  listen: Listen,
  first: Address,
  { mayPause, retireAfter, takesOver }: OpenOptions,
): Effect.fn.Return<PausableListener, never, Scope.Scope> {
  const listeners = new Listeners(listen)
  const { address } = listeners.begin(first, takesOver !== undefined)
  if (takesOver !== undefined) {
    const [socket = -1] = SharedPort.listening(takesOver, address.port)
    // The other process's socket is the first of the two.
    SharedPort.prefer(takesOver, socket, 1)
  }
  if (mayPause) Descriptors.reserve()
  let isClosed = false
  const check = makeCheck(listeners, address, mayPause)
  const checkIfOpen = Effect.suspend(() => {
    listeners.ended.closeUnsafe()
    return isClosed ? Effect.void : check
  })
  const rest = Effect.suspend(() => {
    if (listeners.accepting === undefined) return Effect.sleep(checkEvery)
    const { await: ended } = listeners.ended
    return mayPause ? Effect.raceFirst(ended, Effect.sleep(Descriptors.untilCheck())) : ended
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
      const sockets = SharedPort.listening(libc, address.port)
      if (listeners.accepting === undefined || sockets.length !== 1) return false
      SharedPort.share(libc, sockets)
      return true
    },
    close: async (force) => {
      isClosed = true
      if (mayPause) Descriptors.release()
      await Promise.all([...listeners.all].map((listener) => listener.close(force)))
    },
  }
})
