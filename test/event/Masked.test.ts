import { describe, expect, test } from "bun:test"
import { maskedBody } from "../../src/event/Envelope.ts"
import { seeded } from "../lib/seeded.ts"
import { tries } from "../lib/tries.ts"

const canary = "canary-person"

const envelope = (object: object, more: object = {}, data: object = {}) => ({
  id: "evt_1",
  account_id: "acct_1",
  version: "1",
  created_at: "2026-11-21T08:00:00Z",
  data: { type: "client.created", object, ...data },
  ...more,
})

const bytes = (value: unknown) => new TextEncoder().encode(JSON.stringify(value))
const masked = (value: unknown) => {
  const shown = maskedBody({ body: bytes(value) })
  return shown === undefined ? undefined : JSON.parse(new TextDecoder().decode(shown))
}

describe("a masked body", () => {
  test("keeps only the envelope, null, ids and points in time", () => {
    const object = {
      id: "cli_1a2B",
      provider_ids: ["prv_1", "prv_2"],
      first_name: null,
      email: "ann@example.com",
      born: "1990-01-01",
      created_at: "2026-11-21T07:00:00.5+02:00",
      vip: true,
      visits: 3,
      tags: ["regular", { note: "x" }],
    }
    expect(masked(envelope(object))).toEqual(
      envelope({
        ...object,
        email: "***",
        born: "***",
        vip: "***",
        visits: "***",
        tags: ["***", { note: "***" }],
      }),
    )
  })

  test("doesn't trust a name or a form alone to be an id or a time", () => {
    const object = {
      id: "Ann Example",
      passport_id: "C01X00T47",
      login: "ann_example",
      seen_at: "at home",
      birthday: "1990-01-01T00:00:00Z",
      paid: "in_full",
    }
    expect(new Set(Object.values(masked(envelope(object)).data.object))).toEqual(new Set(["***"]))
  })

  test("shows no field name that may be personal data", () => {
    const { data } = masked(envelope({ guests: { "ann@example.com": 1, "Ann Example": 2 } }))
    expect(data.object).toEqual({ guests: { "***": "***" } })
  })

  test("masks fields that the interface doesn't state", () => {
    expect(masked(envelope({}, { actor: "Ann" }, { previous: { email: "a@b.c", id: "cli_1" } }))).toEqual(
      envelope({}, { actor: "***" }, { previous: { email: "***", id: "cli_1" } }),
    )
  })

  test("doesn't exist if the body isn't an envelope", () => {
    for (const value of [null, "Ann", { first_name: "Ann" }, envelope([])]) expect(masked(value)).toBeUndefined()
    expect(maskedBody({ body: Uint8Array.of(0xff) })).toBeUndefined()
  })

  test(`holds nothing that stood anywhere in an object (${tries(300)} seeds)`, () => {
    for (let seed = 1; seed <= tries(300); seed++) {
      const random = seeded(seed)
      const names = ["id", "user_id", "ids", "created_at", "name", `x ${canary}`, "deep", "__proto__"]
      const value = (depth: number): unknown => {
        const draw = random()
        if (depth === 0 || draw < 0.4) return `${canary} ${draw}`
        const items = Array.from({ length: 3 }, () => value(depth - 1))
        if (draw < 0.6) return items
        return Object.fromEntries(items.map((item) => [names[Math.floor(random() * names.length)] ?? "", item]))
      }
      const shown = maskedBody({ body: bytes(envelope({ a: value(4) }, { b: value(3) }, { c: value(3) })) })
      expect(new TextDecoder().decode(shown)).not.toContain(canary)
    }
  })
})

test("a masked body of another sender keeps ids and times alone", () => {
  const body = bytes({
    id: "in_1a",
    customer_id: "cus_2b",
    paid_at: "2026-01-01T00:00:00Z",
    email: canary,
    of: [{ name: canary }],
  })
  const foreign = { createdAt: "", headers: {} }
  expect(JSON.parse(new TextDecoder().decode(maskedBody({ body, foreign })))).toEqual({
    id: "in_1a",
    customer_id: "cus_2b",
    paid_at: "2026-01-01T00:00:00Z",
    email: "***",
    of: [{ name: "***" }],
  })
  expect(maskedBody({ body: bytes([canary]), foreign })).toBeUndefined()
})

test("a field that the webhook names is masked at any depth, whatever its value", () => {
  const object = { id: "in_1a", customer_id: "cus_2b", of: [{ customer_id: null, seen_at: "2026-01-01T00:00:00Z" }] }
  const expected = { id: "in_1a", customer_id: "***", of: [{ customer_id: "***", seen_at: "2026-01-01T00:00:00Z" }] }
  const read = (body: Uint8Array | undefined) => JSON.parse(new TextDecoder().decode(body))
  const foreign = { createdAt: "", headers: {} }
  expect(read(maskedBody({ body: bytes(object), foreign }, ["customer_id"]))).toEqual(expected)
  expect(read(maskedBody({ body: bytes(envelope(object)) }, ["customer_id"]))).toEqual(envelope(expected))
})

test("a body that is nested too deep to be written is masked from some depth on", () => {
  const shown = (opening: string, closing: string): string => {
    const nested = `${opening.repeat(100_000)}7${closing.repeat(100_000)}`
    const text = JSON.stringify(envelope({ list: "LIST" })).replace('"LIST"', nested)
    return new TextDecoder().decode(maskedBody({ body: new TextEncoder().encode(text) }))
  }
  expect(shown("[", "]")).toMatch(/"list":\[{98,101}"\*\*\*"\]{98,101}/)
  expect(shown('{"a":', "}")).toMatch(/"list":(\{"a":){98,101}"\*\*\*"\}{98,101}/)
})
