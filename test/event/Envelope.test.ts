import { describe, expect, test } from "bun:test"
import { Result } from "effect"
import { decode, type Envelope, unredactedFields } from "../../src/event/Envelope.ts"
import { eventTypes } from "../../src/event/EventType.ts"

const utf8 = new TextEncoder()

const envelope = (type = "appointment.created", object: unknown = { id: "apt_1" }) => ({
  id: "evt_1",
  account_id: "acct_1",
  version: "2026-01",
  created_at: "2026-11-21T01:44:33Z",
  data: { type, object },
})

const problemOf = (body: string | Uint8Array): string => {
  const decoded = decode(typeof body === "string" ? utf8.encode(body) : body)
  return Result.isFailure(decoded) ? decoded.failure.problem : "decoded"
}
const decoded = (value: unknown): Envelope => Result.getOrThrow(decode(utf8.encode(JSON.stringify(value))))

describe("an envelope", () => {
  test("of every event type decodes", () => {
    for (const type of eventTypes) expect<string>(decoded(envelope(type)).data.type).toBe(type)
  })

  test("keeps fields that the interface does not state, at every level", () => {
    const extended = { ...envelope(), trace: [1], data: { ...envelope().data, previous: { status: "held" } } }
    expect<unknown>(decoded(extended)).toEqual(extended)
  })

  test("may have any version, any id and any white space", () => {
    expect(problemOf(`\r\n ${JSON.stringify({ ...envelope(), version: "", id: "" }, undefined, 2)}\n`)).toBe("decoded")
  })

  test("with an unknown type decodes: the type is the config's to judge", () => {
    expect(decoded(envelope("appointment.teleported")).data.type).toBe("appointment.teleported")
  })
})

describe("a body is no envelope", () => {
  test("when it is not JSON", () => {
    for (const body of ["", "{", "not json", "{'id':1}", "NaN"]) expect(problemOf(body)).toBe("the body is not JSON")
  })

  test("when it begins with a byte order mark", () => {
    expect(problemOf(`\uFEFF${JSON.stringify(envelope())}`)).toBe("the body is not JSON")
  })

  test("when it is not UTF-8", () => {
    const bytes = utf8.encode(JSON.stringify(envelope()))
    bytes[8] = 0xff
    expect(problemOf(bytes)).toBe("the body is not UTF-8")
  })

  test("when it is JSON of another shape", () => {
    for (const body of ["null", "1", '"evt_1"', "[]", "true", "{}"]) expect(problemOf(body)).not.toBe("decoded")
  })

  const without = (path: string) => {
    const copy = envelope()
    const parts = path.split(".")
    const last = parts.pop() ?? ""
    const parent = parts.reduce<object>((value, part) => Reflect.get(value, part), copy)
    Reflect.deleteProperty(parent, last)
    return copy
  }

  for (const path of ["id", "account_id", "version", "created_at", "data", "data.type", "data.object"]) {
    test(`when ${path} is missing, and the problem names it`, () => {
      expect(problemOf(JSON.stringify(without(path)))).toContain(path)
    })
  }

  test("when a field holds no text, and the problem names it", () => {
    for (const value of [null, 0, 1.5, true, [], ["text"], {}]) {
      for (const field of ["id", "account_id", "version", "created_at"])
        expect(problemOf(JSON.stringify({ ...envelope(), [field]: value }))).toContain(field)
      expect(problemOf(JSON.stringify({ ...envelope(), data: { type: value, object: {} } }))).toContain("data.type")
    }
  })

  test("when its object isn't one, or its type is empty", () => {
    for (const object of [null, 1, "x", [1]])
      expect(problemOf(JSON.stringify(envelope("a.b", object)))).toContain("data.object")
    expect(problemOf(JSON.stringify(envelope("")))).toContain("data.type")
  })

  test("the problem of a body that is not an envelope never holds a value of the body", () => {
    const canary = "canary@example.org"
    const bodies = [
      canary,
      JSON.stringify(canary),
      JSON.stringify([canary]),
      JSON.stringify({ [canary]: canary }),
      JSON.stringify({ ...envelope(), id: { email: canary } }),
      JSON.stringify({ ...envelope(), id: [canary], data: canary }),
      JSON.stringify({ ...envelope(), data: { type: { canary }, object: canary } }),
      JSON.stringify(envelope("client.created", [canary])),
    ]
    for (const body of bodies) {
      expect(problemOf(body)).not.toBe("decoded")
      expect(problemOf(body)).not.toContain("canary")
    }
  })
})

describe("redaction", () => {
  const client = { id: "cli_1", first_name: null, last_name: null, email: null, phone: null }

  test("a client object with null in all four fields matches the interface", () => {
    expect(unredactedFields(decoded(envelope("client.created", client)))).toEqual([])
  })

  test("each field that is not null is named", () => {
    for (const field of ["first_name", "last_name", "email", "phone"]) {
      const object = { ...client, [field]: "somebody" }
      expect(unredactedFields(decoded(envelope("client.updated", object)))).toEqual([field])
    }
    const all = { ...client, first_name: "", last_name: 0, email: false, phone: "1" }
    expect(unredactedFields(decoded(envelope("client.updated", all)))).toEqual([
      "first_name",
      "last_name",
      "email",
      "phone",
    ])
  })

  test("only client events are checked", () => {
    expect(unredactedFields(decoded(envelope("provider.updated", { ...client, email: "p@example.org" })))).toEqual([])
  })
})
