/** An HTTP sink for an alert API. One request opens an alert and another ends it, by the same key. */
import { describe, expect, test } from "bun:test"
import { Effect, Schema } from "effect"
import type { AlertNote, Entry } from "../../../src/event/Event.ts"
import * as Jmespath from "../../../src/formats/jmespath/Jmespath.ts"
import { Http } from "../../../src/sinks/http/Http.ts"
import { HttpConfig } from "../../../src/sinks/http/HttpConfig.ts"
import { it } from "../../lib/effect.ts"
import { type Received, serve } from "../receiver.ts"
import { bytes, entry, envelope, reasonOf } from "../samples.ts"

const event = (sequence: number, type: string, id = "cna_1"): Entry => {
  const { data, ...rest } = envelope(sequence, { id })
  return entry(sequence, { type, body: bytes(JSON.stringify({ ...rest, data: { ...data, type } })) })
}
const failure = (sequence: number) => event(sequence, "connected_account.refresh_failed")
const recovery = (sequence: number) => event(sequence, "connected_account.reconnected")

const key = "connected_account.refresh_failed/acct_1/cna_1"

/**
 * A sink to a server that answers each path with a status (default: 200). `digestKey` is the key of a lane of digests.
 */
const opened = Effect.fnUntraced(function* (
  config: (url: string) => object,
  statuses: Readonly<Record<string, number>> = {},
  digestKey?: string,
) {
  const received: Array<Received> = []
  const { url } = yield* serve((request, response) => {
    received.push(request)
    response.writeHead(statuses[request.url] ?? 200).end()
  })
  const decoded = Schema.decodeUnknownSync(HttpConfig)({ url, format: "template", ...config(url) })
  const sink = yield* Http.open(
    digestKey === undefined ? decoded : (Http.messages?.ofDigests?.(decoded, digestKey) ?? decoded),
  )
  const sent = () =>
    received.map(({ method, url, body }) => [method, url, JSON.parse(Buffer.from(body).toString("utf8"))])
  return { sink, sent }
})

describe("an HTTP sink of an alert API", () => {
  it.live("sends each action by its own method, URL and body, with the key of the failure", function* () {
    yield* Jmespath.load
    const { sink, sent } = yield* opened((url) => ({
      url: `${url}/alerts`,
      trigger: { body: { alias: "{{key}}", message: "{{summary}}", is: "{{action}}" } },
      resolve: {
        url: `${url}/alerts/{{key}}/close`,
        method: "PUT",
        body: { jmespath: "{note: $summary, is: $action, alias: $key}" },
      },
    }))
    for (const one of [failure(1), recovery(2)]) expect(yield* reasonOf(sink.send([one]))).toBeUndefined()
    const summary = "A calendar has lost its access and must be connected again (acct_1)"
    expect(sent()).toEqual([
      ["POST", "/alerts", { alias: key, message: summary, is: "trigger" }],
      ["PUT", `/alerts/${encodeURIComponent(key)}/close`, { note: `Resolved: ${summary}`, is: "resolve", alias: key }],
    ])
  })

  it.live("takes the sink's own keys where an action has none", function* () {
    const { sink, sent } = yield* opened(() => ({ body: { state: "{{action}}", id: "{{key}}" }, resolve: {} }))
    for (const one of [failure(1), recovery(2)]) expect(yield* reasonOf(sink.send([one]))).toBeUndefined()
    expect(sent()).toEqual([
      ["POST", "/", { state: "trigger", id: key }],
      ["POST", "/", { state: "resolve", id: key }],
    ])
  })

  it.live("sends the newest count of an open alert by `update`, and a reminder by `trigger`", function* () {
    const { sink, sent } = yield* opened(
      (url) => ({
        body: ["{{action}}", "{{key}}", "{{summary}}", "{{count}}", "{{first}}", "{{last}}"],
        update: { url: `${url}/alerts/{{key}}`, method: "PATCH" },
        resolve: {},
      }),
      { "/alerts/k": 404 },
    )
    const about = (action: AlertNote["action"], count: number): Entry => {
      const status = action === "resolve" ? "resolved" : "firing"
      return { ...failure(count), alert: { key: "k", action, status, count, first: 0, last: 60_000 * count } }
    }
    const times = (last: number) => ["1970-01-01T00:00:00.000Z", `1970-01-01T00:0${last}:00.000Z`]
    for (const one of [about("trigger", 1), about("update", 2), about("reminder", 3), about("resolve", 4)]) {
      expect(yield* reasonOf(sink.send([one]))).toBeUndefined()
    }
    const summary = "A calendar has lost its access and must be connected again (acct_1)"
    expect(sent()).toEqual([
      ["POST", "/", ["trigger", "k", summary, 1, ...times(1)]],
      // The answer is 404. The service no longer has the alert, so there is nothing to update.
      ["PATCH", "/alerts/k", ["update", "k", `2 × ${summary}`, 2, ...times(2)]],
      ["POST", "/", ["trigger", "k", `Reminder: 3 × ${summary}`, 3, ...times(3)]],
      ["POST", "/", ["resolve", "k", `Resolved: 4 × ${summary}`, 4, ...times(4)]],
    ])
  })

  it.live("has a key by the template of `dedupKey`, whose values can't be taken for several", function* () {
    const { sink, sent } = yield* opened(() => ({
      dedupKey: "{{type}}:{{/data/object/id}}",
      body: "{{key}}",
      resolve: {},
    }))
    for (const type of ["connected_account.refresh_failed", "connected_account.reconnected"]) {
      expect(yield* reasonOf(sink.send([event(1, type, "a/b")]))).toBeUndefined()
    }
    expect(sent().map(([, , body]) => body)).toEqual(Array(2).fill("connected_account.refresh_failed:a%2Fb"))
  })

  it.live("without `resolve` sends a recovery that a route leads there as any event", function* () {
    const { sink, sent } = yield* opened(() => ({ body: ["{{action}}", "{{key}}"] }))
    expect(yield* reasonOf(sink.send([recovery(1)]))).toBeUndefined()
    expect(sent()).toEqual([["POST", "/", ["trigger", "connected_account.reconnected/acct_1/cna_1"]]])
  })

  it.live("sends a digest as one alert by the key of the digest, which its last event may end", function* () {
    const { sink, sent } = yield* opened(
      () => ({ body: ["{{action}}", "{{key}}", "{{count}}"], resolve: {} }),
      {},
      "{{type}}/{{account_id}}",
    )
    expect(yield* reasonOf(sink.send([failure(1), failure(2)]))).toBeUndefined()
    expect(yield* reasonOf(sink.send([failure(3), recovery(4)]))).toBeUndefined()
    const digestKey = "connected_account.refresh_failed/acct_1"
    expect(sent().map(([, , body]) => body)).toEqual([
      ["trigger", digestKey, 2],
      ["resolve", digestKey, 2],
    ])
  })

  it.live("counts a resolve as done if the alert's own address has no alert, and nothing else", function* () {
    const path = `/alerts/${encodeURIComponent(key)}`
    for (const status of [404, 410]) {
      const config = (url: string) => ({ body: {}, resolve: { url: `${url}/alerts/{{key}}` } })
      const { sink } = yield* opened(config, { [path]: status, "/": status })
      expect(yield* reasonOf(sink.send([recovery(1)]))).toBeUndefined()
      expect((yield* reasonOf(sink.send([failure(2)])))?._tag).toBe("SinkMisconfigured")
    }
    const fixed = yield* opened((url) => ({ body: {}, resolve: { url: `${url}/close` } }), { "/close": 404 })
    expect((yield* reasonOf(fixed.sink.send([recovery(1)])))?._tag).toBe("SinkMisconfigured")
    const strict = (url: string) => ({
      body: {},
      resolve: { url: `${url}/alerts/{{key}}`, classify: { "404": "retry" } },
    })
    const { sink } = yield* opened(strict, { [path]: 404 })
    expect((yield* reasonOf(sink.send([recovery(1)])))?._tag).toBe("DeliveryFailed")
  })

  it.live("classifies the answers of each action by its own keys and then by the sink's", function* () {
    const { sink } = yield* opened(
      (url) => ({
        body: {},
        classify: { "409": "reject", "422": "retry" },
        trigger: { classify: { "409": "delivered" } },
        resolve: { url: `${url}/close`, classify: { "400": "delivered" } },
      }),
      { "/": 409, "/close": 409 },
    )
    expect(yield* reasonOf(sink.send([failure(1)]))).toBeUndefined()
    expect((yield* reasonOf(sink.send([recovery(2)])))?._tag).toBe("DeliveryRejected")
  })

  it.live("is previewed by the event's action", function* () {
    const config = Schema.decodeUnknownSync(HttpConfig)({
      url: "https://example.com",
      format: "template",
      body: { open: "{{key}}" },
      resolve: { method: "PATCH", body: { closed: "{{key}}" } },
    })
    expect([failure(1), recovery(2)].flatMap((one) => Http.preview(config, [one]))).toMatchObject([
      { method: "POST", body: { open: key } },
      { method: "PATCH", body: { closed: key } },
    ])
  })
})

describe("the config of an alert API", () => {
  const problemOf = (config: object): string => {
    const exit = Schema.decodeUnknownExit(HttpConfig)({ url: "https://example.com", ...config })
    return exit._tag === "Success" ? "" : String(exit.cause)
  }

  test("needs the format `template`, and a body for each action", () => {
    expect(problemOf({ resolve: { body: {} } })).toContain('need "format": "template"')
    expect(problemOf({ dedupKey: "{{type}}" })).toContain('need "format": "template"')
    expect(problemOf({ format: "template", resolve: { body: {} } })).toContain('needs a "body" to fill in')
    expect(problemOf({ format: "template", trigger: { body: {} }, resolve: {} })).toContain('it needs a "body"')
    expect(problemOf({ format: "template", trigger: { body: {} }, resolve: { body: {} } })).toBe("")
  })
})
