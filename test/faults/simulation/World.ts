/**
 * One life of a relay: an event loop of its own, and a clock.
 *
 * **Promise.** Everything in it runs in an order that follows from the seed alone. Fibers, sleeps, the journal's turns
 * and timers are all steps of this loop; nothing waits for real time. A crash stops the loop between two steps, or at
 * the moment that `die` is called. After that, nobody sees whatever the step still does.
 *
 * **Why not TestClock.** It runs on the real event loop, as the journal's own turns and timers would, and a crash must
 * be able to come between those.
 *
 * **Trap.** While something runs in it, the globals are the world's. It is synchronous, so no other code meets them; a
 * promise would never be resolved in it.
 */
import { Clock, Context, Duration, Effect, Logger, Random, References, Scheduler } from "effect"
import { eventLoop } from "../../../src/event/EventLoop.ts"
import type { Draw } from "./Draw.ts"

interface Timer {
  readonly at: number
  readonly run: () => void
}

/** Steps after which a life that does not end must be in an endless loop. */
const endless = 1_000_000

export class World {
  /** Monotonic milliseconds since the seed started: a life continues at the time that the previous life reached. */
  now: number
  /** By how much the wall clock is ahead of `now`. */
  wallOffset: number
  dead = false
  steps = 0
  /** The services that make fibers steps of this world: for `Effect.runForkWith`. */
  readonly services: Context.Context<never>
  readonly #ready: Array<() => void> = []
  #next = 0
  /** The latest first: the next one is at the end. */
  readonly #timers: Array<Timer> = []
  /** Timers that `setTimeout` has given out. */
  readonly #handles: Array<Timer> = []
  readonly #draw: Draw

  constructor(
    before: { readonly now: number; readonly wallOffset: number },
    draw: Draw,
    onError: (text: string) => void,
  ) {
    eventLoop.reset()
    this.now = before.now
    this.wallOffset = before.wallOffset
    this.#draw = draw
    const logger = Logger.make(({ message, cause }) => onError(`${message} ${cause}`))
    this.services = Context.make(Clock.Clock, this.#clock()).pipe(
      Context.add(Scheduler.Scheduler, new Scheduler.MixedScheduler("async", this.#immediate)),
      Context.add(Random.Random, {
        nextDoubleUnsafe: draw.next,
        nextIntUnsafe: () => draw.int(0, Number.MAX_SAFE_INTEGER - 1),
      }),
      Context.add(Logger.CurrentLoggers, new Set([logger])),
      Context.add(References.MinimumLogLevel, "Error"),
    )
  }

  get wall(): number {
    return this.now + this.wallOffset
  }

  /** Ends the life: nothing is seen from now on. */
  die(): void {
    this.dead = true
  }

  /** Steps until it is dead, `done`, or nothing is left to happen. Only `within` the world. */
  run(done: () => boolean): void {
    while (!this.dead && !done() && this.#step()) {
      if (this.steps > endless) throw new Error(`${endless} steps and no end: something runs in a circle`)
    }
  }

  /**
   * Code that touches a fiber from outside must run here, because many of its effects run immediately, without a step.
   */
  within<A>(work: () => A): A {
    const uninstall = this.#install()
    try {
      return work()
    } finally {
      uninstall()
    }
  }

  #step(): boolean {
    const ready = this.#ready[this.#next]
    this.steps += 1
    if (ready !== undefined) {
      this.#next += 1
      ready()
      return true
    }
    this.#ready.length = 0
    this.#next = 0
    const timer = this.#timers.pop()
    if (timer === undefined) return false
    this.now = Math.max(this.now, timer.at)
    timer.run()
    return true
  }

  readonly #immediate = (run: () => void): (() => void) => {
    const index = this.#ready.push(run) - 1
    return () => {
      if (this.#ready[index] === run) this.#ready[index] = () => {}
    }
  }

  #after(millis: number, run: () => void): Timer {
    const timer = { at: this.now + Math.max(0, millis), run }
    let low = 0
    let high = this.#timers.length
    while (low < high) {
      const middle = (low + high) >>> 1
      // Timers due at the same time keep the order in which they were set.
      if ((this.#timers[middle]?.at ?? 0) > timer.at) low = middle + 1
      else high = middle
    }
    this.#timers.splice(low, 0, timer)
    return timer
  }

  #cancel(timer: Timer): void {
    const index = this.#timers.indexOf(timer)
    if (index !== -1) this.#timers.splice(index, 1)
  }

  #clock(): Clock.Clock {
    const nanos = (millis: number) => BigInt(Math.round(millis * 1e6))
    return {
      currentTimeMillisUnsafe: () => Math.floor(this.wall),
      currentTimeMillis: Effect.sync(() => Math.floor(this.wall)),
      currentTimeNanosUnsafe: () => nanos(this.wall),
      currentTimeNanos: Effect.sync(() => nanos(this.wall)),
      monotonicTimeNanosUnsafe: () => nanos(this.now),
      monotonicTimeNanos: Effect.sync(() => nanos(this.now)),
      sleep: (duration) =>
        Effect.callback<void>((resume) => {
          const timer = this.#after(Duration.toMillis(duration), () => resume(Effect.void))
          return Effect.sync(() => this.#cancel(timer))
        }),
    }
  }

  #uuid(): ReturnType<typeof crypto.randomUUID> {
    const hex = (length: number): string => Array.from({ length }, () => this.#draw.int(0, 15).toString(16)).join("")
    return `${hex(8)}-${hex(4)}-${hex(4)}-${hex(4)}-${hex(12)}`
  }

  #install(): () => void {
    const { setImmediate, setTimeout, clearTimeout } = globalThis
    const now = performance.now
    const randomUUID = crypto.randomUUID
    Object.assign(globalThis, {
      setImmediate: this.#immediate,
      setTimeout: (run: () => void, millis = 0): number => {
        this.#handles.push(this.#after(millis, run))
        return this.#handles.length
      },
      clearTimeout: (id: number | undefined): void => {
        const timer = this.#handles[(id ?? 0) - 1]
        if (timer !== undefined) this.#cancel(timer)
      },
    })
    performance.now = () => this.now
    crypto.randomUUID = () => this.#uuid()
    return () => {
      Object.assign(globalThis, { setImmediate, setTimeout, clearTimeout })
      performance.now = now
      crypto.randomUUID = randomUUID
    }
  }
}
