/** Answers of alert services, taken from public reports (`test/reports/sinks.md`). */
import { describe, expect } from "bun:test"
import type { Reason } from "../../../src/sinks/Sink.ts"
import { it } from "../../lib/effect.ts"
import { serve } from "../receiver.ts"
import { entry, reasonOf } from "../samples.ts"
import { openAlert } from "./alertContract.ts"
import { routingKey } from "./pagerduty/pagerdutyService.ts"

type Row = readonly [
  title: string,
  status: number,
  body: object | string,
  tag: Reason["_tag"] | undefined,
  says?: RegExp,
]

const reports: Readonly<Record<string, ReadonlyArray<Row>>> = {
  discord: [
    [
      "a webhook of a forum wants a thread",
      400,
      { message: "Webhooks posted to forum channels must have a thread_name or thread_id", code: 220001 },
      "SinkMisconfigured",
      /"Webhooks posted to forum .*": the channel is a forum; put "\?thread_id=" /,
    ],
    [
      "an error that names only the place of a mistake",
      400,
      { embeds: ["0"] },
      "DeliveryRejected",
      /it says "embeds: 0": Discord refuses the message/,
    ],
  ],
  pagerduty: [
    [
      "the mistakes of an event are listed beside a general message",
      400,
      { status: "invalid event", message: "Event object is invalid", errors: ["'payload.severity' is invalid"] },
      "DeliveryRejected",
      /it says "Event object is invalid: 'payload\.severity' is invalid": PagerDuty refuses the alert/,
    ],
    ["an event is taken with 200", 200, { status: "success", message: "Event processed" }, undefined],
    ["an event is taken with 201", 201, { status: "success", message: "Event processed" }, undefined],
    [
      "a caller that sends too many requests, with the status of a forbidden caller",
      403,
      { error: { message: "Rate Limit Exceeded" } },
      "SinkThrottled",
      /it says "Rate Limit Exceeded"$/,
    ],
    [
      "a caller that is not let in",
      403,
      { message: "Forbidden" },
      "SinkMisconfigured",
      /it says "Forbidden": .*check "routingKey"/,
    ],
  ],
  teams: [
    [
      "a workflow that gets a login beside its signature",
      400,
      {
        error: {
          code: "DirectApiRequestHasMoreThanOneAuthorization",
          message: "The request has SAS authentication scheme, 'HMAC' authorization scheme or internal token scheme.",
        },
      },
      "SinkMisconfigured",
      /takes no login beside its URL; take "authorization" out of "headers"/,
    ],
    [
      "a failure with 200 and without a status",
      200,
      "Webhook message delivery failed with error: Microsoft Teams endpoint returned an error",
      "DeliveryFailed",
      /says that Teams refused the message$/,
    ],
    ["a refusal with 200", 200, "Summary or Text is required.", "DeliveryRejected", /says that Teams refused/],
    ["a number with 200", 200, "1", undefined],
  ],
  slack: [
    [
      "Rocket.Chat does not know the token",
      400,
      { success: false, error: "Invalid integration id or token provided." },
      "SinkMisconfigured",
      /does not know this webhook; make another/,
    ],
    [
      "Mattermost does not find the channel, in the words of any language",
      500,
      { id: "web.incoming_webhook.channel.app_error", message: "Der Kanal konnte nicht gefunden werden" },
      "SinkMisconfigured",
      /"Der Kanal konnte nicht gefunden werden": the webhook's channel is gone/,
    ],
  ],
}

for (const [type, rows] of Object.entries(reports)) {
  describe(`an answer to the ${type} sink, as reported`, () => {
    for (const [title, status, body, tag, says = /^/] of rows) {
      it.live(title, function* () {
        const said = typeof body === "string" ? body : JSON.stringify(body)
        const { url } = yield* serve((_, response) => response.writeHead(status).end(said))
        const config = { url: `${url}/hook`, ...(type === "pagerduty" && { routingKey }) }
        const reason = yield* reasonOf((yield* openAlert(type, config)).send([entry(1)]))
        expect(reason?._tag).toBe(tag)
        expect(reason?.message ?? "").toMatch(says)
      })
    }
  })
}

describe("an alert for PagerDuty", () => {
  it.live("has a summary, even if its template gives none", function* () {
    const summaries: Array<unknown> = []
    const { url } = yield* serve(({ body }, response) => {
      summaries.push(JSON.parse(Buffer.from(body).toString()).payload.summary)
      response.writeHead(202).end('{"status":"success"}')
    })
    const sink = yield* openAlert("pagerduty", { url, routingKey, summary: "{{/data/object/nothing}}" })
    expect(yield* reasonOf(sink.send([entry(1)]))).toBeUndefined()
    expect(summaries).toEqual(["appointment.created"])
  })
})

describe("a wait that Discord asks for", () => {
  it.live("is in milliseconds as a whole number, and in seconds with a point", function* () {
    for (const [wait, retryAfter] of [
      ["43323", 43_323],
      ["64.57", 64_570],
    ] as const) {
      const body = `{"global": false, "message": "You are being rate limited.", "retry_after": ${wait}}`
      const { url } = yield* serve((_, response) => response.writeHead(429, { "retry-after": wait }).end(body))
      const sink = yield* openAlert("discord", { url: `${url}/hook` })
      expect(yield* reasonOf(sink.send([entry(1)]))).toMatchObject({ _tag: "SinkThrottled", retryAfter })
    }
  })
})
