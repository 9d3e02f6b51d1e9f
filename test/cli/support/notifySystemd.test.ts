import { describe, expect } from "bun:test"
import { Duration, Effect, Layer, Ref } from "effect"
import { TestClock } from "effect/testing"
import { notifySystemd } from "../../../src/cli/support/lifecycle.ts"
import { Lanes } from "../../../src/delivery/Lanes.ts"
import { unavailable } from "../../../src/journal/Journal.ts"
import type { WholeJournal } from "../../../src/journal/JournalType.ts"
import { Notify } from "../../../src/runtime/Notify.ts"
import { lane } from "../../admin/fixture.ts"
import * as MemoryJournal from "../../journal/MemoryJournal.ts"
import { it } from "../../lib/effect.ts"

const failed = unavailable("not now")

/** Returns the notifications to a systemd with a watchdog of ten seconds. `commits` replaces the journal's `settle`. */
const start = Effect.fnUntraced(function* (commits: WholeJournal["settle"] | undefined) {
  const said = yield* Ref.make<ReadonlyArray<string>>([])
  const notify = Notify.of({
    reloading: Effect.void,
    say: (...lines) => Ref.update(said, (before) => [...before, lines.join("\n")]),
    isHeard: true,
    watchdog: Duration.seconds(10),
  })
  const journal = MemoryJournal.layerWith((memory) => ({ settle: commits ?? memory.settle }))
  const none = () => Effect.die("not asked for")
  const statuses = [lane("lake"), lane("chat", { condition: "waiting" }), lane("_quarantine")]
  const lanes = Layer.succeed(
    Lanes,
    Lanes.of({
      status: Effect.succeed(statuses),
      busy: () => [],
      counted: () => [],
      alerts: Effect.succeed([]),
      ask: none,
      pause: none,
      mute: none,
      resume: none,
      move: none,
      drop: none,
      whileStopped: none,
      change: none,
    }),
  )
  yield* notifySystemd.pipe(
    Effect.provide(Layer.merge(journal, lanes)),
    Effect.provideService(Notify, notify),
    Effect.forkScoped,
  )
  yield* TestClock.adjust("1 minute")
  return yield* Ref.get(said)
})

const beats = (said: ReadonlyArray<string>) => said.filter((text) => text.startsWith("WATCHDOG=1")).length

describe("a service manager", () => {
  it.effect("hears that the relay is ready, then twice in each of its watchdog's times that it lives", function* () {
    const said = yield* start(undefined)
    expect(said.slice(0, 2)).toEqual([
      "READY=1\nSTATUS=journal ok; 2 sinks; waiting: chat",
      "WATCHDOG=1\nSTATUS=journal ok; 2 sinks; waiting: chat",
    ])
    expect(beats(said)).toBe(13)
  })

  it.effect("hears no beat of a relay whose commits fail or hang", function* () {
    for (const commits of [() => failed, () => Effect.never]) {
      const said = yield* start(commits)
      expect(beats(said)).toBe(0)
      expect(said.at(-1)).toBe("STATUS=the journal does not commit")
    }
  })
})
