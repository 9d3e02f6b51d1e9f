/**
 * A listener that closes while file descriptors are exhausted, if it is one that
 * may, and opens again when there are some. It also opens again after its
 * runtime has ended it, as Deno does with one that can't accept.
 *
 * Meanwhile the system refuses connections at once, and clients retry.
 */
import { Duration, Effect, type Scope } from "effect"
import type { Address } from "../config/Address.ts"
import * as Descriptors from "./Descriptors.ts"
import type { Listener } from "./Platform.ts"

export interface PausableListener {
  readonly address: Address
  /** Does not open again; resolves when the last connection has ended. */
  readonly close: (force: boolean) => Promise<void>
}

/** Connections come by the thousand a second. */
const checkEvery = Duration.millis(50)

const exhausted = "file descriptors are used up (`ulimit -n`, LimitNOFILE)"

/** `listen` throws when the address is not available, and calls `onEnd` when the runtime has ended the listener. */
export const open = Effect.fnUntraced(function* (
  listen: (address: Address, onEnd: () => void) => Listener,
  first: Address,
  mayPause: boolean,
): Effect.fn.Return<PausableListener, never, Scope.Scope> {
  /** Listeners that still have connections, as far as is known; the newest accepts. */
  const all = new Set<Listener>()
  let areAllKnown = true
  let accepting: Listener | undefined
  let isPaused = false
  let isClosed = false

  const begin = (address: Address): Listener => {
    const listener = listen(address, () => {
      // Its connections stay open.
      areAllKnown = false
      Descriptors.exhaust()
      all.delete(listener)
      if (accepting === listener) accepting = undefined
    })
    all.add(listener)
    accepting = listener
    return listener
  }
  const { address } = begin(first)
  if (mayPause) Descriptors.reserve()

  const pause = Effect.suspend(() => {
    const closing = accepting
    isPaused = true
    accepting = undefined
    closing?.close(false).then(
      () => all.delete(closing),
      () => all.delete(closing),
    )
    // Not earlier: connections that wait to be accepted would take them.
    Descriptors.release()
    return Effect.logError(`${exhausted}: no delivery is accepted until some are given back`)
  })
  const resume = Effect.suspend(() => {
    try {
      begin(address)
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

  return {
    address,
    close: async (force) => {
      isClosed = true
      if (mayPause) Descriptors.release()
      await Promise.all([...all].map((listener) => listener.close(force)))
    },
  }
})
