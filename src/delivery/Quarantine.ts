/**
 * The quarantine: a lane whose sink rejects every event with what is wrong with
 * it, so that its dead letters are the quarantined events.
 */
import { Duration, Effect } from "effect"
import { quarantine } from "../event/Event.ts"
import { rejected, type Sink } from "../sinks/Sink.ts"
import type { LaneSpec } from "./RunningLanes.ts"

const rejecting: Sink = {
  // Nothing is urgent, and nearly every commit holds nothing for it.
  batch: { maxEvents: 256, maxBytes: 4 * 1024 * 1024, linger: 50 },
  send: (batch) =>
    Effect.succeed(new Map(batch.map(({ event }, index) => [index, rejected(event.problem ?? "quarantined")]))),
  check: Effect.void,
}

export const spec: LaneSpec = {
  config: {
    name: quarantine,
    type: "quarantine",
    delivery: {
      timeout: Duration.seconds(10),
      retry: { maxAge: Duration.hours(72), initial: Duration.seconds(1), max: Duration.minutes(10) },
      pauseAfter: 5,
      maxRetrying: 10_000,
      maxDeadLetters: 1024 * 1024 * 1024,
    },
    concurrency: 1,
    order: "none",
    key: "",
    config: undefined,
  },
  open: Effect.succeed(rejecting),
  key: () => "",
}
