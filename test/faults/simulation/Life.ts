/**
 * One life of the relay: the real journal, lanes and router, a watching oracle, senders, and an operator.
 *
 * **To join in.** A new part of the relay joins as a layer in `relay` below. Its draws are in `Plan.ts`, its promise is
 * a rule in `Oracle.ts`, and the guard of the promise is a line in `Mutants.ts`.
 */
import { Context, Duration, Effect, type Fiber, Latch, Layer } from "effect"
import { ActiveConfig } from "../../../src/ActiveConfig.ts"
import type { LaneSpec } from "../../../src/delivery/LaneSpec.ts"
import type { LaneStatus } from "../../../src/delivery/LaneStatus.ts"
import { Lanes } from "../../../src/delivery/Lanes.ts"
import { RelayEvents } from "../../../src/delivery/RelayEvents.ts"
import type { SinkUnusable } from "../../../src/delivery/SinkChanges.ts"
import { Unrenderable } from "../../../src/formats/Rendering.ts"
import { orderKey } from "../../../src/formats/Template.ts"
import type { Archive } from "../../../src/journal/Archive.ts"
import { Journal, type JournalBroken, type JournalError } from "../../../src/journal/Journal.ts"
import { servicesOf, type WholeJournal } from "../../../src/journal/JournalType.ts"
import type * as Router from "../../../src/routing/Router.ts"
import { whole } from "../../journal/whole.ts"
import { makeActive, relayConfig } from "../../lib/activeConfig.ts"
import type { Oracle } from "./Oracle.ts"
import type { Caller, SimulatedSink } from "./Sinks.ts"
import type { World } from "./World.ts"

export type Planted = (journal: WholeJournal) => WholeJournal

/** A sink of the config, with its settings that can change. */
export interface Placed {
  readonly sink: SimulatedSink
  readonly renamedFrom: string | undefined
  /** Added to the lane's `pauseAfter`: a config that differs and promises the same. */
  readonly tuned: number
}

/** The relay's inside, for the work beside it. */
export interface Inside {
  readonly router: () => Router.Router
  /** Puts another config in force, as `relay reload` does. */
  readonly reload: (
    sinks: ReadonlyArray<Placed>,
    routes: ReadonlyArray<Router.Route>,
  ) => Effect.Effect<ReadonlyArray<string>, JournalError | SinkUnusable, Lanes>
}

export interface LifeOptions {
  readonly world: World
  readonly oracle: Oracle
  readonly journal: Layer.Layer<Journal | Archive, JournalError>
  /** A bug planted between the journal and its users, which the oracle must notice. */
  readonly planted: Planted | undefined
  readonly sinks: ReadonlyArray<Placed>
  readonly routes: ReadonlyArray<Router.Route>
  /** Whether the relay must still recognise a duplicate that was acknowledged at `at`, in `life`. */
  readonly remembers: (first: { readonly at: number; readonly life: number }) => boolean
  /** The work beside it: the senders, the operator. */
  readonly busy: (inside: Inside) => Effect.Effect<void, never, Journal | Archive | Lanes>
}

export interface Life {
  readonly fiber: Fiber.Fiber<void, JournalError | JournalBroken>
  /** Asks it to end as SIGTERM does. */
  readonly stop: () => void
}

export const start = (options: LifeOptions): Life => {
  const { world, sinks, routes } = options
  const active = makeActive({ routes })
  const stopping = Latch.makeUnsafe(false)
  let isRunning = false
  const spec = specOf({ now: () => world.now, isDead: () => world.dead, isRunning: () => isRunning })
  const inside: Inside = {
    router: () => active.current.table.router,
    reload: Effect.fnUntraced(function* (sinks, routes) {
      return yield* (yield* Lanes).change(sinks.map(spec), active.replace(relayConfig({ routes })))
    }),
  }
  const relay = Lanes.layer({
    specs: sinks.map(spec),
    grace: () => Duration.seconds(2),
  }).pipe(
    Layer.provide(Layer.provide(RelayEvents.layer, Layer.succeed(ActiveConfig, active))),
    Layer.provideMerge(watched(options)),
  )
  const life = Effect.gen(function* () {
    const context = yield* Layer.build(relay)
    isRunning = true
    const work = Effect.provideContext(options.busy(inside), context)
    const { broken } = Context.get(context, Journal)
    yield* Effect.raceFirst(stopping.await, Effect.raceFirst(broken, Effect.andThen(work, Effect.never)))
  }).pipe(
    Effect.ensuring(
      Effect.sync(() => {
        isRunning = false
      }),
    ),
  )
  return {
    fiber: Effect.runForkWith(world.services)(Effect.scoped(life)),
    stop: () => {
      stopping.openUnsafe()
    },
  }
}

const specOf =
  (caller: Caller) =>
  ({ sink, renamedFrom, tuned }: Placed): LaneSpec => {
    const keyOf = orderKey(sink.plan.config)
    return {
      config: {
        ...sink.plan.config,
        name: sink.name,
        delivery: { ...sink.plan.config.delivery, pauseAfter: sink.plan.config.delivery.pauseAfter + tuned },
        ...(renamedFrom === undefined ? {} : { renamedFrom }),
      },
      open: Effect.sync(() => sink.open(caller)),
      key: (entry) => {
        if (sink.unbearable(entry.event, "unrenderable")) throw new Unrenderable("simulated: can't be rendered")
        return keyOf(entry)
      },
    }
  }

/** The journal, and the oracle at its side. A dead life's journal answers nobody. */
const watched = ({
  journal,
  oracle,
  world,
  remembers,
  planted = (real) => real,
}: LifeOptions): Layer.Layer<Journal | Archive, JournalError> =>
  Layer.effectContext(
    Effect.map(whole, (given) => {
      const real = planted(given)
      const alive = <A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> =>
        Effect.suspend(() =>
          world.dead ? Effect.never : Effect.onExit(effect, () => (world.dead ? Effect.never : Effect.void)),
        )
      return servicesOf({
        ...real,
        // A journal that outlives its relay would wake the dead with the events of the living.
        awaitBeyond: (after, lane) => alive(real.awaitBeyond(after, lane)),
        append: (event, sinks) =>
          Effect.suspend(() => {
            const { known, sending } = oracle.sending(event, sinks)
            return alive(real.append(event, sinks)).pipe(
              Effect.tap((as) => Effect.sync(() => oracle.acknowledged(known, sending, as, remembers))),
              Effect.tapError(({ reason }) =>
                Effect.sync(() => oracle.refused(known, sending, reason._tag === "JournalBroken", reason.message)),
              ),
            )
          }),
        settle: (settlements) =>
          Effect.suspend(() => {
            const settled = oracle.settling(settlements)
            return Effect.onExit(alive(real.settle(settlements)), (exit) =>
              Effect.sync(() =>
                settled((lane) => exit._tag === "Success" && !exit.value.some((refused) => refused.lane === lane)),
              ),
            )
          }),
      })
    }),
  ).pipe(Layer.provide(journal))

/** Tells the oracle what each lane promises of its repeats. */
export const learnBounds = (oracle: Oracle, statuses: ReadonlyArray<LaneStatus>): void => {
  for (const { name, duplicateBound } of statuses) {
    const rules = oracle.rules.get(name)
    // A lane that does not run at this moment promises nothing.
    if (rules !== undefined && duplicateBound > 0)
      oracle.rules.set(name, { ...rules, bound: Math.max(rules.bound ?? 0, duplicateBound) })
  }
}

/** A journal that outlives its relay, for seeds whose journal is memory. */
export const kept = (journal: Layer.Layer<Journal | Archive>): Layer.Layer<Journal | Archive> =>
  Layer.succeedContext(Effect.runSync(Effect.scoped(Layer.build(journal))))
