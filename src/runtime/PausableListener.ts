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
import { Duration, Effect, Scope, Semaphore } from "effect"
import type { Address } from "../config/Address.ts"
import * as Descriptors from "./Descriptors.ts"
import type { Generation } from "./Generation.ts"
import type { Libc, Listener } from "./Platform.ts"
import * as SharedPort from "./SharedPort.ts"

export interface PausableListener {
  readonly address: Address
  /** Opens another at the same address, and retires this one. Dies where that is not possible, and nothing has changed. */
  readonly replace: (libc: Libc) => Effect.Effect<void>
  /** Does not open again; resolves when the last connection has ended. */
  readonly close: (force: boolean) => Promise<void>
}

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

/** Connections come by the thousand a second. */
const checkEvery = Duration.millis(50)

/** How long a runtime may take to close a socket: Deno does it later. */
const closing = { every: Duration.millis(5), times: 200 }

const exhausted = "file descriptors are used up (`ulimit -n`, LimitNOFILE)"

/** `listen` throws when the address is not available. `retireAfter` is when connections that were idle may be closed. */
export const open = Effect.fnUntraced(function* (
  listen: (options: ListenerOptions) => RetirableListener,
  first: Address,
  mayPause: boolean,
  retireAfter: Duration.Duration,
): Effect.fn.Return<PausableListener, never, Scope.Scope> {
  const scope = yield* Scope.Scope
  const oneAtATime = yield* Semaphore.make(1)
  /** Listeners that still have connections, as far as is known. */
  const all = new Set<RetirableListener>()
  let areAllKnown = true
  let accepting: RetirableListener | undefined
  /** It and those that were replaced and still have their sockets, as the kernel counts them (`SharedPort.prefer`). */
  let sharing: Array<RetirableListener> = []
  /** The socket of the one that is accepting, once it has replaced another. */
  let newest = -1
  let isPaused = false
  let isClosed = false

  const leave = (listener: RetirableListener): void => {
    const index = sharing.indexOf(listener)
    const last = sharing.at(-1)
    if (index < 0 || last === undefined) return
    sharing[index] = last
    sharing.pop()
  }
  const begin = (address: Address, sharesPort: boolean): RetirableListener => {
    const onEnd = () => {
      // Its connections stay open.
      areAllKnown = false
      Descriptors.exhaust()
      all.delete(listener)
      leave(listener)
      if (accepting === listener) accepting = undefined
    }
    const listener = listen({ address, sharesPort, onEnd })
    all.add(listener)
    sharing.push(listener)
    accepting = listener
    return listener
  }
  const { address } = begin(first, false)
  if (mayPause) Descriptors.reserve()

  const end = (listener: RetirableListener): void => {
    const ended = () => all.delete(listener)
    listener.close(false).then(ended, ended)
  }

  const pause = Effect.suspend(() => {
    isPaused = true
    for (const listener of sharing) end(listener)
    sharing = []
    accepting = undefined
    // Not earlier: connections that wait to be accepted would take them.
    Descriptors.release()
    return Effect.logError(`${exhausted}: no delivery is accepted until some are given back`)
  })
  const resume = Effect.suspend(() => {
    try {
      begin(address, false)
    } catch {
      // The next check tries again.
      return Effect.void
    }
    if (!isPaused) return Effect.void
    isPaused = false
    Descriptors.reserve()
    return Effect.logInfo("there are file descriptors again: deliveries are accepted")
  })
  const check = Effect.suspend(() => {
    if (isClosed) return Effect.void
    if (mayPause && Descriptors.check(areAllKnown && all.size === 0)) return isPaused ? Effect.void : pause
    return accepting === undefined ? resume : Effect.void
  })
  yield* Effect.forkScoped(Effect.forever(Effect.delay(check, checkEvery)))

  /** Closes the socket of one that was replaced. */
  const endRetired = Effect.fnUntraced(function* (libc: Libc, listener: RetirableListener) {
    if (!sharing.includes(listener)) return
    const sockets = () => SharedPort.listening(libc, address.port).length
    const before = sockets()
    end(listener)
    for (let tries = 0; sockets() >= before && tries < closing.times; tries++) yield* Effect.sleep(closing.every)
    leave(listener)
    // Until here the filter named none, and any of them accepted.
    if (accepting !== undefined) SharedPort.prefer(libc, newest, sharing.indexOf(accepting))
  })

  const replace = Effect.fnUntraced(function* (libc: Libc) {
    const old = accepting
    // While it is closed there is none to replace: the next one that opens is of the new kind.
    if (old === undefined) return
    const sockets = SharedPort.listening(libc, address.port)
    SharedPort.share(libc, sockets)
    try {
      const next = begin(address, true)
      newest = SharedPort.listening(libc, address.port).find((socket) => !sockets.includes(socket)) ?? -1
      SharedPort.prefer(libc, newest, sharing.indexOf(next))
    } catch (error) {
      if (accepting !== undefined && accepting !== old) {
        end(accepting)
        leave(accepting)
      }
      accepting = old
      throw error
    }
    old.generation.retire()
    const ending = Effect.sleep(retireAfter).pipe(
      Effect.andThen(Effect.repeat(Effect.sleep(checkEvery), { until: old.generation.isIdle, times: 600 })),
      Effect.andThen(oneAtATime.withPermit(endRetired(libc, old))),
    )
    yield* Effect.forkIn(ending, scope)
  })

  return {
    address,
    replace: (libc) => oneAtATime.withPermit(replace(libc)),
    close: async (force) => {
      isClosed = true
      if (mayPause) Descriptors.release()
      await Promise.all([...all].map((listener) => listener.close(force)))
    },
  }
})
