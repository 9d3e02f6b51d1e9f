import { expect } from "bun:test"
import { Duration, Effect, Layer, Logger, Schedule } from "effect"
import { ActiveConfig } from "../../src/ActiveConfig.ts"
import type { Tls } from "../../src/config/Config.ts"
import { type Loaded, load } from "../../src/config/load/Load.ts"
import { type LaneSpec, LaneSpecs } from "../../src/delivery/LaneSpec.ts"
import { Lanes } from "../../src/delivery/Lanes.ts"
import { RelayEvents } from "../../src/delivery/RelayEvents.ts"
import { hmacSha256 } from "../../src/event/Signature.ts"
import { Journal, type JournalError } from "../../src/journal/Journal.ts"
import { Reload } from "../../src/reload/Reload.ts"
import { ListenerTls, ServeError } from "../../src/runtime/Runtime.ts"
import { SinkError, SinkMisconfigured } from "../../src/sinks/Sink.ts"
import { sinkTypes } from "../../src/sinks/SinkTypes.ts"
import { config, options } from "../config/fixture.ts"
import { event } from "../journal/samples.ts"
import { createSqlite } from "../journal/temporary.ts"
import { it } from "../lib/effect.ts"

const tls = (name: string): Tls => ({ certificate: `${name}.crt`, key: `${name}.key` }) as unknown as Tls

const away = { type: "http", url: "http://127.0.0.1:9/" }

const loading = (name: string, certificate: string, sink: object) =>
  load("relay.config.json", {
    ...options({
      "relay.config.json": config({
        sinks: { [name]: sink },
        routes: [{ name: "all", match: "**", to: name }],
      }),
    }),
    sinkTypes,
  }).pipe(Effect.map((loaded): Loaded => ({ ...loaded, config: { ...loaded.config, tls: tls(certificate) } })))

/** A relay with three events for its sink `old`, which is unavailable. `next` is the config that a reload finds. */
const relayWith = <A, E>(
  next: ReturnType<typeof loading>,
  test: (parts: {
    readonly reload: Reload["Service"]["reload"]
    readonly listener: ListenerTls["Service"]
    readonly lanes: Effect.Effect<ReadonlyArray<readonly [string, string, number]>, JournalError>
  }) => Effect.Effect<A, E>,
  specOf: (spec: LaneSpec) => LaneSpec = (spec) => spec,
) =>
  Effect.gen(function* () {
    const first = yield* loading("old", "before", away)
    const lanes = Layer.unwrap(
      Effect.map(LaneSpecs, (specs) =>
        Lanes.layer({ specs: first.config.sinks.map(specs.of), grace: () => Duration.seconds(1) }),
      ),
    )
    const specs = Layer.effect(
      LaneSpecs,
      Effect.map(LaneSpecs, (specs) => LaneSpecs.of({ ...specs, of: (sink) => specOf(specs.of(sink)) })),
    ).pipe(Layer.provide(LaneSpecs.layer(undefined, 1e9)))
    const parts = Reload.layer(next, { file: "relay.config.json", certificateFaults: [] }).pipe(
      Layer.provideMerge(lanes),
      Layer.provide(RelayEvents.layer),
      Layer.provideMerge(createSqlite()()),
      Layer.provideMerge(specs),
      Layer.provideMerge(ListenerTls.layer(first.config.tls)),
      Layer.provideMerge(ActiveConfig.layer(first.config, hmacSha256)),
      Layer.provideMerge(Logger.layer([])),
    )
    yield* Effect.gen(function* () {
      const journal = yield* Journal
      const { status } = yield* Lanes
      const all = Effect.map(status, (lanes) =>
        lanes.map(({ name, condition, backlog }) => [name, condition, backlog] as const),
      )
      for (const id of ["one", "two", "three"]) {
        yield* journal.append(event(id, { receivedAt: Date.now() }), ["old"])
      }
      yield* Effect.repeat(all, {
        until: (lanes) => lanes.some(([name, condition]) => name === "old" && condition === "waiting"),
        schedule: Schedule.spaced("10 millis"),
      })
      yield* test({ reload: (yield* Reload).reload, listener: yield* ListenerTls, lanes: all })
    }).pipe(Effect.provide(parts))
  })

it.live("a reload with a certificate that the listener refuses leaves pending events at their sink", () =>
  relayWith(loading("new", "after", { ...away, renamedFrom: "old" }), ({ reload, listener, lanes }) =>
    Effect.gen(function* () {
      yield* listener.listening(() => Effect.fail(new ServeError({ message: "it takes no other certificate" })))
      expect((yield* Effect.flip(reload)).message).toContain("it takes no other certificate")
      expect(yield* lanes).toContainEqual(["old", "waiting", 3])
      expect((yield* lanes).map(([name]) => name)).not.toContain("new")
    }),
  ),
)

it.live("a reload that would use another file, because the config is gone, is refused", () =>
  relayWith(
    Effect.map(loading("new", "before", away), (loaded) => ({ ...loaded, file: "the embedded defaults" })),
    ({ reload, lanes }) =>
      Effect.gen(function* () {
        expect((yield* Effect.flip(reload)).message).toBe(
          "relay.config.json is gone, and the embedded defaults would take its place: put it back, or restart the relay",
        )
        expect(yield* lanes).toContainEqual(["old", "waiting", 3])
      }),
  ),
)

const unusable = new SinkError({ reason: new SinkMisconfigured({ message: "no such CA file" }) })

it.live("a reload whose sink can't work takes the listener's certificate back", () =>
  relayWith(
    loading("wrong", "after", { ...away, url: "http://127.0.0.1:7/" }),
    ({ reload, listener }) =>
      Effect.gen(function* () {
        const taken: Array<Tls> = []
        yield* listener.listening((tls) => Effect.sync(() => void taken.push(tls)))
        expect((yield* Effect.flip(reload)).message).toContain("no such CA file")
        expect(taken).toEqual([tls("after"), tls("before")])
      }),
    (spec) => (spec.config.name === "wrong" ? { ...spec, open: Effect.fail(unusable) } : spec),
  ),
)
