/** Numbers that a double can't hold, from a config's text and a delivery's bytes to the sinks. */
import { describe, expect, spyOn } from "bun:test"
import { Effect } from "effect"
import * as Numbers from "../../src/event/Numbers.ts"
import { decide } from "../../src/ingest/Ingest.ts"
import { config, loadText } from "../config/fixture.ts"
import { makeActive } from "../lib/activeConfig.ts"
import { it } from "../lib/effect.ts"
import { envelope, webhook } from "./fixture.ts"

/** Returns a config with a route for each condition. A route's sink has the name of its condition. */
const configOf = (where: Readonly<Record<string, string>>): string => {
  const sinks = Object.fromEntries(Object.keys(where).map((name) => [name, { type: "file", path: name }]))
  const routes = Object.keys(where).map((name) => ({ name, match: "**", where: name, to: name }))
  return Object.entries(where).reduce(
    (text, [name, condition]) => text.replace(`"where": "${name}"`, `"where": ${condition}`),
    config({ sinks, routes }),
  )
}

const decider = (where: Readonly<Record<string, string>>) =>
  Effect.map(loadText(configOf(where)), ({ config: { routes } }) => {
    const { table } = makeActive({ webhooks: [webhook()], routes }).current
    return (object: string) => {
      const body = new TextEncoder().encode(envelope("client.created", "here").replace('"here"', object))
      const received = { webhook: "scheduling", webhookId: "", signature: "", secret: "", receivedAt: 1, body }
      const decision = decide(received, webhook(), table)
      return decision.refusal ?? decision.sinks
    }
  })

describe("a route's condition on a number", () => {
  it.effect("holds for exactly that number, however either is written", function* () {
    const at = (value: string) => `{"/data/object/n":${value}}`
    const sinksOf = yield* decider({
      odd: at("9007199254740993"),
      even: at("9007199254740992"),
      others: at('{"exists":true,"not":[9007199254740993,1]}'),
      one: at("1.0"),
      huge: at("1e400"),
      round: at("1e18"),
      expression: '{"jmespath":"data.object.n == `9007199254740993`"}',
      above: '{"jmespath":"data.object.n > `9007199254740992`"}',
    })
    const of = (number: string) => sinksOf(`{"n":${number}}`)
    const odd = ["odd", "expression", "above"]
    for (const same of ["9007199254740993", "9007199254740993.0", "9.007199254740993e15", "9007199254740993000E-3"]) {
      expect([same, of(same)]).toEqual([same, odd])
    }
    expect(of("9007199254740992")).toEqual(["even", "others"])
    expect(of("9007199254740992.5")).toEqual(["others", "above"])
    for (const same of ["1", "1.0", "1e0", "10e-1", "1.00000000000000000000"]) {
      expect([same, of(same)]).toEqual([same, ["one"]])
    }
    expect(of("1.00000000000000000001")).toEqual(["others"])
    expect(of("1e400")).toEqual(["others", "huge", "above"])
    expect(of("10E399")).toEqual(["others", "huge", "above"])
    expect(of("1e401")).toEqual(["others", "above"])
    for (const same of ["1e18", "1000000000000000000", "1000000000e9"]) {
      expect([same, of(same)]).toEqual([same, ["others", "round", "above"]])
    }
    expect(of('"9007199254740993"')).toEqual(["others"])
  })

  it.effect("costs an event nothing if its number can't be one of the condition's", function* () {
    const sinksOf = yield* decider({ odd: '{"/data/object/n":9007199254740993}', text: '{"/data/object/t":"x"}' })
    const looked = spyOn(Numbers, "mayRound")
    expect(sinksOf('{"n":5,"t":"x","other":9007199254740993}')).toEqual(["text"])
    expect(looked).not.toHaveBeenCalled()
    expect(sinksOf('{"n":9007199254740992}')).toEqual([])
    expect(looked).toHaveBeenCalled()
    looked.mockRestore()
  })

  it.effect("is found to be impossible, or always true, by its exact value", function* () {
    const both = { a: '{"/data/object/n":{"oneOf":[9007199254740993],"not":[9007199254740992]}}' }
    expect((yield* loadText(configOf(both))).warnings).toEqual([])
    const never = { a: '{"/data/object/n":{"oneOf":[9007199254740993],"not":[9007199254740993.0]}}' }
    expect((yield* Effect.flip(loadText(configOf(never)))).message).toContain("this never holds")
    const text = { a: '{"/account_id":9007199254740993}' }
    expect((yield* Effect.flip(loadText(configOf(text)))).message).toContain('write "9007199254740993"')
  })
})

describe("a number of the config that no double holds", () => {
  it.effect("is sent as it is written there", function* () {
    const text = config({ sinks: { audit: { type: "http", url: "https://example.com", body: { id: "here" } } } })
    const { config: loaded } = yield* loadText(text.replace('"here"', "9007199254740993"))
    expect(JSON.stringify(loaded.sinks[0]?.config)).toContain('"body":{"id":9007199254740993}')
  })

  it.effect("is a double in the relay's own settings, and an error where no number may be", function* () {
    const own = config({ delivery: { pauseAfter: "here" } }).replace('"here"', "5.00000000000000000001")
    expect((yield* loadText(own)).config.sinks[0]?.delivery.pauseAfter).toBe(5)
    for (const [parts, why] of [
      [{ sinks: { audit: { type: "here" } } }, "there is no such type of sink"],
      [{ routes: [{ name: "a", match: "**", to: "audit", where: "here" }] }, "expected an object"],
      [{ routes: [{ name: "a", match: "**", to: "audit", where: { "/id": { prefix: "here" } } }] }, "found a number"],
    ] as const) {
      const text = config(parts).replace('"here"', "1e999")
      expect((yield* Effect.flip(loadText(text))).message).toContain(why)
    }
  })
})
