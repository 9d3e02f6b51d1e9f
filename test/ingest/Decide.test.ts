import { describe, expect, test } from "bun:test"
import type { Webhook } from "../../src/config/Config.ts"
import { quarantine } from "../../src/event/Event.ts"
import { decide } from "../../src/ingest/Ingest.ts"
import { makeActive } from "../lib/activeConfig.ts"
import { envelope, routes, webhook } from "./fixture.ts"

const { table } = makeActive({ webhooks: [webhook()], routes }).current

const received = (body: string) => ({
  webhook: "scheduling",
  webhookId: "",
  signature: "",
  secret: "main",
  receivedAt: 1,
  body: new TextEncoder().encode(body),
})

/** Returns the sinks and the reason of a quarantine, or the refusal. */
const decided = (body: string, changes: Partial<Webhook> = {}) => {
  const decision = decide(received(body), webhook(changes), table)
  return decision.refusal ?? [decision.sinks, decision.event.problem]
}

describe("an authentic body", () => {
  test("that is an envelope is routed", () => {
    expect(decided(envelope("appointment.created"))).toEqual([["lake"], undefined])
    expect(decided(envelope("block.created"))).toEqual([[], undefined])
  })

  test("that isn't an envelope is quarantined or refused, as the webhook says", () => {
    expect(decided("no envelope")).toEqual([[quarantine], "the body is not JSON"])
    expect(decided("no envelope", { undecodable: "reject" })).toBe("undecodable")
  })

  test("of an unknown type is routed, quarantined or refused, as the webhook says", () => {
    expect(decided(envelope("made.up"))).toEqual([["lake"], undefined])
    const problem = "the event type is not in the catalogue"
    expect(decided(envelope("made.up"), { unknownTypes: "quarantine" })).toEqual([[quarantine], problem])
    expect(decided(envelope("made.up"), { unknownTypes: "reject" })).toBe("unknownType")
  })

  test("is never taken for an event of the relay's own", () => {
    const problem = "event types that begin with relay. are the relay's own"
    expect(decided(envelope("relay.dead_letter"))).toEqual([[quarantine], problem])
  })

  test("reports the client fields that were not redacted", () => {
    const client = { id: "cl_1", first_name: "Ada", last_name: null, email: "ada@example.com", phone: null }
    const decision = decide(received(envelope("client.created", client)), webhook(), table)
    expect(decision).toMatchObject({ unredacted: ["first_name", "email"] })
  })
})
