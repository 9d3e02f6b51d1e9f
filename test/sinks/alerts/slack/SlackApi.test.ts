/** Slack by a bot's token: the sink edits an alert's message, and adds details to its thread. */
import { describe, expect, test } from "bun:test"
import { Duration, Effect, Schema } from "effect"
import type { AlertNote, Entry } from "../../../../src/event/Event.ts"
import { apiMeaning, Slack, SlackConfig } from "../../../../src/sinks/alerts/slack/Slack.ts"
import type { Reason } from "../../../../src/sinks/Sink.ts"
import { append, firingAtOnce, lanesOf, spec } from "../../../delivery/fixture.ts"
import * as MemoryJournal from "../../../journal/MemoryJournal.ts"
import { it } from "../../../lib/effect.ts"
import { entry, reasonOf } from "../../samples.ts"
import { botToken, type FakeSlack, fakeSlack, limited } from "./fakeSlack.ts"

const failure = "connected_account.refresh_failed"
const lost = "A calendar has lost its access and must be connected again (acct_1)"

const configOf = (slack: FakeSlack, more: object = {}) =>
  Schema.decodeUnknownSync(SlackConfig)({ token: botToken, channel: "alerts", api: slack.api, resolve: true, ...more })

const opened = Effect.fnUntraced(function* (more: object = {}) {
  const slack = yield* fakeSlack
  const sink = yield* Slack.open(configOf(slack, more))
  let sequence = 0
  /** Sends a message about an alert. Returns the reference, or the reason of a failure. */
  const tell = (action: AlertNote["action"], count: number, reference?: string, status?: AlertNote["status"]) => {
    sequence += 1
    const note: AlertNote = {
      ...{ key: "acct_1", action, count, first: 0, last: sequence * 1_000 },
      status: status ?? (action === "resolve" ? "resolved" : "firing"),
      ...(reference !== undefined && { reference }),
    }
    const one: Entry = { ...entry(sequence, { type: failure }), alert: note }
    return Effect.match(sink.send([one]), {
      onSuccess: ({ reference }): { readonly reference?: string | undefined; readonly reason?: Reason } => ({
        reference,
      }),
      onFailure: ({ reason }) => ({ reference: reason.reference, reason }),
    })
  }
  return { slack, sink, tell }
})

describe("Slack by token", () => {
  it.live(
    "changes the message of an alert, with the details in its thread and the reminder in the channel too",
    function* () {
      const { slack, tell } = yield* opened()
      const { reference } = yield* tell("trigger", 1)
      expect(reference).toBe("C1 1700000000.000001")
      expect(slack.shown).toEqual([`${lost} (1 replies)`])
      for (const [action, count, shown] of [
        ["update", 5, `5 × ${lost} (2 replies)`],
        ["reminder", 7, `7 × ${lost} (3 replies)`],
        ["resolve", 7, `Resolved: 7 × ${lost} (4 replies)`],
      ] as const) {
        expect(yield* tell(action, count, reference)).toEqual({ reference })
        expect(slack.shown[0]).toBe(shown)
      }
      const [message, reminder, ...others] = slack.inChannel
      expect([message?.edits, reminder?.text, others]).toEqual([3, `Reminder: 7 × ${lost}`, []])
      expect(message?.blocks).toContain("State\\nResolved")
      expect(message?.blocks).toContain("Failures\\n7")
      const [details] = slack.repliesTo(message?.ts ?? "")
      expect(details?.blocks).toContain("Account\\nacct_1")
      expect(message?.blocks).not.toContain("Account\\n")
    },
  )

  it.live("says that an alert is acknowledged", function* () {
    const { slack, tell } = yield* opened()
    const { reference } = yield* tell("trigger", 2)
    yield* tell("update", 2, reference, "acknowledged")
    expect(slack.shown).toEqual([`Acknowledged: 2 × ${lost} (2 replies)`])
    expect(slack.inChannel[0]?.blocks).toContain("State\\nAcknowledged")
  })

  it.live("posts another message if the one to change is gone, and answers in the thread of that one", function* () {
    const { slack, tell } = yield* opened()
    const { reference } = yield* tell("trigger", 1)
    slack.messages.clear()
    const resolved = yield* tell("resolve", 1, reference)
    expect(resolved.reference).toBe("C1 1700000000.000003")
    expect(slack.shown).toEqual([`Resolved: ${lost} (1 replies)`])
    for (const error of ["cant_update_message", "channel_not_found"]) {
      slack.planned.push(["chat.update", error])
      expect((yield* tell("update", 1, reference)).reference).not.toBe(reference)
    }
  })

  it.live(
    "answers a message that can't be changed any more in its thread, and a recovery in the channel too",
    function* () {
      const { slack, tell } = yield* opened()
      const { reference } = yield* tell("trigger", 1)
      for (const [action, inChannel] of [
        ["update", 1],
        ["resolve", 2],
      ] as const) {
        slack.planned.push(["chat.update", "edit_window_closed"])
        expect(yield* tell(action, 3, reference)).toEqual({ reference })
        expect(slack.inChannel).toHaveLength(inChannel)
      }
    },
  )

  it.live("keeps the message if its thread can't be written now, and completes it with the next attempt", function* () {
    const { slack, tell } = yield* opened()
    slack.planned.push(["chat.postMessage", "ok"], ["chat.postMessage", limited(30)])
    const { reference, reason } = yield* tell("trigger", 1)
    expect(reason).toMatchObject({ _tag: "SinkThrottled", retryAfter: 30_000 })
    expect(reference).toBe("C1 1700000000.000001")
    expect(yield* tell("trigger", 1, reference)).toEqual({ reference })
    expect(slack.shown).toEqual([`${lost} (1 replies)`])
  })

  it.live("does without a thread where there can't be any", function* () {
    const { slack, tell } = yield* opened()
    slack.planned.push(["chat.postMessage", "ok"], ["chat.postMessage", "restricted_action_non_threadable_channel"])
    expect(yield* tell("trigger", 1)).toEqual({ reference: "C1 1700000000.000001" })
    expect(slack.shown).toEqual([`${lost} (0 replies)`])
  })

  it.live("sends an event without a policy of alerts as one message with its details", function* () {
    const { slack, sink } = yield* opened({ resolve: false })
    expect(yield* reasonOf(sink.send([entry(1, { type: failure })]))).toBeUndefined()
    expect(slack.calls).toEqual(["chat.postMessage: ok"])
    expect(slack.inChannel[0]?.blocks).toContain("Account\\nacct_1")
  })

  it.live("checks the token without a message", function* () {
    const { slack, sink } = yield* opened()
    expect(yield* Effect.exit(sink.check)).toMatchObject({ _tag: "Success" })
    slack.planned.push(["auth.test", "token_revoked"])
    const error = yield* Effect.flip(sink.check)
    expect(error.reason._tag).toBe("SinkMisconfigured")
    expect(error.message).toMatch(/auth\.test at http.* answered 200; it says "token_revoked": .*"token"/)
    expect(slack.messages.size).toBe(0)
  })

  it.live("names the cause in Slack's words, and never the token", function* () {
    const { slack, tell } = yield* opened()
    for (const [error, tag, says] of [
      ["invalid_auth", "SinkMisconfigured", /"invalid_auth": .*"token"/],
      ["token_revoked", "SinkMisconfigured", /"token_revoked": .*install the app again/],
      ["missing_scope", "SinkMisconfigured", /chat:write/],
      ["channel_not_found", "SinkMisconfigured", /"channel_not_found": .*"channel"/],
      ["not_in_channel", "SinkMisconfigured", /invite/],
      ["is_archived", "SinkMisconfigured", /archived/],
      ["restricted_action", "SinkMisconfigured", /administrator/],
      ["ratelimited", "SinkThrottled", /too many messages/],
      ["internal_error", "DeliveryFailed", /"internal_error"/],
      ["msg_too_long", "DeliveryRejected", /too long/],
      ["invalid_blocks", "DeliveryRejected", /as invalid/],
      ["something_new", "DeliveryRejected", /refuses the message/],
    ] as const) {
      slack.planned.push(["chat.postMessage", error])
      const { reason } = yield* tell("trigger", 1)
      expect([error, reason?._tag, says.test(reason?.message ?? "")]).toEqual([error, tag, true])
      expect(reason?.message).not.toContain(botToken)
    }
    slack.planned.push(["chat.postMessage", new Response(`Bearer ${botToken}`, { status: 500 })])
    expect((yield* tell("trigger", 1)).reason?.message).not.toContain(botToken)
  })

  it.live(
    "shows the newest count of a storm at most once in each `update`, and the recovery in the same message",
    function* () {
      const slack = yield* fakeSlack
      const type = Schema.decodeUnknownSync(SlackConfig)({
        token: botToken,
        channel: "C1",
        api: slack.api,
        resolve: true,
      })
      const sink = yield* Slack.open(type)
      const update = Duration.millis(300)
      const lane = spec("chat", sink, { order: "key", alert: { ...firingAtOnce, update }, concurrency: 1 })
      const until = (isSo: () => boolean) =>
        Effect.repeat(Effect.delay(Effect.sync(isSo), "10 millis"), { until: (so) => so })
      const types = (type: string, count: number) => append(count, ["chat"], undefined, () => type)
      yield* Effect.gen(function* () {
        yield* types(failure, 500)
        yield* until(() => slack.inChannel.length === 1)
        yield* types(failure, 500)
        yield* until(() => slack.shown[0]?.startsWith("1000 × ") === true)
        yield* types("connected_account.reconnected", 1)
        yield* until(() => slack.shown[0]?.startsWith("Resolved: 1000 × ") === true)
      }).pipe(Effect.provide(lanesOf([lane])), Effect.provide(MemoryJournal.layer))
      expect(slack.inChannel).toHaveLength(1)
      expect(slack.calls.filter((call) => call.startsWith("chat.update")).length).toBeLessThan(10)
    },
  )

  it.live("posts each alert and its details once within Slack's limit of messages", function* () {
    const slack = yield* fakeSlack
    slack.perSecond = 15
    const sink = yield* Slack.open(configOf(slack))
    const after = { count: 1, within: Duration.minutes(10) }
    const alert = { sends: "changes", resolves: true, after, resolveAfter: Duration.days(1) } as const
    const lane = spec("chat", sink, { order: "key", alert, concurrency: 1 })
    const isDone = () => slack.messages.size === 40
    yield* Effect.gen(function* () {
      yield* append(
        20,
        ["chat"],
        (n) => `acct_${n}`,
        () => failure,
      )
      yield* Effect.repeat(Effect.delay(Effect.sync(isDone), "10 millis"), { until: (so) => so })
    }).pipe(Effect.provide(lanesOf([lane])), Effect.provide(MemoryJournal.layer))
    expect(slack.calls).toContain("chat.postMessage: 429")
    expect(slack.inChannel).toHaveLength(20)
    for (const { ts } of slack.inChannel) expect(slack.repliesTo(ts)).toHaveLength(1)
  })
})

test("an answer that is not Slack's is no success", () => {
  const of = (status: number, text: string) => apiMeaning(status, () => text, "https://slack.com")?.verdict
  const verdicts = [of(200, '{"ok":true}'), of(200, "ok"), of(404, "<html>"), of(403, "")]
  expect(verdicts).toEqual(["delivered", "retry", "misconfigured", "misconfigured"])
})

test("a config has a token with a channel, or a URL", () => {
  const problem = (config: object) => {
    const decoded = Schema.decodeUnknownResult(SlackConfig)(config)
    return decoded._tag === "Failure" ? String(decoded.failure) : ""
  }
  const url = "https://hooks.slack.com/services/T0/B0/x"
  expect([problem({ url }), problem({ token: botToken, channel: "C1" })]).toEqual(["", ""])
  expect(problem({})).toContain('it needs the "url"')
  expect(problem({ url, channel: "C1" })).toContain('"channel" needs a "token"')
  expect(problem({ url, token: botToken, channel: "C1" })).toContain("remove one")
  expect(problem({ token: botToken })).toContain('a "token" needs a "channel"')
})
