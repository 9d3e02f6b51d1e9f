import { describe, expect, test } from "bun:test"
import { eventTypes, failureEndedBy } from "../../src/event/EventType.ts"

describe("a recovery", () => {
  test("ends one failure, and every failure of the catalogue has a recovery", () => {
    const ended = eventTypes.flatMap((type) => failureEndedBy(type) ?? [])
    const failures = eventTypes.filter((type) => type.endsWith("_failed"))
    expect([...ended].sort()).toEqual([...failures].sort())
  })

  test("is nothing else: no failure, no other type, and no property that all objects have", () => {
    for (const type of [...eventTypes.filter((_) => _.endsWith("_failed")), "client.created", "toString", ""]) {
      expect(failureEndedBy(type)).toBeUndefined()
    }
  })
})
