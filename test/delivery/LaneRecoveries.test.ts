/** The own event of a paused lane, and the own event of its recovery. */
import { describe, expect } from "bun:test"
import { Context, Duration, Effect, Exit, Layer, Scope } from "effect"
import type { LaneSpec } from "../../src/delivery/LaneSpec.ts"
import { Lanes } from "../../src/delivery/Lanes.ts"
import { RelayEvents } from "../../src/delivery/RelayEvents.ts"
import { laneRecoveries } from "../../src/delivery/Warnings.ts"
import type { FleetStatus } from "../../src/journal/FleetStatus.ts"
import { servicesOf } from "../../src/journal/JournalType.ts"
import { inMemory } from "../journal/inMemory.ts"
import { whole } from "../journal/whole.ts"
import { activeConfig } from "../lib/activeConfig.ts"
import { append, away, pass, scripted, spec } from "./fixture.ts"

const route = { name: "own", match: ["relay.lane_paused"], except: [], where: {}, to: ["chat"] }
/** Recoveries have no route, because they follow their failure. */
const config = activeConfig({
  routes: [route],
  sinks: [{ ...spec("chat", scripted(() => "pass").sink).config, alert: { sends: "each", resolves: true } }],
})

/** A journal, and relays that start and stop on it. `own` returns the journal's own events. */
const journal = Effect.gen(function* () {
  const memory = yield* whole
  let fleet: FleetStatus | undefined
  const services = () =>
    servicesOf({
      ...memory,
      ...(fleet && { fleet: { status: Effect.sync(() => fleet as FleetStatus), introduce: () => Effect.void } }),
    })
  const start = Effect.fnUntraced(function* (specs: ReadonlyArray<LaneSpec>) {
    const scope = yield* Scope.make()
    const context = yield* Layer.build(
      laneRecoveries.pipe(
        Layer.provideMerge(Lanes.layer({ specs, grace: () => Duration.zero })),
        Layer.provideMerge(RelayEvents.layer),
        Layer.provide(Layer.merge(config, Layer.succeedContext(services()))),
        Layer.fresh,
      ),
    ).pipe(Scope.provide(scope))
    return { stop: Scope.close(scope, Exit.void), lanes: Context.get(context, Lanes) }
  })
  const own = Effect.map(memory.read(0, 100), (entries) =>
    entries.flatMap(({ event, sinks }) => {
      if (event.webhook !== "relay") return []
      const { data } = JSON.parse(Buffer.from(event.body).toString())
      return [[event.type, sinks, data.object.message]]
    }),
  )
  const besides = (status: FleetStatus) => {
    fleet = status
  }
  return { start, own, besides }
})

const paused = ["relay.lane_paused", ["chat"], "refused"]
const resumed = (message: string) => ["relay.lane_resumed", ["chat"], message]

/** A sink that can be away. */
const lake = () => {
  const sink = { isAway: true }
  return { sink, spec: spec("lake", scripted(() => (sink.isAway ? away : "pass")).sink) }
}
const other = (condition: "waiting" | "running"): FleetStatus => ({
  members: [
    {
      name: "relay-2",
      isSelf: false,
      version: "",
      configHash: "",
      address: "",
      age: 0,
      lanes: [{ name: "lake", type: "scripted", condition, message: "", oldestAt: 0 }],
    },
  ],
  streams: [],
  counters: { takeovers: 0, fenced: 0 },
  owned: 1,
  ownedBytes: 0,
  beatAge: 0,
})
describe("a lane that was paused", () => {
  inMemory("is announced once as resumed when its sink delivers again, to those that resolve the pause", function* () {
    const { start, own } = yield* journal
    const { sink, spec } = lake()
    yield* start([spec])
    yield* append(5, ["lake"])
    yield* pass("2 minutes")
    expect(yield* own).toEqual([paused])
    sink.isAway = false
    yield* pass("2 minutes")
    expect(yield* own).toEqual([paused, resumed("it delivers again")])
  })

  inMemory(
    "is announced as resumed by a relay that was restarted meanwhile, and not before the sink delivers",
    function* () {
      const { start, own } = yield* journal
      const { sink, spec } = lake()
      const first = yield* start([spec])
      yield* append(2, ["lake"])
      yield* append(3, ["lake"])
      yield* pass("2 minutes")
      yield* first.stop
      const second = yield* start([spec])
      yield* pass("2 minutes")
      expect((yield* own).filter(([type]) => type === "relay.lane_resumed")).toEqual([])
      yield* second.stop
      sink.isAway = false
      const third = yield* start([spec])
      yield* pass("2 minutes")
      yield* third.stop
      yield* start([spec])
      yield* pass("2 minutes")
      expect((yield* own).filter(([type]) => type === "relay.lane_resumed")).toEqual([resumed("it delivers again")])
    },
  )

  inMemory("is over when its sink has left the config", function* () {
    const { start, own } = yield* journal
    const first = yield* start([lake().spec])
    yield* append(5, ["lake"])
    yield* pass("2 minutes")
    yield* first.stop
    yield* start([])
    yield* pass("10 seconds")
    expect(yield* own).toEqual([paused, resumed("it has left the config")])
  })

  inMemory("is not over while another relay of the fleet has the sink's lane paused", function* () {
    const { start, own, besides } = yield* journal
    besides(other("waiting"))
    const { sink, spec } = lake()
    yield* start([spec])
    yield* append(5, ["lake"])
    yield* pass("2 minutes")
    sink.isAway = false
    yield* pass("2 minutes")
    expect(yield* own).toEqual([paused])
    besides(other("running"))
    yield* pass("10 seconds")
    expect(yield* own).toEqual([paused, resumed("it delivers again")])
  })
})
