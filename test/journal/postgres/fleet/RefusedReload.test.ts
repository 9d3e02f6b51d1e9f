import { expect } from "bun:test"
import { Deferred, Duration, Effect, Fiber, Layer } from "effect"
import * as Introduction from "../../../../src/admin/Introduction.ts"
import { RelayInfo } from "../../../../src/admin/RelayInfo.ts"
import type { LaneSpec } from "../../../../src/delivery/LaneSpec.ts"
import { Lanes } from "../../../../src/delivery/Lanes.ts"
import { RelayEvents } from "../../../../src/delivery/RelayEvents.ts"
import { servicesOf } from "../../../../src/journal/JournalType.ts"
import { SinkError, SinkMisconfigured } from "../../../../src/sinks/Sink.ts"
import { away, scripted, spec } from "../../../delivery/fixture.ts"
import { activeConfig } from "../../../lib/activeConfig.ts"
import { it } from "../../../lib/effect.ts"
import { suiteUnless } from "../../../lib/lacking.ts"
import { reasonToSkip } from "../../../parts/Postgres.ts"
import { event } from "../../samples.ts"
import { type Relay, relays } from "../relays.ts"

/** A relay's lanes and its introduction, as `Relay.ts` composes them. */
const lanesOver = ({ journal }: Relay) =>
  Layer.build(
    Introduction.layer.pipe(
      Layer.provideMerge(RelayInfo.layer({ version: "1", configFile: "relay.config.json" })),
      Layer.provideMerge(Lanes.layer({ specs: [], grace: () => Duration.seconds(1) })),
      Layer.provide(RelayEvents.layer),
      Layer.provideMerge(activeConfig()),
      Layer.provideMerge(Layer.succeedContext(servicesOf(journal))),
    ),
  )

suiteUnless(reasonToSkip(), "a reload that one of two relays refuses", () => {
  it.live("loses nothing that the other relay has accepted", function* () {
    const { start } = yield* relays
    const [a, b] = [yield* start("a"), yield* start("b")]
    const [ofA, ofB] = [yield* lanesOver(a), yield* lanesOver(b)]
    const accepted = yield* Deferred.make<void>()
    const wrong = new SinkError({ reason: new SinkMisconfigured({ message: "the file can't be written" }) })
    const sink = spec("new", scripted(() => away).sink, { config: 1 })
    const atA: LaneSpec = { ...sink, open: Effect.andThen(Deferred.await(accepted), Effect.fail(wrong)) }
    const change = (context: typeof ofA, one: LaneSpec) =>
      Effect.provideContext(
        Effect.flatMap(Lanes, (lanes) => lanes.change([one], Effect.void)),
        context,
      )
    const refused = yield* Effect.forkChild(Effect.flip(change(ofA, atA)), { startImmediately: true })
    yield* change(ofB, sink)
    yield* b.journal.append(event("one"), ["new"])
    yield* Deferred.succeed(accepted, undefined)
    expect((yield* Fiber.join(refused)).message).toContain("the file can't be written")
    const { events } = yield* b.journal.events({ limit: 10, after: "" })
    expect(events.map(({ deliveries }) => deliveries.map(({ outcome }) => outcome))).toEqual([["pending"]])
  })
})
