import { describe, expect } from "bun:test"
import { inspect } from "node:util"
import { Effect, Fiber, Redacted, Result, Schema } from "effect"
import { load } from "../../../src/config/load/Load.ts"
import type { Entry } from "../../../src/event/Entry.ts"
import { PagerDutyConfig } from "../../../src/sinks/alerts/pagerduty/PagerDuty.ts"
import type { Reason } from "../../../src/sinks/Sink.ts"
import { sinkTypes } from "../../../src/sinks/Sinks.ts"
import { config, options } from "../../config/fixture.ts"
import { it } from "../../lib/effect.ts"
import { type Handler, type Received, serve } from "../receiver.ts"
import { bytes, entry, envelope, reasonOf } from "../samples.ts"
import { hostiles } from "./hostile.ts"
import { local, type Name, names, own, routingKey } from "./services.ts"

const open = Effect.fnUntraced(function* (name: Name, url: string, more: object = {}, group?: string) {
  const type = sinkTypes[name]
  if (type === undefined) throw new Error(`there is no sink type ${name}`)
  return yield* type.open(name, Schema.decodeUnknownSync(type.config)({ ...own[name], url, ...more }), group)
})

/** What becomes of an alert that is answered like this. */
const answered = Effect.fnUntraced(function* (name: Name, handler: Handler, more: object = {}) {
  const { url } = yield* serve(handler)
  return yield* reasonOf((yield* open(name, `${url}/hook`, more)).send([entry(1)]))
})

type Answer = readonly [status: number, body: string, headers?: Readonly<Record<string, string>>]
const say =
  ([status, body, headers = {}]: Answer): Handler =>
  (_, response) =>
    response.writeHead(status, headers).end(body)

/** The documented answers of each service, and what each means to the lane. */
const documented: Readonly<Record<Name, ReadonlyArray<readonly [Answer, Reason["_tag"] | undefined]>>> = {
  pagerduty: [
    [[202, '{"status":"success"}'], undefined],
    [[200, "<html>welcome to the wifi</html>"], "SinkMisconfigured"],
    [[400, '{"status":"invalid event","errors":["\'payload.summary\' is missing or blank"]}'], "DeliveryRejected"],
    [[400, '{"errors":["Length of \'routing_key\' is incorrect (should be 32 characters)"]}'], "SinkMisconfigured"],
    [[413, ""], "DeliveryRejected"],
    [[429, ""], "SinkThrottled"],
    [[500, ""], "DeliveryFailed"],
    [[503, ""], "DeliveryFailed"],
  ],
  slack: [
    [[200, "ok"], undefined],
    [[200, "ok\n"], undefined],
    [[200, "invalid_payload"], "DeliveryRejected"],
    [[200, "no_service"], "SinkMisconfigured"],
    [[200, "<html>welcome to the wifi</html>"], "DeliveryFailed"],
    [[200, ""], "DeliveryFailed"],
    [[204, ""], "DeliveryFailed"],
    [[400, "invalid_payload"], "DeliveryRejected"],
    [[400, "invalid_blocks"], "DeliveryRejected"],
    [[400, "no_text"], "DeliveryRejected"],
    [[400, "user_not_found"], "SinkMisconfigured"],
    [[403, "action_prohibited"], "SinkMisconfigured"],
    [[403, "invalid_token"], "SinkMisconfigured"],
    [[404, "channel_not_found"], "SinkMisconfigured"],
    [[404, "no_service"], "SinkMisconfigured"],
    [[404, "no_team"], "SinkMisconfigured"],
    [[410, "channel_is_archived"], "SinkMisconfigured"],
    [[429, "rate_limited", { "retry-after": "30" }], "SinkThrottled"],
    [[500, "rollup_error"], "DeliveryFailed"],
    [[400, "something new"], "DeliveryRejected"],
  ],
  teams: [
    [[202, ""], undefined],
    [[400, '{"error":{"code":"TriggerInputSchemaMismatch"}}'], "DeliveryRejected"],
    [[400, '{"error":{"code":"WorkflowTriggerIsNotEnabled"}}'], "SinkMisconfigured"],
    [[401, '{"error":{"code":"DirectApiAuthorizationRequired"}}'], "SinkMisconfigured"],
    [[404, '{"error":{"code":"WorkflowNotFound"}}'], "SinkMisconfigured"],
    [[413, ""], "DeliveryRejected"],
    [[429, "", { "retry-after": "30" }], "SinkThrottled"],
    [[502, ""], "DeliveryFailed"],
  ],
  discord: [
    [[204, ""], undefined],
    [[200, '{"id":"1"}'], undefined],
    [[400, '{"code":50006,"message":"Cannot send an empty message"}'], "DeliveryRejected"],
    [[401, '{"code":50027,"message":"Invalid Webhook Token"}'], "SinkMisconfigured"],
    [[404, '{"code":10015,"message":"Unknown Webhook"}'], "SinkMisconfigured"],
    [[429, '{"message":"You are being rate limited.","retry_after":0.4,"global":false}'], "SinkThrottled"],
    [[500, ""], "DeliveryFailed"],
  ],
}

describe("an answer of", () => {
  for (const name of names) {
    it.live(`${name} means what its documentation says`, () =>
      Effect.gen(function* () {
        const found: Array<readonly [Answer, Reason["_tag"] | undefined]> = []
        for (const [answer] of documented[name]) found.push([answer, (yield* answered(name, say(answer)))?._tag])
        expect(found).toEqual([...documented[name]])
      }),
    )
  }

  it.live("a service that asks to wait is heard, in the header or in the body", () =>
    Effect.gen(function* () {
      const wait = Effect.fnUntraced(function* (name: Name, answer: Answer) {
        const reason = yield* answered(name, say(answer))
        return reason?._tag === "SinkThrottled" ? reason.retryAfter : reason
      })
      for (const name of names) expect(yield* wait(name, [429, "", { "retry-after": "30" }])).toBe(30_000)
      const body = (seconds: number) => `{"message":"…","retry_after":${seconds},"global":true}`
      expect(yield* wait("discord", [429, body(64.57), { "retry-after": "65" }])).toBe(64_570)
      expect(yield* wait("discord", [429, body(0.2)])).toBe(1_000)
      expect(yield* wait("discord", [429, body(999_999)])).toBe(3_600_000)
      expect(yield* wait("discord", [429, '{"retry_after":"soon"}'])).toBe(5_000)
    }),
  )

  it.live("any service means what `classify` says first", () =>
    Effect.gen(function* () {
      for (const name of names) {
        const reason = yield* answered(name, say([404, "no_service"]), { classify: { "404": "retry" } })
        expect(reason?._tag).toBe("DeliveryFailed")
      }
    }),
  )

  it.live("any service is never repeated: it may hold what was sent", () =>
    Effect.gen(function* () {
      for (const name of names) {
        for (const status of [200, 302, 400, 401, 404, 429, 500]) {
          const reason = yield* answered(name, say([status, "canary routing_key canary"]))
          expect(reason?.message ?? "").not.toContain("canary")
        }
      }
    }),
  )
})

describe("a service that", () => {
  for (const name of names) {
    it.live(`is ${name} and resets the connection is not reached: the event is innocent`, () =>
      Effect.gen(function* () {
        const reason = yield* answered(name, (_, __, raw) => raw.socket.destroy())
        expect(reason).toMatchObject({ _tag: "SinkUnavailable" })
      }),
    )

    it.live(`is ${name} and slow is given up when the lane gives up, and its connection is closed`, () =>
      Effect.gen(function* () {
        let begun = () => {}
        const hasBegun = new Promise<void>((resolve) => {
          begun = resolve
        })
        let closed = () => {}
        const hasClosed = new Promise<void>((resolve) => {
          closed = resolve
        })
        const { url } = yield* serve((_, __, raw) => {
          raw.socket.on("close", () => closed())
          begun()
        })
        const sink = yield* open(name, url)
        const sending = yield* Effect.forkChild(sink.send([entry(1)]), { startImmediately: true })
        yield* Effect.promise(() => hasBegun)
        yield* Fiber.interrupt(sending)
        yield* Effect.promise(() => hasClosed)
      }),
    )
  }

  it.live("says its ok in pieces has said it", () =>
    Effect.gen(function* () {
      const reason = yield* answered("slack", (_, response) => {
        response.writeHead(200)
        response.write("o")
        response.end("k")
      })
      expect(reason).toBeUndefined()
    }),
  )
})

describe("an alert", () => {
  for (const name of names) {
    it.live(`is what ${name} takes, whatever the event and the headers hold`, () =>
      Effect.gen(function* () {
        const accepted: Array<Received> = []
        const { url } = yield* local(name, (request) => accepted.push(request))
        const text = "{{/data/object/text}}"
        const sink = yield* open(name, url, {
          summary: text,
          objectId: text,
          details: { Why: text },
          headers: { "x-why": text },
        })
        // Longer ones would only find the end of what a server reads of headers.
        const all = ["plain\r\nx-evil: 1", ...hostiles(20).map((text) => text.slice(0, 200))]
        for (const [index, text] of all.entries()) {
          const event = { id: text, type: text, body: bytes(JSON.stringify(envelope(index, { text }))) }
          expect(yield* reasonOf(sink.send([entry(index, event)]))).toBeUndefined()
        }
        expect(accepted).toHaveLength(all.length)
        expect(accepted.filter(({ headers }) => "x-evil" in headers)).toEqual([])
        expect(accepted[0]?.headers["x-why"]).toBe("plain%0D%0Ax-evil: 1")
      }),
    )
  }
})

describe("a batch of events that belong together", () => {
  const failure = (sequence: number, type = "appointment.meeting.create_failed", object = "mtg_1") =>
    entry(sequence, {
      type,
      body: bytes(JSON.stringify({ ...envelope(sequence), data: { type, object: { id: object } } })),
    })

  /** The bodies that a service was sent for these batches. */
  const sent = Effect.fnUntraced(function* (
    name: Name,
    batches: ReadonlyArray<ReadonlyArray<Entry>>,
    more: object = {},
    group?: string,
  ) {
    const accepted: Array<string> = []
    const { url } = yield* local(name, ({ body }) => accepted.push(Buffer.from(body).toString("utf8")))
    const sink = yield* open(name, `${url}/hook`, more, group)
    for (const batch of batches) expect(yield* reasonOf(sink.send(batch))).toBeUndefined()
    return accepted
  })

  for (const name of names) {
    it.live(`is one valid message to ${name}, with their number`, () =>
      Effect.gen(function* () {
        const many = Array.from({ length: 1_000 }, (_, index) => failure(index + 1))
        const [text = "", ...others] = yield* sent(name, [many], {}, "{{type}}/{{account_id}}")
        expect(others).toEqual([])
        expect(text).toContain("1000 × ")
      }),
    )
  }

  it.live("has the key of what they have in common, so that the next digest finds the incident", () =>
    Effect.gen(function* () {
      const batches = [[failure(1), failure(2, undefined, "mtg_2")], [failure(3, undefined, "mtg_3")]]
      const keys = (yield* sent("pagerduty", batches, {}, "{{type}}/{{account_id}}")).map(
        (body) => JSON.parse(body).dedup_key,
      )
      expect(keys).toEqual(Array(2).fill("appointment.meeting.create_failed/acct_1"))
    }),
  )

  it.live("that ends with a recovery resolves what the failure opened, by the same key", () =>
    Effect.gen(function* () {
      const created = (sequence: number) => failure(sequence, "appointment.meeting.created")
      const asked = yield* sent("pagerduty", [[failure(1)], [created(2)], [failure(3), created(4)]], { resolve: true })
      const events = asked.map((body) => JSON.parse(body))
      expect(events.map(({ event_action }) => event_action)).toEqual(["trigger", "resolve", "resolve"])
      expect(new Set(events.map(({ dedup_key }) => dedup_key)).size).toBe(1)
      const [unasked] = yield* sent("pagerduty", [[created(5)]])
      expect(JSON.parse(unasked ?? "").event_action).toBe("trigger")
    }),
  )

  it.live("says in words what is over", () =>
    Effect.gen(function* () {
      const [text] = yield* sent("slack", [[failure(1, "connected_account.reconnected", "cal_1")]], { resolve: true })
      expect(JSON.parse(text ?? "").text).toBe(
        "Resolved: A calendar has lost its access and must be connected again (acct_1)",
      )
    }),
  )
})

describe("a config", () => {
  const sinks = (type: Name, more: object = {}) => ({
    audit: { type, ...own[type], ...(type === "pagerduty" ? {} : { url: "https://example.com/canary" }), ...more },
  })
  const loaded = (text: string) => load("relay.config.json", { ...options({ "relay.config.json": text }), sinkTypes })
  const findings = (parts: Readonly<Record<string, unknown>>) =>
    Effect.map(Effect.flip(loaded(config(parts))), ({ diagnostics }) => diagnostics.map(({ key }) => key))

  it.live("needs nothing but where an alert goes", () =>
    Effect.gen(function* () {
      for (const name of names) yield* loaded(config({ sinks: sinks(name) }))
    }),
  )

  it.live("is refused where a placeholder is none, a secret is empty or a URL is missing", () =>
    Effect.gen(function* () {
      for (const name of names) {
        const more = { summary: "{{typ}}", details: { Why: "{{/a" } }
        expect(yield* findings({ sinks: sinks(name, more) })).toEqual([
          "sinks.audit.summary",
          "sinks.audit.details.Why",
        ])
        if (name !== "pagerduty") {
          expect(yield* findings({ sinks: { audit: { type: name } } })).toEqual(["sinks.audit.url"])
        }
      }
      const wrong = { routingKey: " ", dedupKey: "{{key}}", severity: "fatal" }
      const keys = yield* findings({ sinks: sinks("pagerduty", wrong) })
      expect([...keys].sort()).toEqual(["sinks.audit.dedupKey", "sinks.audit.routingKey", "sinks.audit.severity"])
    }),
  )

  it.live("never shows its secrets, right or wrong", () =>
    Effect.gen(function* () {
      for (const name of names) {
        for (const more of [{}, { lisen: 1 }, { classify: { "1": "retry" } }]) {
          const secret = name === "pagerduty" ? { routingKey: "canary", url: "https://example.com/canary" } : {}
          const parts = sinks(name, { ...secret, headers: { authorization: "canary" }, ...more })
          const result = yield* Effect.result(loaded(config({ sinks: parts })))
          const value = Result.isSuccess(result) ? result.success : result.failure
          expect(inspect(value, { depth: 20 }) + JSON.stringify(value)).not.toContain("canary")
        }
      }
    }),
  )

  it.live("leads to PagerDuty itself unless it says otherwise", () =>
    Effect.sync(() => {
      const { url } = Schema.decodeUnknownSync(PagerDutyConfig)({ routingKey })
      expect(Redacted.value(url)).toBe("https://events.pagerduty.com/v2/enqueue")
    }),
  )
})
