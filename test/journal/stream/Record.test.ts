import { describe, expect, test } from "bun:test"
import {
  bodyChecksum,
  decode,
  decodeOne,
  decodeRow,
  encode,
  hashOf,
  indexFields,
  Origin,
  Writer,
} from "../../../src/journal/stream/Record.ts"
import { seeded } from "../../lib/seeded.ts"
import { tries } from "../../lib/tries.ts"
import { event } from "../samples.ts"

const text = (random: () => number): string =>
  String.fromCodePoint(...Array.from({ length: Math.floor(random() * 20) }, () => Math.floor(random() * 0xd7ff)))

const randomEvent = (random: () => number) =>
  event(text(random), {
    type: text(random),
    accountId: text(random),
    webhookId: text(random),
    receivedAt: Math.floor(random() * 2 ** 45),
    body: Uint8Array.from({ length: Math.floor(random() * 200) }, () => Math.floor(random() * 256)),
    ...(random() < 0.2 ? { problem: text(random) } : {}),
    ...(random() < 0.3 ? { trace: { traceparent: text(random) } } : {}),
    ...(random() < 0.3 ? { trace: { traceparent: text(random), tracestate: text(random) } } : {}),
    ...(random() < 0.2
      ? {
          foreign: { createdAt: text(random), headers: { [text(random)]: text(random) } },
          trace: { traceparent: `00-${text(random)}` },
        }
      : {}),
    ...(random() < 0.2 ? { altered: true, trace: { traceparent: `00-${text(random)}` } } : {}),
    ...(random() < 0.2
      ? { replay: 1 + Math.floor(random() * 2 ** 50), trace: { traceparent: `00-${text(random)}` } }
      : {}),
  })

const row = (random: () => number, count: number) => {
  const writer = new Writer()
  const events = Array.from({ length: count }, () => randomEvent(random))
  for (const [index, one] of events.entries())
    writer.add(100 + index, one, ["lake"], Origin.delivered, bodyChecksum(one))
  return { events, bytes: Uint8Array.from(writer.bytes()) }
}

describe("Record", () => {
  test(`gives back any event as it was (${tries(300)} seeds)`, () => {
    for (let seed = 1; seed <= tries(300); seed++) {
      const random = seeded(seed)
      const own = randomEvent(random)
      const entry = {
        sequence: 1 + Math.floor(random() * 2 ** 50),
        event: own,
        sinks: [text(random)],
        replayed: own.replay !== undefined || random() < 0.5,
      }
      expect(decode(encode(entry), entry.sequence)).toEqual(entry)
    }
  })

  test("holds nothing but the usual fields of an event of the scheduling service", () => {
    const entry = { sequence: 1, event: event("evt_1"), sinks: ["lake"], replayed: false }
    const record = Buffer.from(encode(entry))
    const header = JSON.parse(record.toString("utf8", 16, 16 + record.readUInt32LE(12)))
    const { receivedAt, id, type, accountId, webhook, webhookId, signature, secret } = entry.event
    expect(header).toEqual([1, 0, receivedAt, id, type, accountId, webhook, webhookId, signature, secret, ["lake"]])
  })

  test("returns no altered event, and every other event up to a broken length (500 flips)", () => {
    for (let seed = 1; seed <= tries(500); seed++) {
      const random = seeded(seed)
      const { events, bytes } = row(random, 5)
      const at = Math.floor(random() * bytes.length)
      bytes[at] = (bytes[at] ?? 0) ^ (1 << Math.floor(random() * 8))
      const { stored, damaged } = decodeRow(bytes, 100, 5)
      expect(damaged.length).toBeGreaterThan(0)
      expect(stored.length + damaged.length).toBe(5)
      for (const { entry } of stored) expect(entry.event).toEqual(events[entry.sequence - 100] ?? event("none"))
    }
  })

  test("treats a record under another sequence as damaged", () => {
    const { bytes } = row(seeded(3), 3)
    expect(decodeRow(bytes, 200, 3)).toEqual({ stored: [], damaged: [200, 201, 202] })
  })

  test("is, without a trace, the record that relays before traces wrote and read", () => {
    const written = (problem?: string) =>
      Buffer.from(
        encode({
          sequence: 7,
          event: event("evt_1", problem === undefined ? {} : { problem }),
          sinks: ["lake"],
          replayed: false,
        }),
      )
    const headerOf = (bytes: Buffer) => JSON.parse(bytes.toString("utf8", 16, 16 + bytes.readUInt32LE(12)))
    expect(headerOf(written())).toHaveLength(11)
    expect(headerOf(written("no JSON")).slice(10)).toEqual([["lake"], "no JSON"])
  })

  test("survives a row that is cut short or empty", () => {
    const { bytes } = row(seeded(4), 3)
    for (let length = 0; length < bytes.length; length += 7) {
      const { stored, damaged } = decodeRow(bytes.slice(0, length), 100, 3)
      expect(stored.length + damaged.length).toBe(3)
      expect(damaged).toContain(102)
    }
  })

  test(`passes over a row with the same facts as a reader of it (${tries(300)} seeds)`, () => {
    for (let seed = 1; seed <= tries(300); seed++) {
      const { events, bytes } = row(seeded(seed), 5)
      const found: Array<unknown> = []
      indexFields(bytes, 5, (index, { id, type, account, webhook, kind }) => {
        found.push([index, id, type, account, webhook, kind()])
      })
      expect(found).toEqual(
        events.map(({ id, type, accountId, webhook }, index) => [
          index,
          ...[id, type, accountId, webhook].map(hashOf),
          [type, webhook],
        ]),
      )
      const at = 100 + (seed % 5)
      expect(decodeOne(bytes, 100, at)?.entry.event).toEqual(events[at - 100])
      expect(decodeOne(bytes, 100, 105)).toBeUndefined()
    }
  })

  test("passes over a damaged row without a word (500 flips)", () => {
    for (let seed = 1; seed <= tries(500); seed++) {
      const random = seeded(seed)
      const { bytes } = row(random, 5)
      const at = Math.floor(random() * bytes.length)
      bytes[at] = (bytes[at] ?? 0) ^ (1 << Math.floor(random() * 8))
      indexFields(bytes, 5, (index, { kind }) => {
        kind()
        decodeOne(bytes, 100, 100 + index)
      })
    }
  })
})
