/** The history of an event: what `explain` says about the time until its delivery. */
import { describe, expect, test } from "bun:test"
import { timelineOf } from "../../src/admin/api/EventReport.ts"
import type { DeliveryStatus, FoundEvent } from "../../src/journal/Archive.ts"
import type { AuditRecord } from "../../src/journal/AuditLog.ts"
import { entry } from "../sinks/samples.ts"

const receivedAt = 1_000_000
const found = (delivery: Partial<DeliveryStatus>): FoundEvent => {
  const { event } = entry(1)
  const deliveries = [{ sink: "crm", outcome: "delivered", attempts: [], ...delivery } as DeliveryStatus]
  return {
    sequence: 1,
    place: "seq_1",
    origin: "delivered",
    event: { ...event, receivedAt },
    body: event.body,
    deliveries,
  }
}
const failure = (at: number, took: number, number: number) => ({
  at,
  took,
  number,
  reason: "DeliveryFailed",
  message: "500",
})
const end = (delivery: Partial<DeliveryStatus>): string | undefined => timelineOf(found(delivery)).at(-1)?.what

describe("a delivery says how long after its acceptance it came", () => {
  test("and how the time was spent", () => {
    const attempts = [failure(receivedAt + 240_300, 300, 1), failure(receivedAt + 242_000, 500, 2)]
    expect(end({ attempts, at: receivedAt + 250_000, took: 200, tries: 3 })).toBe(
      "delivered by attempt 3, 4 min after its acceptance: 4 min before the first attempt, 1.0 s in 3 attempts, 9.0 s between them",
    )
    expect(end({ at: receivedAt + 5_000, took: 40, tries: 1 })).toBe(
      "delivered by attempt 1, 5.0 s after its acceptance: 5.0 s before the first attempt, 40 ms in 1 attempt",
    )
  })

  test("without details if not all of its attempts are kept", () => {
    const attempts = [failure(receivedAt + 60_000, 300, 7)]
    expect(end({ attempts, at: receivedAt + 61_000, took: 200, tries: 8 })).toBe(
      "delivered by attempt 8, 61 s after its acceptance",
    )
  })

  test("unless it took less than a second", () => {
    expect(end({ at: receivedAt + 999, took: 40, tries: 1 })).toBe("delivered by attempt 1")
  })
})

test("the pauses of a sink are part of the time between an event's acceptance and its delivery", () => {
  const operation = (at: number, what: string, more: Partial<AuditRecord> = {}): AuditRecord => ({
    ...{ id: at, relay: "", at, what, on: "crm", who: "ada", by: "the page", result: "done", note: "" },
    ...more,
  })
  const operations = [
    operation(receivedAt - 1, "lanes pause"),
    operation(receivedAt + 1, "lanes resume"),
    operation(receivedAt + 2, "lanes pause"),
    operation(receivedAt + 3, "lanes resume", { on: "lake" }),
    operation(receivedAt + 4, "lanes resume", { result: "refused" }),
    operation(receivedAt + 5, "lanes resume"),
    operation(receivedAt + 7, "lanes pause"),
  ]
  const steps = timelineOf(found({ at: receivedAt + 6, tries: 1 }), { operations })
  expect(steps.slice(-4).map(({ at = 0, what }) => [at - receivedAt, what])).toEqual([
    [1, "resumed by ada (the page)"],
    [2, "paused by ada (the page)"],
    [5, "resumed by ada (the page)"],
    [6, "delivered by attempt 1"],
  ])
})
