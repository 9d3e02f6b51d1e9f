/**
 * A listener that closes while descriptors are used up, if it is one that gives
 * way, and opens again; also after its runtime gave it up by itself, as Deno
 * does with one that can't accept.
 *
 * Who connects meanwhile is refused by the system at once, and tries again.
 */
import { Duration, Effect, type Scope } from "effect"
import type { Address } from "../config/Address.ts"
import * as Descriptors from "./Descriptors.ts"
import type { Listener } from "./Platform.ts"

export interface Door {
  readonly address: Address
  /** For good: resolves when the last connection has ended. */
  readonly close: (force: boolean) => Promise<void>
}

/** How often it is looked: connections come by the thousand a second. */
const lookEvery = Duration.millis(50)

const lost = "file descriptors are used up (`ulimit -n`, LimitNOFILE)"

/** `listen` throws when the address can't be had; it is told to a listener by `onEnd` that it has ended by itself. */
export const open = Effect.fnUntraced(function* (
  listen: (address: Address, onEnd: () => void) => Listener,
  first: Address,
  givesWay: boolean,
): Effect.fn.Return<Door, never, Scope.Scope> {
  /** Those that have connections still, as far as is known; the newest accepts. */
  const all = new Set<Listener>()
  let areAllKnown = true
  let accepting: Listener | undefined
  let hasGivenWay = false
  let isOver = false

  const begin = (address: Address): Listener => {
    const listener = listen(address, () => {
      // Its connections live on.
      areAllKnown = false
      Descriptors.ranOut()
      all.delete(listener)
      if (accepting === listener) accepting = undefined
    })
    all.add(listener)
    accepting = listener
    return listener
  }
  const { address } = begin(first)
  if (givesWay) Descriptors.reserve()

  const giveWay = Effect.suspend(() => {
    const closing = accepting
    hasGivenWay = true
    accepting = undefined
    closing?.close(false).then(
      () => all.delete(closing),
      () => all.delete(closing),
    )
    // Only now: the connections that wait to be accepted would take them.
    Descriptors.giveBack()
    return Effect.logError(`${lost}: no delivery is accepted until some are given back`)
  })
  const again = Effect.suspend(() => {
    try {
      begin(address)
    } catch {
      // Another look will tell.
      return Effect.void
    }
    if (!hasGivenWay) return Effect.void
    hasGivenWay = false
    Descriptors.reserve()
    return Effect.logInfo("there are file descriptors again: deliveries are accepted")
  })
  const look = Effect.suspend(() => {
    if (isOver) return Effect.void
    if (givesWay && Descriptors.look(areAllKnown && all.size === 0)) return hasGivenWay ? Effect.void : giveWay
    return accepting === undefined ? again : Effect.void
  })
  yield* Effect.forkScoped(Effect.forever(Effect.delay(look, lookEvery)))

  return {
    address,
    close: async (force) => {
      isOver = true
      if (givesWay) Descriptors.giveBack()
      await Promise.all([...all].map((listener) => listener.close(force)))
    },
  }
})
