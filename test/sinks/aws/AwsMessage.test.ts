import { describe, expect, test } from "bun:test"
import type { Entry, Event } from "../../../src/event/Event.ts"
import { idempotencyKey } from "../../../src/event/IdempotencyKey.ts"
import { encoder, type Message } from "../../../src/sinks/aws/AwsBatch.ts"
import { awkward } from "../../contract/sinkContract.ts"
import { seeded } from "../../lib/seeded.ts"
import { bytesOf } from "../../parts/Queues.ts"
import { bytes, entry } from "../samples.ts"

const raw = encoder({ format: "raw", key: "{{account_id}}", isFifo: false })
const fifo = encoder({ format: "raw", key: "{{account_id}}", isFifo: true })
const of = (more: Partial<Event>, encode = raw): Message => encode(entry(1, more), 0)
const keyless = (body?: Uint8Array) => idempotencyKey(entry(1, { id: "", ...(body && { body }) }))
const carried = ({ text, attributes }: Message) =>
  Buffer.from(bytesOf({ body: text, attributes, group: undefined, deduplication: undefined }))

describe("a message", () => {
  test("carries any bytes: as they are if SNS and SQS accept them, and otherwise as base64 with a mark", () => {
    const random = seeded(1)
    const cases = Object.values(awkward).map(({ body }) => body ?? new Uint8Array(0))
    for (let n = 0; n < 200; n++) {
      const length = Math.floor(random() * 40)
      cases.push(Uint8Array.from({ length }, () => Math.floor(random() * (n % 2 === 0 ? 256 : 128))))
    }
    for (const body of cases) {
      const message = of({ body })
      expect(carried(message)).toEqual(Buffer.from(body))
      if (message.attributes.encoding === undefined) expect(Buffer.from(message.text)).toEqual(Buffer.from(body))
      expect(message.text).toMatch(/^[\t\n\r\x20-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]+$/u)
    }
  })

  test("is text for a body of letters of all planes, a byte order mark and line breaks", () => {
    const text = '\ufeff{\r\n\t"name": "ü \u2028 🙂 \u0085"}'
    expect(of({ body: bytes(text) })).toMatchObject({ text, attributes: { type: "appointment.created" } })
    expect(of({ body: bytes(text) }).attributes.encoding).toBeUndefined()
    for (const odd of ["\u0000", "\u001b", "\ufffe", "\uffff"]) {
      expect(of({ body: bytes(`"${odd}"`) }).attributes.encoding).toBe("base64")
    }
  })

  test("has ten attributes at most, none of them empty, and leaves out absent facts", () => {
    const trace = { traceparent: `00-${"a".repeat(32)}-${"b".repeat(16)}-01`, tracestate: "x=1" }
    const all = of({ trace, body: Uint8Array.of(255) }).attributes
    expect(all).toEqual({
      type: "appointment.created",
      resource: "appointment",
      account_id: "acct_1",
      event_id: "evt_1",
      idempotency_key: "evt_1",
      webhook_id: "wh_1",
      signature: entry(1).event.signature,
      encoding: "base64",
      ...trace,
    })
    expect(Object.keys(all)).toHaveLength(10)
    expect(of({ id: "", type: "", accountId: "", webhookId: "", signature: "" }).attributes).toEqual({
      idempotency_key: keyless(),
    })
  })

  test("of a CloudEvent has no signature, because that is over other bytes", () => {
    const cloudevents = encoder({ format: "cloudevents", key: "{{account_id}}", isFifo: false })
    expect(of({}, cloudevents).attributes).not.toHaveProperty("signature")
    expect(of({}, cloudevents).attributes).toHaveProperty("event_id", "evt_1")
  })

  test("has values without a character that is refused", () => {
    const { attributes } = of({ type: "appointment.\r\nü\u001b[2J", id: "a\u0000\ud800b" })
    expect(attributes.type).toBe("appointment.\r\nü%1B[2J")
    expect(attributes.event_id).toBe("a%00%EF%BF%BDb")
  })

  test("weighs its text and the names, types and values of its attributes, in bytes", () => {
    const message = of({ body: bytes("üü"), id: "", type: "", accountId: "ü", webhookId: "", signature: "" })
    expect(message.attributes).toEqual({ account_id: "ü", idempotency_key: keyless(bytes("üü")) })
    expect(message.size).toBe(4 + "account_id".length + 6 + 2 + "idempotency_key".length + 6 + keyless().length)
  })

  test("with FIFO has the key as its group, and the idempotency key for duplicates", () => {
    expect(of({}, fifo).fifo).toEqual({ group: "acct_1", deduplication: "scheduling:evt_1" })
    const replayed: Entry = { ...entry(7), replayed: true }
    expect(fifo(replayed, 0).fifo).toEqual({ group: "acct_1", deduplication: "scheduling:evt_7:replay:7" })
  })

  test("has valid ids, and different ids stay different", () => {
    const odd = ["a b", "ü", "x".repeat(129), "\n", "x".repeat(130), "a  b"]
    const groups = odd.map((accountId) => of({ accountId }, fifo).fifo?.group ?? "")
    for (const group of groups) expect(group).toMatch(/^sha256-[0-9a-f]{64}$/)
    expect(new Set(groups).size).toBe(odd.length)
    expect(of({ id: "x".repeat(180) }, fifo).fifo?.deduplication).toMatch(/^sha256-/)
    expect(of({ id: "x".repeat(500) }, fifo).fifo?.deduplication).toMatch(/^scheduling:id:[0-9a-f]{64}$/)
  })

  test("with FIFO has another id for the same event id with other bytes, and it is taken", () => {
    const ids = [{}, { altered: true }, { altered: true, body: bytes("{}") }].map((more) => of(more, fifo).fifo)
    expect(new Set(ids.map((one) => one?.deduplication)).size).toBe(3)
    for (const one of ids) expect(one?.deduplication).toMatch(/^[\x21-\x7e]{1,128}$/)
  })

  test("without a key is a group of its own: it waits for no other", () => {
    const [one, two] = [entry(1, { accountId: "" }), entry(2, { accountId: "" })].map((one) => fifo(one, 0).fifo?.group)
    expect(one).not.toBe(two)
  })
})
