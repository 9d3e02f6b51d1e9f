/**
 * Finds sinks with pending events in a stream that this relay owns, but without a
 * running lane there. The lane could not be opened, or is not open yet.
 */
import { Clock, Duration, Effect, SubscriptionRef } from "effect"
import * as Monotonic from "../event/Monotonic.ts"
import { rounds } from "../event/Rounds.ts"
import type { Log, Streams } from "../journal/Journal.ts"
import { Stall } from "./lane/Stall.ts"

const lookEvery = Duration.seconds(1)

export class UnservedLanes {
  readonly #stalls = new WeakMap<Log, Map<string, Stall>>()
  /** By sink: a message that says since when it delivers nothing from such a stream. */
  messages: ReadonlyMap<string, string> = new Map()

  /** Checks forever. `isServed` reports whether the sink's lane runs or the config has no such sink. */
  looking(owned: Streams, isServed: (log: Log, sink: string) => boolean): Effect.Effect<never> {
    const look = Effect.suspend(() => this.#look(SubscriptionRef.getUnsafe(owned), isServed))
    return rounds("looking for lanes that don't run", look, lookEvery)
  }

  readonly #look = Effect.fnUntraced(function* (
    this: UnservedLanes,
    owned: ReadonlyArray<Log>,
    isServed: (log: Log, sink: string) => boolean,
  ) {
    const clock = yield* Clock.Clock
    const now = Monotonic.millis(clock)
    const wall = clock.currentTimeMillisUnsafe()
    const found = new Map<string, string>()
    for (const log of owned) {
      const before = this.#stalls.get(log)
      const stalls = new Map<string, Stall>()
      for (const { name, backlog } of yield* log.holding) {
        const stall = before?.get(name) ?? new Stall()
        stalls.set(name, stall)
        const hasWork = backlog > 0 && !isServed(log, name)
        const cause = () => "its lane for a stream that this relay owns could not be opened; see the log"
        const message = stall.look({ now, wall, activity: 0, hasWork, cause })
        if (message !== "") found.set(name, message)
      }
      this.#stalls.set(log, stalls)
    }
    this.messages = found
  })
}
