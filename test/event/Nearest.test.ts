import { describe, expect, test } from "bun:test"
import { eventTypes } from "../../src/event/EventType.ts"
import { nearest } from "../../src/event/Nearest.ts"

describe("the nearest", () => {
  test("is the intended word", () => {
    expect(nearest("client.craeted", eventTypes)).toBe("client.created")
    expect(nearest("Appointment.Created", eventTypes)).toBe("appointment.created")
    expect(nearest("appointment.meeting.creation_failed", eventTypes)).toBe("appointment.meeting.create_failed")
  })

  test("is nothing when nothing is near", () => {
    expect(nearest("qwertyuiop", eventTypes)).toBeUndefined()
    expect(nearest("x", [])).toBeUndefined()
    expect(nearest("s3", ["sns"])).toBeUndefined()
    expect(nearest("typ", ["type"])).toBe("type")
  })
})
