/** Previews of an HTTP sink's requests equal the real requests, except for secrets. */
import { describe, expect, test } from "bun:test"
import { Schema } from "effect"
import * as Jmespath from "../../../src/formats/jmespath/Jmespath.ts"
import { Http } from "../../../src/sinks/http/Http.ts"
import { HttpConfig } from "../../../src/sinks/http/HttpConfig.ts"
import { it } from "../../lib/effect.ts"
import { preview } from "../preview.ts"
import { type Received, serve } from "../receiver.ts"
import { entry, envelope } from "../samples.ts"

const canary = "canary-7f3a"
const http = { url: `https://example.com/${canary}?key=${canary}`, headers: { Authorization: canary } }
const object = JSON.parse(JSON.stringify(envelope(1)))

describe("a preview", () => {
  test("of an HTTP request has its method, its headers and its body", () => {
    expect(preview("http", { ...http, method: "PUT", sign: { secret: canary } })).toEqual({
      method: "PUT",
      headers: {
        "content-type": "application/json",
        "idempotency-key": "evt_1",
        "x-relay-event-id": "evt_1",
        "x-relay-event-type": "appointment.created",
        "x-service-signature": `sha256=${"AB".repeat(32)}`,
        "x-service-webhook-id": "wh_1",
        authorization: "***",
        "x-relay-signature": "***",
      },
      body: object,
    })
  })

  it.live("shows a header made by an expression, with line breaks escaped, and masks a template", function* () {
    yield* Jmespath.load
    const headers = { "X-Id": "{{id}}", "x-shape": { jmespath: 'join(`"\\n"`, [$type, id])' } }
    expect(preview("http", { ...http, headers })).toMatchObject({
      headers: { "x-id": "***", "x-shape": "appointment.created%0Aevt_1" },
    })
  })

  it.live("is the message that is sent", function* () {
    const requests: Array<Received> = []
    const { url } = yield* serve((request, response) => {
      requests.push(request)
      response.writeHead(202).end()
    })
    const sink = yield* Http.open(Schema.decodeUnknownSync(HttpConfig)({ url }))
    yield* sink.send([entry(1)])
    const { headers, body } = preview("http", { url })
    expect(body).toEqual(JSON.parse(Buffer.from(requests[0]?.body ?? []).toString()))
    expect(requests[0]?.headers).toMatchObject(headers as object)
  })
})
