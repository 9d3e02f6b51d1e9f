import { describe, expect, test } from "bun:test"
import { idempotencyKey } from "../../src/event/IdempotencyKey.ts"
import { event } from "../journal/samples.ts"
import { seeded } from "../lib/seeded.ts"
import { tries } from "../lib/tries.ts"

const utf8 = new TextEncoder()

const keyOf = (id: string, { altered = false, replayed = false, body = "{}", sequence = 7 } = {}): string =>
  idempotencyKey({
    sequence,
    event: event(id, { body: utf8.encode(body), ...(altered && { altered }) }),
    sinks: ["lake"],
    replayed,
  })

describe("an idempotency key", () => {
  test("is the id of an event as senders name them, and shows if the event is altered or replayed", () => {
    expect(keyOf("evt_1aB-9.x")).toBe("evt_1aB-9.x")
    expect(keyOf("evt_1", { replayed: true })).toBe("evt_1:replay:7")
    expect(keyOf("evt_1", { altered: true })).toMatch(/^evt_1:altered:[0-9a-f]{32}$/)
    expect(keyOf("evt_1", { altered: true, replayed: true })).toMatch(/^evt_1:altered:[0-9a-f]{32}:replay:7$/)
  })

  test("is the id as it is with up to 200 characters, and its hash beyond that", () => {
    for (const first of ["x", "!"]) {
      const longest = first.padEnd(200, "x")
      expect(keyOf(longest)).toBe(longest)
      expect(keyOf(`${longest}x`)).toMatch(/^id:[0-9a-f]{64}$/)
    }
  })

  test("does not change with the place in the log, unless it is a replay", () => {
    for (const [id, altered] of [
      ["evt_1", false],
      ["evt_1", true],
      ["", false],
    ] as const) {
      expect(keyOf(id, { altered, sequence: 8 })).toBe(keyOf(id, { altered }))
    }
    expect(keyOf("evt_1", { replayed: true, sequence: 8 })).not.toBe(keyOf("evt_1", { replayed: true }))
  })

  test("is unique to one event, whatever ids a sender invents", () => {
    const ids = [
      "evt_1",
      "evt_1:replay:7",
      "evt_1%3Areplay%3A7",
      keyOf("evt_1", { altered: true }),
      keyOf(""),
      keyOf("x".repeat(201)),
      "evt_1%",
      "evt_1%25",
      "evt_1 ",
      "evt_1\u0000",
      "evt_1\u0001",
      "evt_1\n",
      "ü",
      "%C3%BC",
      "\ud800",
      "\ud801",
      "\ufffd",
      "%EF%BF%BD",
      "x".repeat(200),
      "x".repeat(201),
      "x".repeat(202),
      "ü".repeat(60),
      "",
    ]
    const all = ids.flatMap((id) => [
      keyOf(id),
      keyOf(id, { replayed: true }),
      keyOf(id, { altered: true }),
      keyOf(id, { altered: true, body: "other" }),
      keyOf(id, { altered: true, replayed: true }),
    ])
    expect(new Set(all).size).toBe(all.length)
    expect(keyOf("", { body: "one" })).not.toBe(keyOf("", { body: "other" }))
  })

  test(`is visible ASCII and short enough for a header, whatever the id (${tries(1_000)} seeds)`, () => {
    for (let seed = 1; seed <= tries(1_000); seed++) {
      const random = seeded(seed)
      const length = Math.floor(random() ** 4 * 2_000)
      const id = String.fromCharCode(...Array.from({ length }, () => Math.floor(random() * 0x10000)))
      const key = keyOf(id, { altered: random() < 0.5, replayed: random() < 0.5, sequence: Number.MAX_SAFE_INTEGER })
      expect(key).toMatch(/^[\x21-\x7e]{1,300}$/)
    }
  })
})
