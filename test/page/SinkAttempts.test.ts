import { expect, test } from "bun:test"
import type { DeadLetter } from "../../src/admin/api/DeadLetterApi.ts"
import type { Event } from "../../src/admin/api/EventApi.ts"
import { attemptedOf, causesOf } from "../../src/page/browser/parts/EventFacts.ts"

const attempt = (at: number, message: string, number = 1) => ({ at, reason: "DeliveryRejected", message, number })

const letter = (sequence: number, ...attempts: DeadLetter["attempts"]): DeadLetter => ({
  ...{ id: `crm:${sequence}`, lane: "crm", eventId: `evt_${sequence}`, type: "client.created", accountId: "acct_1" },
  ...{ webhook: "scheduling", receivedAt: 0, at: 0, attempts },
})

const event = (sequence: number, ...sinks: Event["sinks"]): Event => ({
  ...{ sequence, origin: "delivered", id: `evt_${sequence}`, type: "client.created", accountId: "acct_1" },
  ...{ webhook: "scheduling", receivedAt: 0, sinks, timeline: [] },
})

test("failures that differ only in ids and numbers have one cause, the most frequent cause first", () => {
  const letters = [
    letter(3, attempt(30, "answered 413")),
    { ...letter(2, attempt(20, "answered 422: no client 10002")), type: "client.updated" },
    letter(1, attempt(5, "answered 500"), attempt(10, "answered 422: no client 10001", 2)),
  ]
  const retrying = event(
    4,
    { sink: "lake", outcome: "retrying", attempts: [attempt(99, "of another sink")] },
    { sink: "crm", outcome: "retrying", attempts: [attempt(40, "answered 422: no client 10004")] },
  )
  expect(causesOf(letters, [retrying], "crm")).toMatchObject([
    { count: 3, message: "answered 422: no client 10004", sequence: 4, types: ["client.created", "client.updated"] },
    { count: 1, message: "answered 413", sequence: 3, types: ["client.created"] },
  ])
})

test("an attempt of a dead letter that its event has too is shown once, the newest attempt first", () => {
  const failed = [attempt(10, "answered 500"), attempt(20, "answered 422", 2)]
  const events = [
    event(2, { sink: "crm", outcome: "delivered", at: 15, took: 3, code: 200, tries: 1, attempts: [] }),
    event(1, { sink: "crm", outcome: "dead", at: 20, attempts: failed }),
  ]
  const attempts = attemptedOf([letter(1, ...failed)], events, "crm")
  expect(attempts.map(({ at, sequence, isDelivered }) => [at, sequence, isDelivered])).toEqual([
    [20, 1, false],
    [15, 2, true],
    [10, 1, false],
  ])
})
