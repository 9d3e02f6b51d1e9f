import { expect } from "bun:test"
import { Clock } from "effect"
import { CircuitBreaker } from "../../../src/delivery/lane/CircuitBreaker.ts"
import { LaneClock } from "../../../src/delivery/lane/LaneClock.ts"
import { LaneState } from "../../../src/delivery/lane/LaneState.ts"
import { it } from "../../lib/effect.ts"
import { pass, scripted, spec } from "../fixture.ts"

it.effect("a lane that takes over that it is blocked ages nothing until it is resumed", function* () {
  const { config } = spec("lake", scripted(() => "pass").sink)
  const clock = new LaneClock(yield* Clock.Clock, 0)
  const state = new LaneState("lake", { paused: false }, new CircuitBreaker(config, () => 0), clock)
  state.inherit("nearly all was rejected")
  const before = clock.laneTime()
  yield* pass("1 hour")
  expect([state.condition, state.message]).toEqual(["blocked", "nearly all was rejected"])
  state.resume(undefined)
  expect([state.condition, clock.laneTime()]).toEqual(["running", before])
})
