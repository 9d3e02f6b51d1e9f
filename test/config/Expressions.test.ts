/** Expressions in a config: their checks when it loads, and events whose expression fails. */
import { describe, expect, test } from "bun:test"
import { Effect, Result } from "effect"
import { load } from "../../src/config/load/Load.ts"
import * as Rendering from "../../src/formats/Rendering.ts"
import { orderKey } from "../../src/formats/Template.ts"
import { decide } from "../../src/ingest/Ingest.ts"
import { journalTypes } from "../../src/journal/Journals.ts"
import { makeTable } from "../../src/routing/Router.ts"
import { hmac } from "../../src/runtime/Runtime.ts"
import { sinkTypes } from "../../src/sinks/SinkTypes.ts"
import { bytes, entry, envelope } from "../sinks/samples.ts"
import { readFile } from "./fixture.ts"

interface Parts {
  readonly body?: string
  readonly key?: string
  readonly where?: string
  readonly match?: string
  readonly tests?: ReadonlyArray<unknown>
}

const loaded = ({ body = "@", key = "id", where = "id", match = "appointment.created", tests = [] }: Parts) =>
  Effect.runPromise(
    load("relay.config.json", {
      env: {},
      sinkTypes,
      journalTypes,
      readFile: readFile({
        "relay.config.json": JSON.stringify({
          webhooks: { scheduling: { path: "/hooks", secrets: [{ name: "now", value: "whsec_of_this_test" }] } },
          sinks: {
            shaped: {
              type: "http",
              url: "https://example.com",
              format: "template",
              body: { jmespath: body },
              key: { jmespath: key },
            },
          },
          routes: [{ name: "all", match, where: { jmespath: where }, to: "shaped" }],
          tests,
        }),
      }),
    }),
  )

const warnings = async (parts: Parts) =>
  (await loaded(parts)).warnings.map(({ key, message }) => [key, message] as const)

describe("an expression of a config", () => {
  test("is tried with samples of the types that reach it, and with no others", async () => {
    expect(await warnings({ match: "**" })).toEqual([])
    expect(await warnings({ body: "data.object.meeting.id", match: "appointment.{created,meeting.created}" })).toEqual([
      ["sinks.shaped.body.jmespath", "with a sample of appointment.created the expression makes nothing, only null"],
    ])
    expect(await warnings({ key: "join('/', data.object.tags)" })).toEqual([
      [
        "sinks.shaped.key.jmespath",
        "with a sample of appointment.created the expression fails: join() at character 1 takes an array of strings as argument 2, and got null",
      ],
    ])
    expect(await warnings({ where: "length(data.object.tags) > `2`" })).toEqual([
      [
        "routes[0].where.jmespath",
        "with a sample of appointment.created the expression fails, and such an event is quarantined",
      ],
    ])
  })

  test("is tried with the object that a test gives, instead of the relay's own", async () => {
    const tests = [{ event: "appointment.created", object: { tags: ["a", "b", "c"] }, to: "shaped" }]
    const shape = "join('/', data.object.tags)"
    expect(await warnings({ body: shape, key: shape, where: "length(data.object.tags) > `2`", tests })).toEqual([])
    const empty = [{ event: "appointment.created", object: {}, to: "shaped" }]
    expect((await warnings({ body: shape, tests: empty })).map(([key]) => key)).toEqual(["sinks.shaped.body.jmespath"])
  })
})

const event = (object: unknown) => entry(1, { body: bytes(JSON.stringify(envelope(1, object))) })

describe("an event for which an expression fails", () => {
  const decided = async (object: unknown) => {
    const { config } = await loaded({ where: "length(data.object.tags) > `1`" })
    const [webhook] = config.webhooks
    if (webhook === undefined) throw new Error("the config has a webhook")
    return decide(event(object).event, webhook, makeTable(config, hmac))
  }

  test("is quarantined by a condition, with the place, while others are routed", async () => {
    expect(await decided({ tags: ["a", "b"] })).toMatchObject({ sinks: ["shaped"] })
    expect(await decided({ tags: ["a"] })).toMatchObject({ sinks: [] })
    expect(await decided({ tags: 5 })).toMatchObject({
      sinks: ["_quarantine"],
      event: {
        problem:
          'the expression at "where.jmespath" of the route all fails: length() at character 1 takes a string or an array or an object as argument 1, and got number',
      },
    })
  })

  test("is refused by its key, while others have theirs", async () => {
    const { config } = await loaded({ key: "upper(data.object.id)" })
    const [sink] = config.sinks
    if (sink === undefined) throw new Error("the config has a sink")
    const keyOf = orderKey(sink)
    expect(keyOf(event({ id: "a" }))).toBe("A")
    expect(Rendering.attempt(() => keyOf(event({ id: 5 })))).toMatchObject(
      Result.fail({
        message:
          "the expression at key.jmespath fails: upper() at character 1 takes a string as argument 1, and got number",
      }),
    )
  })
})
