import { describe, expect, test } from "bun:test"
import type { Event } from "../../../src/event/Event.ts"
import { erasedEvent, erasedRow } from "../../../src/journal/archive/Erasure.ts"
import { keyOf } from "../../../src/journal/stream/DuplicateKey.ts"
import {
  bodyChecksum,
  decode,
  decodeRow,
  encode,
  Origin,
  splitRow,
  Writer,
} from "../../../src/journal/stream/Record.ts"
import { seeded } from "../../lib/seeded.ts"
import { event } from "../samples.ts"

const randomEvent = (random: () => number): Event =>
  event(random() < 0.2 ? "" : `evt_${random()}`, {
    body: Uint8Array.from({ length: 1 + Math.floor(random() * 200) }, () => Math.floor(random() * 256)),
    ...(random() < 0.3 && { problem: "it quotes the body" }),
    ...(random() < 0.3 && { trace: { traceparent: "00-a", tracestate: "b=c" } }),
    ...(random() < 0.2 && { altered: true }),
    ...(random() < 0.3 && {
      foreign: { createdAt: "2026-01-01T00:00:00.000Z", headers: { "x-by": "it quotes a name" } },
    }),
    ...(random() < 0.2 && { replay: 1 + Math.floor(random() * 2 ** 40) }),
  })

describe("an erased event", () => {
  test("is read as it was erased, and keeps the key of its delivery (300 seeds)", () => {
    for (let seed = 1; seed <= 300; seed++) {
      const before = randomEvent(seeded(seed))
      const entry = {
        sequence: seed,
        event: erasedEvent(before, 1_000 + seed),
        sinks: ["lake"],
        replayed: before.replay !== undefined,
      }
      const after = decode(encode(entry), seed)
      expect(after).toEqual(entry)
      expect(keyOf(entry.event)).toEqual(keyOf(before))
      expect(after?.event.foreign !== undefined).toBe(before.foreign !== undefined)
      expect(bodyChecksum(entry.event)).toBe(bodyChecksum(before))
      expect(after?.event).toMatchObject({
        id: before.id,
        type: before.type,
        signature: "",
        erased: { at: 1_000 + seed },
      })
      expect(JSON.stringify(after)).not.toContain("quotes")
      expect(erasedEvent(entry.event, 9)).toBe(entry.event)
    }
  })

  test("leaves all other records of its row byte for byte, also those that are damaged (300 seeds)", () => {
    for (let seed = 1; seed <= 300; seed++) {
      const random = seeded(seed)
      const count = 1 + Math.floor(random() * 12)
      const writer = new Writer()
      for (let index = 0; index < count; index++) {
        const one = randomEvent(random)
        writer.add(100 + index, one, ["lake"], Origin.delivered, bodyChecksum(one))
      }
      const row = Buffer.from(writer.bytes())
      const sizes = splitRow(row, count).map(({ length }) => length)
      const damaged = Math.floor(random() * count)
      const end = sizes.slice(0, damaged + 1).reduce((sum, size) => sum + size, 0)
      row.writeUInt8(row.readUInt8(end - 1) ^ 1, end - 1)
      const erased = new Set(sizes.flatMap((_, index) => (random() < 0.5 ? [100 + index] : [])))
      const after = erasedRow(row, 100, count, erased, 7)
      expect(decodeRow(after, 100, count).damaged).toEqual([100 + damaged])
      const before = splitRow(row, count)
      for (const [index, record] of splitRow(after, count).entries()) {
        const isErased = erased.has(100 + index) && index !== damaged
        if (isErased) expect(decode(record, 100 + index)?.event.erased?.at).toBe(7)
        else expect(Buffer.compare(record, before[index] ?? record)).toBe(0)
      }
    }
  })
})
