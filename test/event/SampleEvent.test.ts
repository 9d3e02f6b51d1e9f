import { describe, expect, test } from "bun:test"
import { Result } from "effect"
import { decode, unredactedFields } from "../../src/event/Envelope.ts"
import { eventTypes } from "../../src/event/EventType.ts"
import { sample, timestamp } from "../../src/event/SampleEvent.ts"

const now = Date.UTC(2026, 10, 21, 3, 4, 5, 678)
const bytesOf = (value: unknown) => new TextEncoder().encode(JSON.stringify(value))

describe("samples", () => {
  test("of all 42 types are envelopes as the interface states", () => {
    for (const type of eventTypes) {
      const envelope = sample(type, now)
      expect(Result.getOrThrow(decode(bytesOf(envelope)))).toEqual(envelope)
      expect(envelope.data.type).toBe(type)
      expect(envelope.id).toMatch(/^evt_[0-9A-Za-z]{20}$/)
      expect(envelope.account_id).toMatch(/^acct_/)
      expect(envelope.created_at).toBe("2026-11-21T03:04:05Z")
    }
  })

  test("of clients carry the redacted fields, and carry them null", () => {
    for (const type of eventTypes.filter((type) => type.startsWith("client."))) {
      const envelope = sample(type, now)
      expect(envelope.data.object).toMatchObject({ first_name: null, last_name: null, email: null, phone: null })
      expect(unredactedFields(envelope)).toEqual([])
    }
  })

  test("never share an id", () => {
    const ids = Array.from({ length: 2000 }, () => sample("block.created", now).id)
    expect(new Set(ids).size).toBe(2000)
  })

  test("take the account and the object they are given", () => {
    const envelope = sample("block.created", now, { accountId: "acct_1", object: { id: "blk_1" } })
    expect(envelope.account_id).toBe("acct_1")
    expect(envelope.data.object).toEqual({ id: "blk_1" })
    const of = (type: string) => sample(type, now, { objectId: "cna_1" }).data.object
    expect(of("connected_account.refresh_failed")).toMatchObject({ id: "cna_1", kind: "calendar" })
    expect(of("connected_account.reconnected")).toMatchObject({ id: "cna_1" })
  })

  test("are dated to the second, in UTC", () => {
    expect(timestamp(0)).toBe("1970-01-01T00:00:00Z")
    expect(sample("appointment.created", now).data.object).toMatchObject({
      created_at: "2026-11-21T02:04:05Z",
      start_at: "2026-11-22T03:04:05Z",
      end_at: "2026-11-22T04:04:05Z",
    })
  })
})
