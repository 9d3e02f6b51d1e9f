import { describe, expect } from "bun:test"
import { inspect } from "node:util"
import { Effect, Redacted, Result, Schema } from "effect"
import { changesOf } from "../../../src/config/Config.ts"
import { load } from "../../../src/config/load/Load.ts"
import type { Entry } from "../../../src/event/Event.ts"
import { PagerDutyConfig } from "../../../src/sinks/alerts/pagerduty/PagerDuty.ts"
import { sinkTypes } from "../../../src/sinks/SinkTypes.ts"
import { config, options } from "../../config/fixture.ts"
import { it } from "../../lib/effect.ts"
import { serve } from "../receiver.ts"
import { bytes, entry, envelope, reasonOf } from "../samples.ts"
import { openAlert } from "./alertContract.ts"
import { local } from "./localService.ts"
import { routingKey } from "./pagerduty/pagerdutyService.ts"
import { type Name, names, own, services } from "./services.ts"

describe("an answer", () => {
  it.live("of Discord that asks to wait has the wait in its body, in fractions of a second", function* () {
    const wait = Effect.fnUntraced(function* (body: string, headers = {}) {
      const { url } = yield* serve((_, response) => response.writeHead(429, headers).end(body))
      const reason = yield* reasonOf((yield* openAlert("discord", { url })).send([entry(1)]))
      return reason?._tag === "SinkThrottled" ? reason.retryAfter : reason
    })
    const body = (seconds: number) => `{"message":"…","retry_after":${seconds},"global":true}`
    expect(yield* wait(body(64.57), { "retry-after": "65" })).toBe(64_570)
    expect(yield* wait(body(0.2))).toBe(1_000)
    expect(yield* wait(body(999_999.5))).toBe(3_600_000)
    expect(yield* wait('{"retry_after":"soon"}')).toBe(5_000)
  })

  it.live("of Slack whose ok arrives in pieces is a success", function* () {
    const { url } = yield* serve((_, response) => {
      response.writeHead(200)
      response.write("o")
      response.end("k")
    })
    expect(yield* reasonOf((yield* openAlert("slack", { url })).send([entry(1)]))).toBeUndefined()
  })
})

describe("a batch of events that belong together", () => {
  const failure = (sequence: number, type = "appointment.meeting.create_failed", object = "mtg_1") =>
    entry(sequence, {
      type,
      body: bytes(JSON.stringify({ ...envelope(sequence), data: { type, object: { id: object } } })),
    })

  /** Sends these batches to a service. Returns the bodies that it accepted. */
  const sent = Effect.fnUntraced(function* (
    name: Name,
    batches: ReadonlyArray<ReadonlyArray<Entry>>,
    more: object = {},
    group?: string,
  ) {
    const accepted: Array<string> = []
    const { url } = yield* local(services[name], ({ body }) => accepted.push(Buffer.from(body).toString("utf8")))
    const sink = yield* openAlert(name, { ...own[name], url: `${url}/hook`, ...more }, group)
    for (const batch of batches) expect(yield* reasonOf(sink.send(batch))).toBeUndefined()
    return accepted
  })

  it.live("has a key of the events' shared fields, so that the next digest finds the incident", function* () {
    const batches = [[failure(1), failure(2, undefined, "mtg_2")], [failure(3, undefined, "mtg_3")]]
    const keys = (yield* sent("pagerduty", batches, {}, "{{type}}/{{account_id}}")).map(
      (body) => JSON.parse(body).dedup_key,
    )
    expect(keys).toEqual(Array(2).fill("appointment.meeting.create_failed/acct_1"))
  })

  it.live("that ends with a recovery resolves the incident of the failure, by the same key", function* () {
    const created = (sequence: number) => failure(sequence, "appointment.meeting.created")
    const asked = yield* sent("pagerduty", [[failure(1)], [created(2)], [failure(3), created(4)]], { resolve: true })
    const events = asked.map((body) => JSON.parse(body))
    expect(events.map(({ event_action }) => event_action)).toEqual(["trigger", "resolve", "resolve"])
    expect(new Set(events.map(({ dedup_key }) => dedup_key)).size).toBe(1)
    const [unasked] = yield* sent("pagerduty", [[created(5)]])
    expect(JSON.parse(unasked ?? "").event_action).toBe("trigger")
  })

  it.live("says in words what is over", function* () {
    const [text] = yield* sent("slack", [[failure(1, "connected_account.reconnected", "cal_1")]], { resolve: true })
    expect(JSON.parse(text ?? "").text).toBe(
      "Resolved: A calendar has lost its access and must be connected again (acct_1)",
    )
  })
})

describe("a config", () => {
  const sinks = (type: Name, more: object = {}) => ({
    audit: { type, ...own[type], ...(type === "pagerduty" ? {} : { url: "https://example.com/canary" }), ...more },
  })
  const loaded = (text: string) => load("relay.config.json", { ...options({ "relay.config.json": text }), sinkTypes })
  const findings = (parts: Readonly<Record<string, unknown>>) =>
    Effect.map(Effect.flip(loaded(config(parts))), ({ diagnostics }) =>
      diagnostics.filter(({ severity }) => severity === "error").map(({ key }) => key),
    )

  it.live("warns about a URL that isn't the service's, unless it is on this machine", function* () {
    const urls = {
      slack: "https://hooks.slack.com/services/T0/B0/x",
      discord: "https://discord.com/api/webhooks/0/x",
      teams: "https://north.api.powerplatform.com/workflows/0",
      pagerduty: "https://events.eu.pagerduty.com/v2/enqueue",
    }
    for (const name of ["slack", "discord", "teams", "pagerduty"] as const) {
      const said = (url: string) =>
        Effect.map(loaded(config({ sinks: sinks(name, { url }) })), ({ warnings }) =>
          warnings.map(({ key, message }) => [key, message]),
        )
      const warning = ["sinks.audit.url", "this is not a URL of the service's: it is of another host"]
      expect(yield* said("https://hooks.example.com/services/T0")).toEqual([warning])
      expect(yield* said(urls[name])).toEqual([])
      expect(yield* said("http://127.0.0.1:9/")).toEqual([])
      const path = name === "teams" ? [] : [["sinks.audit.url", "no URL of the service's has this path"]]
      expect(yield* said(new URL("/elsewhere", urls[name]).href)).toEqual(path)
      expect(yield* said("http://127.0.0.1:8080/hooks")).toEqual([
        ["sinks.audit.url", "this is the relay's own address: it would send its events to itself"],
      ])
    }
  })

  it.live("is warned about a connector of Teams, which Microsoft has retired", function* () {
    const url = "https://north.webhook.office.com/webhookb2/0/IncomingWebhook/0/0"
    const { warnings } = yield* loaded(config({ sinks: sinks("teams", { url }) }))
    expect(warnings.map(({ message }) => message)).toEqual(["the service has retired the addresses of this host"])
  })

  it.live("has an incident for each alert, or messages that may be of several alerts", function* () {
    const found = yield* Effect.forEach(names, (name) =>
      Effect.map(loaded(config({ sinks: sinks(name, { alert: {} }) })), (loaded) => [
        name,
        changesOf(loaded.config.sinks[0])?.incidents === true,
      ]),
    )
    expect(Object.fromEntries(found)).toEqual({
      ...{ pagerduty: true, alertmanager: true, slack: false, teams: false, discord: false },
    })
  })

  it.live("needs only the target of its alerts", function* () {
    for (const name of names) yield* loaded(config({ sinks: sinks(name) }))
  })

  it.live("is refused with an invalid placeholder, an empty secret or a missing URL", function* () {
    for (const name of names) {
      const more = { summary: "{{typ}}", details: { Why: "{{/a" } }
      expect(yield* findings({ sinks: sinks(name, more) })).toEqual(["sinks.audit.summary", "sinks.audit.details.Why"])
      if (name !== "pagerduty") {
        expect(yield* findings({ sinks: { audit: { type: name } } })).toEqual(["sinks.audit.url"])
      }
    }
    const wrong = { routingKey: " ", dedupKey: "{{key}}", severity: "fatal" }
    const keys = yield* findings({ sinks: sinks("pagerduty", wrong) })
    expect([...keys].sort()).toEqual(["sinks.audit.dedupKey", "sinks.audit.routingKey", "sinks.audit.severity"])
  })

  it.live("never shows its secrets, right or wrong", function* () {
    for (const name of names) {
      for (const more of [{}, { lisen: 1 }, { classify: { "1": "retry" } }]) {
        const secret = name === "pagerduty" ? { routingKey: "canary", url: "https://example.com/canary" } : {}
        const parts = sinks(name, { ...secret, headers: { authorization: "canary" }, ...more })
        const result = yield* Effect.result(loaded(config({ sinks: parts })))
        const value = Result.isSuccess(result) ? result.success : result.failure
        expect(inspect(value, { depth: 20 }) + JSON.stringify(value)).not.toContain("canary")
      }
    }
  })

  it.live("of digests has a key of the events' shared fields, unless it has its own", function* () {
    const digests = (more: object) =>
      Effect.map(loaded(config({ sinks: sinks("pagerduty", { digest: {}, ...more }) })), (found) =>
        Reflect.get(Object(found.config.sinks[0]?.config), "dedupKey"),
      )
    expect(yield* digests({})).toBe("{{type}}/{{account_id}}")
    expect(yield* digests({ dedupKey: "{{type}}" })).toBe("{{type}}")
  })

  it.live("leads to PagerDuty itself by default", () =>
    Effect.sync(() => {
      const { url } = Schema.decodeUnknownSync(PagerDutyConfig)({ routingKey })
      expect(Redacted.value(url)).toBe("https://events.pagerduty.com/v2/enqueue")
    }),
  )
})
