/** An alert in the admin API: its messages, the events behind it, and the rest of both after an erasure. */
import { describe, expect } from "bun:test"
import { Schema } from "effect"
import { AlertDetails } from "../../src/admin/api/Api.ts"
import { event, settlement } from "../journal/samples.ts"
import { it } from "../lib/effect.ts"
import { json, start } from "./fixture.ts"

const type = "connected_account.refresh_failed"
const alert = {
  ...{ sink: "lake", id: 1, status: "firing" as const, type, account: "acct_1", count: 3 },
  ...{ first: 10, last: 30, newest: 3, messages: 2, sentAt: 40 },
  sent: [
    { sequence: 1, action: "trigger" as const, at: 10 },
    { sequence: 4, action: "reminder" as const, at: 40 },
  ],
}

describe("an alert in the admin API", () => {
  it.live("has what was sent to whom and when, and the events that it counts", function* () {
    const { ask, journal } = yield* start({ alerts: [alert] })
    yield* journal.openLane("lake")
    for (const [index, id] of ["evt_1", "evt_2", "evt_3", "evt_relay_4"].entries()) {
      yield* journal.append(event(id, { type, receivedAt: 10 * (index + 1) }), ["lake"])
    }
    const delivered = [
      { from: 1, to: 1, at: 12, took: 2 },
      { from: 4, to: 4, at: 44, took: 3 },
    ]
    const counted = [2, 3].map((sequence) => ({ sequence, at: 31, alert: 1 }))
    yield* journal.settle([settlement("lake", 4, { delivered, counted })])
    const shown = function* () {
      return Schema.decodeUnknownSync(AlertDetails)(yield* json(yield* ask("/api/v1/alerts/lake/1")))
    }
    expect(yield* shown()).toMatchObject({
      alert: { id: 1, sent: alert.sent },
      to: "file",
      messages: [
        { sequence: 1, action: "trigger", at: 10, outcome: "delivered", endedAt: 12 },
        { sequence: 4, action: "reminder", at: 40, outcome: "delivered", endedAt: 44 },
      ],
      events: [
        { sequence: 3, id: "evt_3", type, account: "acct_1", receivedAt: 30 },
        { sequence: 2, id: "evt_2" },
      ],
      hasMore: false,
    })
    yield* journal.erase([1, 2], false)
    const after = yield* shown()
    expect(after.messages.map(({ sequence }) => sequence)).toEqual([4])
    expect(after.events.map(({ id }) => id)).toEqual(["evt_3"])
    expect((yield* ask("/api/v1/alerts/lake/2")).status).toBe(404)
  })

  it.live("shows a message whose event is no longer kept by its time alone", function* () {
    const { ask } = yield* start({ alerts: [alert] })
    const { messages, events } = Schema.decodeUnknownSync(AlertDetails)(
      yield* json(yield* ask("/api/v1/alerts/lake/1")),
    )
    expect([messages, events]).toEqual([alert.sent, []])
  })
})
