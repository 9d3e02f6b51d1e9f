import { describe, expect, test } from "bun:test"
import { Duration, Redacted } from "effect"
import { eventTypes, relayEventTypes } from "../../../src/event/EventType.ts"
import { sample } from "../../../src/event/SampleEvent.ts"
import * as Alert from "../../../src/sinks/alerts/Alert.ts"
import * as Alertmanager from "../../../src/sinks/alerts/alertmanager/Alertmanager.ts"
import * as Discord from "../../../src/sinks/alerts/discord/Discord.ts"
import * as PagerDuty from "../../../src/sinks/alerts/pagerduty/PagerDuty.ts"
import * as Slack from "../../../src/sinks/alerts/slack/Slack.ts"
import * as Teams from "../../../src/sinks/alerts/teams/Teams.ts"
import { seeded } from "../../lib/seeded.ts"
import { sample as drawn, tries } from "../../lib/tries.ts"
import { bytes, entry, envelope } from "../samples.ts"
import { hostile, huge } from "./hostile.ts"
import { routingKey } from "./pagerduty/pagerdutyService.ts"
import { names, services } from "./services.ts"

const usual: Alert.Options = { objectId: "{{/data/object/id}}", details: {} }
const failure = "appointment.meeting.create_failed"

const of = (sequence: number, object: unknown, event: Parameters<typeof entry>[1] = {}) =>
  entry(sequence, { type: failure, body: bytes(JSON.stringify(envelope(sequence, object))), ...event })

const alertOf = (object: unknown, options: Partial<Alert.Options> = {}, event: Parameters<typeof entry>[1] = {}) =>
  Alert.compile({ ...usual, ...options })(Alert.groupOf([of(1, object, event)]))

const payloads = (alert: Alert.Alert): Readonly<Record<(typeof names)[number], object>> => ({
  pagerduty: PagerDuty.payload(alert, { routingKey: Redacted.make(routingKey), severity: "error" }),
  slack: Slack.payload(alert),
  teams: Teams.payload(alert),
  discord: Discord.payload(alert),
  alertmanager: Alertmanager.payload(alert, { resolveAfter: Duration.days(1) }, alert.last),
})

/** Each service's objections to its payload of the alert. */
const problems = (alert: Alert.Alert) =>
  Object.fromEntries(names.map((name) => [name, services[name].problems(bytes(JSON.stringify(payloads(alert)[name])))]))
const none = { pagerduty: [], slack: [], teams: [], discord: [], alertmanager: [] }

describe("an alert of one event", () => {
  test("shows what failed and for whom, with ids and the time", () => {
    expect(alertOf({ id: "apt_1" })).toEqual({
      action: "trigger",
      key: `${failure}/acct_1/apt_1`,
      type: failure,
      account: "acct_1",
      webhook: "scheduling",
      labels: {},
      summary: "A meeting could not be created with its provider (acct_1)",
      time: "2026-11-21T08:00:00Z",
      first: Date.UTC(2026, 10, 21, 8, 0, 1),
      last: Date.UTC(2026, 10, 21, 8, 0, 1),
      facts: [
        { name: "Type", value: failure },
        { name: "Account", value: "acct_1" },
        { name: "Object", value: "apt_1" },
        { name: "Event", value: "evt_1" },
        { name: "Time", value: "2026-11-21T08:00:00Z" },
      ],
      samples: [],
    })
  })

  test("contains nothing else of the event unless configured", () => {
    const person = "canary-5772156649"
    const object = {
      id: { name: person },
      first_name: person,
      email: `${person}@example.com`,
      failure: { reason: person },
    }
    expect(JSON.stringify(alertOf(object))).not.toContain(person)
    const { facts } = alertOf(object, { details: { Why: "{{/data/object/failure/reason}}" } })
    expect(facts).toContainEqual({ name: "Why", value: person })
  })

  test("takes its line, its key and its object's id from the configured places", () => {
    const alert = alertOf(
      { meeting: { id: 42 } },
      {
        summary: "{{resource}} of {{account_id}}",
        dedupKey: "{{account_id}}",
        objectId: "{{/data/object/meeting/id}}",
      },
    )
    expect(alert).toMatchObject({ summary: "appointment of acct_1", key: "acct_1" })
    expect(alert.facts).toContainEqual({ name: "Object", value: "42" })
  })

  test("shows an id of more digits than a double has as it is, and makes it another incident than the one beside it", () => {
    const alert = (id: string) =>
      alertOf({}, {}, { body: bytes(JSON.stringify(envelope(1, { id: 0 })).replace('"id":0', `"id":${id}`)) })
    expect(alert("9007199254740993").facts).toContainEqual({ name: "Object", value: "9007199254740993" })
    expect(alert("9007199254740993").key).not.toBe(alert("9007199254740992").key)
  })

  test("is one incident with others of its type and object, and separate without an object", () => {
    const key = (sequence: number, object: unknown) => Alert.compile(usual)(Alert.groupOf([of(sequence, object)])).key
    expect(key(1, { id: "apt_1" })).toBe(key(2, { id: "apt_1" }))
    expect(key(1, { id: "apt_1" })).not.toBe(key(1, { id: "apt_2" }))
    expect(key(1, {})).not.toBe(key(2, {}))
  })

  test("is another incident where values differ that are joined alike", () => {
    for (const dedupKey of [undefined, "{{account_id}}/{{/data/object/id}}"]) {
      const key = (accountId: string, id: string) => {
        const body = bytes(JSON.stringify({ ...envelope(1, { id }), account_id: accountId }))
        return alertOf({}, dedupKey === undefined ? {} : { dedupKey }, { accountId, body }).key
      }
      expect(key("a/b", "c")).not.toBe(key("a", "b/c"))
      expect(key("a%2Fb", "c")).not.toBe(key("a/b", "c"))
      expect(key("a", "b")).toBe(key("a", "b"))
    }
  })

  test("leaves out empty facts", () => {
    const { facts } = alertOf({ id: "" }, { details: { a: "{{/nowhere}}", b: " \r\n\0 ", c: "{{/data/object}}" } })
    expect(facts.map(({ name }) => name)).toEqual(["Type", "Account", "c", "Event", "Time"])
  })

  const ofOwn = (type: string, resolve = false) => {
    const body = bytes(JSON.stringify(sample(type, 0, { isFixed: true })))
    const group = Alert.groupOf([entry(1, { type, accountId: "", webhook: "relay", body })], resolve)
    return Alert.compile({ ...usual, resolve })(group)
  }

  test("of a lane that delivers again resolves the alert of its pause", () => {
    const key = "relay.lane_paused/sample"
    expect(ofOwn("relay.lane_paused", true)).toMatchObject({ action: "trigger", key })
    const summary = "Resolved: The sink sample does not deliver"
    expect(ofOwn("relay.lane_resumed", true)).toMatchObject({ action: "resolve", key, summary })
    expect(ofOwn("relay.lane_resumed")).toMatchObject({ action: "trigger", key: "relay.lane_resumed/sample" })
  })

  test("of the relay itself shows its whole content, as one incident per sink", () => {
    const dead = ofOwn("relay.dead_letter")
    expect(dead).toMatchObject({ summary: "The sink sample has new dead letters", key: "relay.dead_letter/sample" })
    expect(dead.facts.map(({ name }) => name)).toContain("reason")
    for (const type of relayEventTypes) expect(ofOwn(type).summary).not.toContain(type)
  })

  test("has a line for every type, in words for those that fail", () => {
    for (const type of eventTypes) {
      const { summary } = alertOf({ id: "x" }, {}, { type })
      expect(summary).toMatch(type.endsWith("_failed") ? /^A .* \(acct_1\)$/ : `${type} (acct_1)`)
    }
  })

  test("of a body that isn't an envelope is an alert too", () => {
    const alert = alertOf({}, {}, { id: "", type: "", accountId: "", body: Uint8Array.of(0xff) })
    expect(alert.summary).toBe("An event without an envelope")
    expect(problems(alert)).toEqual(none)
  })
})

describe("an alert of a group", () => {
  const group: Alert.Group = {
    action: "trigger",
    samples: [of(1, { id: "apt_1" }), of(2, { id: "apt_2" })],
    count: 1_234,
    first: Date.UTC(2026, 10, 21, 8),
    last: Date.UTC(2026, 10, 21, 9),
  }

  test("has the count, the first and last time, the shared facts, and the facts of each sample", () => {
    const { summary, facts, samples } = Alert.compile(usual)(group)
    expect(summary).toBe("1234 × A meeting could not be created with its provider (acct_1)")
    expect(facts).toEqual([
      { name: "Type", value: failure },
      { name: "Account", value: "acct_1" },
      { name: "Events", value: "1234" },
      { name: "First", value: "2026-11-21T08:00:00.000Z" },
      { name: "Last", value: "2026-11-21T09:00:00.000Z" },
    ])
    expect(samples.map(({ value }) => value)).toEqual(["Object apt_1, Event evt_1", "Object apt_2, Event evt_2"])
  })

  test("names no account or type that not all of them have", () => {
    const samples = [of(1, { id: "a" }), of(2, { id: "a" }, { accountId: "acct_2", type: "block.created" })]
    const alert = Alert.compile(usual)({ ...group, samples })
    expect(alert).toMatchObject({ account: "", type: "", summary: "1234 events, the last: block.created" })
    expect(problems(alert)).toEqual(none)
  })

  test("has the key that it is given", () => {
    expect(Alert.compile(usual)({ ...group, key: "by type" }).key).toBe("by type")
  })

  test("of several messages has the newest of each alert, and the key and the state only of a single alert", () => {
    const about = (sequence: number, key: string, action: "trigger" | "reminder" | "resolve", count: number) => {
      const note = { key, action, status: "firing", count, first: sequence * 1_000, last: sequence * 2_000 } as const
      return { ...of(sequence, { id: key }), alert: note }
    }
    const [one, two, three] = [about(1, "a", "trigger", 2), about(2, "b", "trigger", 3), about(3, "a", "reminder", 4)]
    const several = Alert.groupOf([one, two, three])
    expect(several).toEqual({ action: "trigger", samples: [two, three], count: 7, first: 2_000, last: 6_000 })
    expect(Alert.compile(usual)(several).summary).toStartWith("7 × ")
    expect(Alert.groupOf([one, about(4, "a", "resolve", 5)], true)).toMatchObject({
      ...{ action: "resolve", key: "a", count: 5, samples: [{ sequence: 4 }], state: { count: 5 } },
    })
    expect(Alert.groupOf([three, about(5, "b", "reminder", 1)]).isReminder).toBe(true)
  })

  test("of a policy has the count and the times of its failures, and says that it reminds", () => {
    const note = { key: "refresh_failed/acct_1", status: "firing", count: 7, first: 1_000, last: 61_000 } as const
    const about = (action: "trigger" | "reminder" | "resolve") =>
      Alert.compile(usual)(Alert.groupOf([{ ...of(9, { id: "ca_1" }), alert: { ...note, action } }], false))
    expect(about("reminder")).toMatchObject({ key: note.key, first: 1_000, last: 61_000, action: "trigger" })
    expect(about("reminder").facts).toContainEqual({ name: "Last", value: "1970-01-01T00:01:01.000Z" })
    const { summary } = about("trigger")
    expect(summary).toStartWith("7 × ")
    expect([about("reminder").summary, about("resolve").summary]).toEqual([
      `Reminder: ${summary}`,
      `Resolved: ${summary}`,
    ])
    expect(about("resolve").action).toBe("resolve")
  })

  test("resolves what it triggered: by its key at PagerDuty, and in words at other services", () => {
    const triggered = payloads(Alert.compile(usual)(group))
    const alert = Alert.compile(usual)({ ...group, action: "resolve" })
    const resolved = payloads(alert)
    const { dedup_key } = triggered.pagerduty as { readonly dedup_key: string }
    expect(resolved.pagerduty).toEqual({ routing_key: routingKey, event_action: "resolve", dedup_key })
    for (const name of ["slack", "teams", "discord"] as const)
      expect(JSON.stringify(resolved[name])).toContain("Resolved")
    expect(problems(alert)).toEqual(none)
  })
})

/** Checking megabytes character by character takes a second or two, and more on a busy machine. */
const slow = 60_000

describe("a payload", () => {
  test(
    "is valid for its service whatever an event holds, alone and in a group",
    () => {
      const random = seeded(11)
      for (let round = 0; round < tries(50); round++) {
        const text = () => hostile(random)
        const details = Object.fromEntries(Array.from({ length: round % 30 }, (_, n) => [`${text()}${n}`, text()]))
        const alertOf = Alert.compile({
          summary: "{{/data/object/summary}}",
          dedupKey: "{{/data/object/key}}",
          objectId: "{{/data/object/id}}",
          details: Object.fromEntries(Object.keys(details).map((name, n) => [name, `{{/data/object/details/${n}}}`])),
        })
        const entries = Array.from({ length: 1 + Math.floor(random() * 8) }, (_, n) =>
          of(
            n,
            { id: text(), summary: text(), key: text(), details: Object.values(details) },
            { id: text(), type: text(), accountId: text(), webhook: text() },
          ),
        )
        expect(problems(alertOf(Alert.groupOf([entries[0] ?? of(1, {})])))).toEqual(none)
        const group = { samples: entries, count: entries.length + 1, first: 0, last: 1 }
        expect(problems(alertOf({ action: round % 2 ? "trigger" : "resolve", ...group }))).toEqual(none)
      }
    },
    slow,
  )

  test(
    "is valid for its service where every text is 2 MB",
    () => {
      for (const text of drawn(huge)) {
        const alert = alertOf(
          { id: text, why: text },
          {
            summary: "{{/data/object/why}}",
            dedupKey: "{{/data/object/why}}",
            details: { Why: "{{/data/object/why}}" },
          },
          { type: text, accountId: text, id: text, webhook: text },
        )
        expect(problems(alert)).toEqual(none)
      }
    },
    slow,
  )

  test(
    "is valid for its service where there is too much of everything",
    () => {
      for (const character of drawn(["漢", "<", "\\", "😀"])) {
        const names = Array.from({ length: 120 }, (_, n) => `${n}${character.repeat(200)}`)
        const details = Object.fromEntries(names.map((name) => [name, "{{/data/object/why}}"]))
        const alertOf = Alert.compile({ ...usual, summary: "{{/data/object/why}}", details })
        const samples = Array.from({ length: 12 }, (_, n) =>
          of(n, { id: `${n}`, why: `${n}${character.repeat(9_000)}` }),
        )
        const group = { action: "trigger", samples, count: 60, first: 0, last: 0 } as const
        expect(problems(alertOf(group))).toEqual(none)
        expect(problems(alertOf(Alert.groupOf([of(1, { why: character.repeat(9_000) })])))).toEqual(none)
      }
    },
    slow,
  )

  test("never mentions anybody", () => {
    const alert = alertOf({ id: "x" }, { summary: "<!channel> @everyone <@U1> & <@&1>", details: { a: "*b* [c](d)" } })
    const { slack, discord } = payloads(alert)
    expect(slack).toMatchObject({ text: "&lt;!channel&gt; @everyone &lt;@U1&gt; &amp; &lt;@&amp;1&gt;", mrkdwn: false })
    expect(discord).toMatchObject({
      content: "\\<!channel\\> \\@everyone \\<\\@U1\\> & \\<\\@&1\\>",
      allowed_mentions: { parse: [] },
      embeds: [{ fields: expect.arrayContaining([{ name: "a", value: "\\*b\\* \\[c\\]\\(d\\)", inline: true }]) }],
    })
  })
})

describe("a key of PagerDuty", () => {
  test("that fits stays readable", () => {
    expect(Alert.shortKey("x".repeat(255))).toBe("x".repeat(255))
  })

  test("that is too long, blank or not clean is hashed, and different ones stay different", () => {
    const random = seeded(12)
    const keys = [...new Set(Array.from({ length: 500 }, () => hostile(random))), "x".repeat(256), "x".repeat(257)]
    const hashed = keys.map(Alert.shortKey)
    // UTF-8 encodes every lone surrogate as the same character, so keys that differ only there have one hash.
    expect(new Set(hashed).size).toBe(new Set(keys.map((key) => key.toWellFormed())).size)
    expect(hashed.every((key) => key.length > 0 && key.length <= 255)).toBe(true)
    expect(Alert.shortKey("x".repeat(256))).toBe(Alert.shortKey("x".repeat(256)))
  })
})
