/** The official SDK is the oracle: it must accept every event that the relay writes. */
import { describe, expect, test } from "bun:test"
import { HTTP, Kafka, type KafkaMessage } from "cloudevents"
import type { Entry, Event } from "../../src/event/Event.ts"
import { idempotencyKey } from "../../src/event/IdempotencyKey.ts"
import * as CloudEvents from "../../src/formats/CloudEvents.ts"
import { seeded } from "../lib/seeded.ts"
import { tries } from "../lib/tries.ts"
import { entry } from "../sinks/samples.ts"

/** Returns the event. Throws if the SDK found a batch. */
const only = (found: ReturnType<typeof HTTP.toEvent>): Record<string, unknown> => {
  if (Array.isArray(found)) throw new Error("a batch")
  return JSON.parse(JSON.stringify(found))
}

const bytesOf = (event: Event): Buffer => Buffer.from(event.body)

const structured = (one: Entry) =>
  only(HTTP.toEvent({ headers: { "content-type": CloudEvents.structuredType }, body: CloudEvents.structured(one) }))

const overHttp = (one: Entry) =>
  only(
    HTTP.toEvent({
      headers: Object.fromEntries(CloudEvents.binary(one, CloudEvents.http)),
      body: bytesOf(one.event).toString(),
    }),
  )

const overKafka = (one: Entry) => {
  const message: KafkaMessage = {
    headers: Object.fromEntries(CloudEvents.binary(one, CloudEvents.kafka)),
    key: "",
    value: bytesOf(one.event).toString(),
    body: bytesOf(one.event).toString(),
  }
  return only(Kafka.toEvent(message))
}

const expected = {
  specversion: "1.0",
  id: "evt_7",
  source: "/webhooks/scheduling",
  type: "appointment.created",
  accountid: "acct_1",
  webhookid: "wh_1",
}

describe("CloudEvents", () => {
  for (const [mode, read] of Object.entries({
    "binary over HTTP": overHttp,
    "binary over Kafka": overKafka,
    structured,
  })) {
    test(`${mode}: the SDK reads attributes and data`, () => {
      const one = entry(7)
      const found = read(one)
      expect(found).toMatchObject(expected)
      expect(new Date(String(found.time)).toISOString()).toBe("2026-11-21T08:00:00.000Z")
      expect(found.data).toEqual(JSON.parse(bytesOf(one.event).toString()))
    })
  }

  test("structured: a body that isn't an envelope is base64, byte for byte", () => {
    const body = Uint8Array.of(0, 0xff, 0xfe, 10, 13, 0x7b)
    const found = JSON.parse(CloudEvents.structured(entry(7, { id: "", type: "", body })))
    expect(Buffer.from(found.data_base64, "base64")).toEqual(Buffer.from(body))
    expect(found.id).toMatch(/^body:[0-9a-f]{64}$/)
    expect(found).toMatchObject({ type: "relay.undecodable", datacontenttype: "application/octet-stream" })
  })

  test("is found by its id in every mode, whatever characters the sender's id has", () => {
    for (const more of [{ id: "evt 1%:ü\n" }, { altered: true }, { id: "x".repeat(5_000) }]) {
      const one = entry(7, more)
      for (const read of [overKafka, structured]) expect(read(one).id).toBe(idempotencyKey(one))
      // The SDK doesn't decode the encoding of the HTTP binding. Its user must.
      expect(decodeURIComponent(String(overHttp(one).id))).toBe(idempotencyKey(one))
    }
  })

  test("structured: numbers stay as the sender wrote them", () => {
    const body = Buffer.from('{"id":"evt_7","n":12345678901234567890,"f":1.0}')
    expect(CloudEvents.structured(entry(7, { body }))).toContain(
      '"data":{"id":"evt_7","n":12345678901234567890,"f":1.0}',
    )
  })

  test("a replayed event is another event", () => {
    expect(CloudEvents.attributes({ ...entry(7), replayed: true }).id).not.toBe(
      CloudEvents.attributes(entry(7)).id ?? "",
    )
  })

  test("the time is the sender's if it is valid, and otherwise the time of receipt", () => {
    const at = (created_at: unknown) =>
      CloudEvents.attributes(
        entry(7, {
          body: Buffer.from(
            JSON.stringify({
              id: "evt_7",
              account_id: "acct_1",
              version: "1",
              created_at,
              data: { type: "appointment.created", object: {} },
            }),
          ),
        }),
      ).time
    expect(at("2026-11-20T07:00:00Z")).toBe("2026-11-20T07:00:00Z")
    for (const odd of ["yesterday", "2026-13-45T99:00:00Z", "", 7]) expect(at(odd)).toBe("2026-11-21T08:00:07.000Z")
  })

  test("the SDK reads the same in all three modes, whatever ids, types and webhooks contain", () => {
    const random = seeded(11)
    const alphabet = ["a", "é", "🙂", "%", '"', " ", "\r\n", "\u0000", "\ud800", "/", "😀", "\uffff", "z", ",", ";"]
    const text = () =>
      Array.from({ length: 1 + Math.floor(random() * 8) }, () => alphabet[Math.floor(random() * alphabet.length)]).join(
        "",
      )
    for (let round = 0; round < tries(500); round++) {
      const one = entry(7, {
        id: `e${text()}`,
        type: `t${text()}`,
        accountId: `a${text()}`,
        webhook: `w${text().toWellFormed()}`,
      })
      const { specversion, id, source, type } = CloudEvents.attributes(one)
      for (const read of [overKafka, structured]) expect(read(one)).toMatchObject({ specversion, id, source, type })
      // The SDK doesn't undo the percent-encoding that the HTTP binding requires.
      const found = overHttp(one)
      expect(decodeURIComponent(String(found.id))).toBe(id ?? "")
      expect(decodeURIComponent(String(found.type))).toBe(type ?? "")
      for (const [, value] of CloudEvents.binary(one, CloudEvents.http)) expect(value).toMatch(/^[\x20-\x7e]+$/)
    }
  })
})
