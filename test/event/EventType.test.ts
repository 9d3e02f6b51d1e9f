import { describe, expect, test } from "bun:test"
import { eventTypes, isKnown, isRelayEvent, relayEventTypes, resource } from "../../src/event/EventType.ts"

/** The catalogue of the webhook interface, section 6, written by resource rather than copied. */
const catalogue: Readonly<Record<string, string>> = {
  account_user: "created deleted updated",
  appointment: "created rescheduled canceled confirmed deleted",
  "appointment.meeting": "canceled cancel_failed created create_failed replaced replace_failed updated update_failed",
  booking_intent: "abandoned completed created updated",
  block: "created updated deleted",
  client: "created deleted updated",
  connected_account: "created deleted refresh_failed reconnected",
  provider: "created deactivated reactivated updated",
  provider_schedule: "created deleted updated",
  service: "created deleted updated",
  service_provider: "created deleted",
}

describe("the catalogue", () => {
  test("holds exactly the interface's 42 event types", () => {
    const expected = Object.entries(catalogue).flatMap(([of, verbs]) => verbs.split(" ").map((verb) => `${of}.${verb}`))
    expect(expected).toHaveLength(42)
    expect<ReadonlyArray<string>>([...eventTypes].sort()).toEqual(expected.sort())
  })

  test("knows its own types and no others", () => {
    for (const type of eventTypes) expect(isKnown(type)).toBe(true)
    for (const type of [
      "",
      "appointment",
      "appointment.created ",
      "Appointment.created",
      "toString",
      "relay.dead_letter",
    ]) {
      expect(isKnown(type)).toBe(false)
    }
  })
})

test("a resource is the first segment of a type", () => {
  expect(resource("appointment.meeting.created")).toBe("appointment")
  expect(resource("client.updated")).toBe("client")
  expect(resource("heartbeat")).toBe("heartbeat")
})

test("the relay's own events are recognized by the first segment of their type", () => {
  for (const type of relayEventTypes) expect(isRelayEvent(type)).toBe(true)
  for (const type of eventTypes) expect(isRelayEvent(type)).toBe(false)
  expect(isRelayEvent("relayed.created")).toBe(false)
})
