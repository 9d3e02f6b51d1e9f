/**
 * Slack: a message of blocks, and its text for notifications, to an incoming webhook or by the token of a bot.
 *
 * With a token, the message of an alert with a policy shows the newest count and state, and its thread has the
 * details. `chat.update` takes ids of channels only, so the reference has the id that `chat.postMessage` returned.
 * Slack posts a reply to a message that is gone into the channel and reports no error, so the message is changed first.
 *
 * Its documented limits: 50 blocks; a header 150 characters, a section ten fields of
 * 2000 each; `text` is cut after 40,000 and best below 4000. All blocks together
 * have an undocumented limit (`msg_blocks_too_long`) of about 13,000 characters: a
 * message stays below 12,000, its `text` included. `&`, `<` and `>` are its control
 * characters. They are escaped, so `<!channel>` and `<@U1>` are shown as plain text.
 * Fields are plain text, so nothing in them is markup.
 */
import { Effect, Redacted, Schema } from "effect"
import type { Doubt } from "../../../config/schema/ConfiguredTypes.ts"
import { secret, text } from "../../../config/schema/Keys.ts"
import type { Documented, Meaning } from "../../http/HttpAnswer.ts"
import { fixedUrl, url } from "../../http/HttpUrl.ts"
import { referring } from "../../Sink.ts"
import { type Alert, arrange, type Escape, type Fact, fit, reminderPrefix } from "../Alert.ts"
import { type Api, keys, otherNames, sinkType } from "../AlertService.ts"

const slacks = ["hooks.slack.com", "hooks.slack-gov.com"]
const usualApi = "https://slack.com/api"

/** The keys that say where messages go. */
interface Target {
  readonly url?: Redacted.Redacted<string>
  readonly token?: Redacted.Redacted<string>
  readonly channel?: string
  readonly api?: Redacted.Redacted<string>
}

const targetProblem = ({ url, token, channel, api }: Target): Schema.FilterIssue | undefined => {
  if (token === undefined) {
    if (url === undefined) {
      return {
        path: ["url"],
        issue: 'it needs the "url" of an incoming webhook, or the "token" of a bot with a "channel"',
      }
    }
    const key = Object.entries({ channel, api }).find(([, value]) => value !== undefined)?.[0]
    return (
      key && { path: [key], issue: `"${key}" needs a "token": the URL of an incoming webhook decides where it posts` }
    )
  }
  if (url !== undefined) return { path: ["url"], issue: 'a sink posts by a "token" or to a "url": remove one' }
  return channel === undefined ? { path: ["channel"], issue: 'a "token" needs a "channel"' } : undefined
}

export const SlackConfig = Schema.Struct({
  url: Schema.optionalKey(
    url({
      description: "The incoming webhook's URL: anybody who has it may post",
      examples: ["https://hooks.slack.com/services/T000/B000/abcd"],
      hosts: slacks,
      paths: ["/services/", "/triggers/", "/workflows/"],
    }),
  ),
  token: Schema.optionalKey(secret("Instead of `url`, the token of a bot with the scope `chat:write`, `xoxb-…`")),
  channel: Schema.optionalKey(
    text("With `token`: the id of the channel; the name of a public channel also works", {
      examples: ["C0123456789"],
      target: "place",
    }),
  ),
  api: Schema.optionalKey(
    fixedUrl({
      description: "With `token`: the address of Slack's Web API",
      default: usualApi,
      examples: ["https://slack-gov.com/api"],
    }),
  ),
  ...keys,
})
  .annotate({
    otherNames: [
      ["bot_token api_token slack_token access_token", "token"],
      ["channel_id room", "channel"],
      ["username icon_emoji icon_url", "", "Slack shows the name and icon of the app: take this key out"],
      ...otherNames,
    ],
  })
  .check(Schema.makeFilter(targetProblem))
type SlackConfig = typeof SlackConfig.Type

const entities: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;" }
const harmless: Escape = (text) => text.replace(/[&<>]/g, (character) => entities[character] ?? character)

const room = {
  text: 1_000,
  facts: { facts: 40, name: 100, value: 1_800, total: 7_000 },
  samples: { facts: 20, name: 100, value: 1_800, total: 3_500 },
}

const plain = (text: string) => ({ type: "plain_text", text, emoji: false })

const fieldsInSection = 10

const sections = (facts: ReadonlyArray<Fact>): ReadonlyArray<object> =>
  Array.from({ length: Math.ceil(facts.length / fieldsInSection) }, (_, index) => ({
    type: "section",
    fields: facts
      .slice(index * fieldsInSection, (index + 1) * fieldsInSection)
      .map(({ name, value }) => plain(`${name}\n${value}`)),
  }))

export const payload = (alert: Alert): object => ({
  text: fit(alert.summary, room.text, harmless),
  mrkdwn: false,
  // A link in an event must not be fetched by Slack.
  unfurl_links: false,
  unfurl_media: false,
  blocks: [
    { type: "header", text: plain(fit(alert.summary, 150, harmless)) },
    ...sections(arrange(alert.facts, room.facts, harmless)),
    ...sections(arrange(alert.samples, room.samples, harmless)),
  ],
})

const all = (words: ReadonlyArray<string>, meaning: Documented): ReadonlyArray<readonly [string, Documented]> =>
  words.map((word) => [word, meaning])

/** The words that Slack answers with instead of `ok` (Slack, "Sending messages using incoming webhooks", errors). */
const words = new Map<string, Documented>([
  ...all(["invalid_payload", "invalid_blocks", "invalid_blocks_format", "no_text", "too_many_attachments"], {
    verdict: "reject",
    because: "Slack refuses the message as invalid",
  }),
  ...all(["msg_blocks_too_long", "msg_too_long"], {
    verdict: "reject",
    because: 'Slack finds the message too long; shorten "summary" and "details"',
    ofEvent: true,
  }),
  ...all(["no_service", "no_service_id", "no_active_hooks", "no_team", "team_disabled", "invalid_token"], {
    verdict: "misconfigured",
    because: 'Slack does not know this webhook any more; make another and put its URL into "url"',
  }),
  ...all(["channel_not_found", "channel_is_archived", "user_not_found"], {
    verdict: "misconfigured",
    because: "the webhook's channel or user is gone or archived; make a webhook for another channel",
  }),
  ...all(["action_prohibited", "posting_to_general_channel_denied"], {
    verdict: "misconfigured",
    because: "an administrator of the workspace does not let this webhook post there",
  }),
])

/** Answers of compatible servers that concern every message: Rocket.Chat's words, and Mattermost's ids. */
const ofWebhook: ReadonlyArray<readonly [words: RegExp, because: string]> = [
  [
    /invalid integration id or token|web\.incoming_webhook\.(invalid|disabled)\./i,
    'the service does not know this webhook; make another and put its URL into "url"',
  ],
  [
    /web\.incoming_webhook\.(channel|permissions|channel_locked)\.|invalid[- ]channel/i,
    "the webhook's channel is gone, or the webhook may not post there; make a webhook for another channel",
  ],
]

/** The outcome in an answer of JSON: `{"ok":true}` of workflows, `{"success":false,"error":"…"}` of Rocket.Chat, `{"result":"success"}` of Zulip. */
const outcomeIn = (text: string): { readonly isOk?: boolean; readonly error?: string } => {
  try {
    const { ok, success, result, error }: Readonly<Record<string, unknown>> = Object(JSON.parse(text))
    const outcomes = [ok, success, result === undefined ? undefined : result === "success"]
    const isOk = outcomes.find((outcome) => typeof outcome === "boolean")
    return { ...(typeof isOk === "boolean" && { isOk }), ...(typeof error === "string" && { error }) }
  } catch {
    return {}
  }
}

/** An answer that is neither a success nor a documented error. */
const unclear: Documented = { verdict: "retry", because: 'without Slack\'s "ok", so the message may not be there' }

/**
 * Slack answers 200 with the body `ok`, and a workflow answers with JSON. A failure
 * may have status 200, too. Compatible servers (Mattermost, Rocket.Chat, Zulip)
 * answer 2xx with other words, or with none.
 */
export const meaning: Meaning = (status, text, origin) => {
  if (status === 429) return undefined
  const word = text().trim()
  const refused = ofWebhook.find(([words]) => words.test(word))
  if (refused !== undefined) return { verdict: "misconfigured", because: refused[1] }
  if (status >= 500) return undefined
  const { isOk, error = word } = outcomeIn(word)
  const known = words.get(error)
  if (known !== undefined) return known
  if (status >= 300) return undefined
  const isSlacks = slacks.some((host) => origin === `https://${host}`)
  const isTaken = isOk ?? (word === "ok" || (!isSlacks && !/\b(fail|error|invalid|denied|refused)/i.test(word)))
  if (isTaken) return { verdict: "delivered" }
  return isOk === false ? { verdict: "reject", because: "the service refuses the message" } : unclear
}

/** The errors of the Web API ("chat.postMessage", "chat.update" and "Rate limits"), which come with status 200. */
const apiWords = new Map<string, Documented>([
  ...all(["ratelimited", "rate_limited"], { verdict: "throttle", because: "too many messages" }),
  ...all(["message_limit_exceeded"], {
    verdict: "throttle",
    because: "the workspace sends more messages than its plan allows",
    retryAfter: 60_000,
  }),
  ...all(
    [
      ...["internal_error", "fatal_error", "service_unavailable", "request_timeout", "update_failed"],
      ...["team_added_to_org", "external_channel_migrating", "streaming_state_conflict"],
    ],
    { verdict: "retry" },
  ),
  ...all(
    ["invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired", "not_allowed_token_type"],
    {
      verdict: "misconfigured",
      because: 'Slack does not accept the token; install the app again, and put its bot token into "token"',
    },
  ),
  ...all(["missing_scope", "no_permission"], {
    verdict: "misconfigured",
    because: "the token lacks the scope chat:write; add it to the app, and install the app again",
  }),
  ...all(["channel_not_found", "team_not_found"], {
    verdict: "misconfigured",
    because: 'Slack finds no such channel for this bot; put its id into "channel", and invite the bot if it is private',
  }),
  ...all(["not_in_channel"], {
    verdict: "misconfigured",
    because: "the bot is not in the channel; invite it there, or give it the scope chat:write.public",
  }),
  ...all(["is_archived", "is_inactive"], {
    verdict: "misconfigured",
    because: 'the channel is archived; put another into "channel"',
  }),
  ...all(
    [
      ...["restricted_action", "restricted_action_read_only_channel", "restricted_action_thread_only_channel"],
      ...["access_denied", "accesslimited", "ekm_access_denied", "team_access_not_granted", "app_access_restricted"],
      ...["enterprise_is_restricted", "org_login_required", "two_factor_setup_required"],
    ],
    { verdict: "misconfigured", because: "an administrator of the workspace does not let this bot post there" },
  ),
  ...all(["unknown_method", "deprecated_endpoint", "method_deprecated"], {
    verdict: "misconfigured",
    because: 'its Web API is not there; check "api"',
  }),
  ...all(["msg_too_long", "msg_blocks_too_long"], {
    verdict: "reject",
    because: 'Slack finds the message too long; shorten "summary" and "details"',
    ofEvent: true,
  }),
  ...all(["invalid_blocks", "invalid_blocks_format", "invalid_arguments", "no_text", "too_many_attachments"], {
    verdict: "reject",
    because: "Slack refuses the message as invalid",
  }),
])

export const apiMeaning: Meaning = (status, text) => {
  const { isOk, error = "" } = outcomeIn(text())
  const documented = apiWords.get(error)
  if (documented !== undefined) return documented
  if (status === 401 || status === 403) {
    return { verdict: "misconfigured", because: 'Slack does not let the relay in; check "token" and "api"' }
  }
  if (status === 404 || status === 405) return apiWords.get("unknown_method")
  if (status >= 300) return undefined
  if (isOk === true) return { verdict: "delivered" }
  return isOk === false ? { verdict: "reject", because: "Slack refuses the message" } : unclear
}

/** The errors of `chat.update` if the message is gone, was posted by another bot, or is in another workspace. */
const gone = ["message_not_found", "cant_update_message", "channel_not_found", "team_not_found", "block_mismatch"]
/** The error if the workspace allows no changes of messages after some time. */
const tooOld = "edit_window_closed"
/** The errors of a reply if the message can have no thread. The message itself shows the alert. */
const noThread = [
  ...["cannot_reply_to_message", "thread_not_found"],
  ...["restricted_action_non_threadable_channel", "restricted_action_thread_locked"],
]

/** Takes these errors as an answer. */
const unless =
  (expected: ReadonlyArray<string>): Meaning =>
  (status, text, origin) =>
    status < 300 && expected.includes(outcomeIn(text()).error ?? "")
      ? { verdict: "delivered" }
      : apiMeaning(status, text, origin)

/** The place of a message. */
interface Place {
  readonly channel: string
  readonly ts: string
}

const placeIn = (reference: string | undefined): Place | undefined => {
  const [channel, ts] = reference?.split(" ") ?? []
  return channel !== undefined && ts !== undefined ? { channel, ts } : undefined
}

/** Returns the place in Slack's answer as a reference. */
const referenceIn = (answer: string): string | undefined => {
  const { channel, ts }: Readonly<Record<string, unknown>> = Object(JSON.parse(answer))
  return typeof channel === "string" && typeof ts === "string" ? `${channel} ${ts}` : undefined
}

const states = { firing: "Firing", acknowledged: "Acknowledged", resolved: "Resolved" } as const

/** The message of an alert in the channel: its newest count and state. */
export const head = (
  { summary: told, isReminder, first, last }: Alert,
  { status, count }: NonNullable<Alert["state"]>,
): object => {
  // The message stays, and the reminder is in its thread.
  const summary = isReminder === true ? told.slice(reminderPrefix.length) : told
  const facts: ReadonlyArray<Fact> = [
    { name: "State", value: states[status] },
    { name: "Failures", value: String(count) },
    { name: "First", value: new Date(first).toISOString() },
    { name: "Newest", value: new Date(last).toISOString() },
  ]
  return {
    text: fit(summary, room.text, harmless),
    blocks: [{ type: "header", text: plain(fit(summary, 150, harmless)) }, ...sections(facts)],
  }
}

const methods = { post: "chat.postMessage", update: "chat.update" } as const

const apiOf = ({ token, channel = "", api = Redacted.make(usualApi) }: SlackConfig): Api | undefined =>
  token && {
    url: Redacted.make(Redacted.value(api).replace(/\/+$/, "")),
    headers: {
      authorization: Redacted.make(`Bearer ${Redacted.value(token)}`),
      "content-type": Redacted.make("application/json; charset=utf-8"),
    },
    send: Effect.fnUntraced(function* (alert, ask) {
      const { state, isReminder = false } = alert
      const post = (body: object, meaning = apiMeaning) => ask(methods.post, body, meaning)
      if (state === undefined) {
        yield* post({ channel, ...payload(alert) })
        return undefined
      }
      const known = placeIn(state.reference)
      const answer =
        known && (yield* ask(methods.update, { ...known, ...head(alert, state) }, unless([...gone, tooOld])))
      const { isOk, error } = answer === undefined ? { isOk: false, error: "" } : outcomeIn(answer)
      const isThere = isOk === true || error === tooOld
      const reference = isThere ? state.reference : referenceIn(yield* post({ channel, ...head(alert, state) }))
      const place = placeIn(reference)
      if (reference === undefined || place === undefined) return undefined
      // A changed message notifies nobody.
      const isLoud = isThere && (isReminder || (error === tooOld && alert.action === "resolve"))
      const reply = { channel: place.channel, thread_ts: place.ts, ...(isLoud && { reply_broadcast: true }) }
      yield* Effect.mapError(post({ ...reply, ...payload(alert) }, unless(noThread)), (error) =>
        referring(error, reference),
      )
      return reference
    }),
    check: (ask) => ask("auth.test", {}, apiMeaning),
    preview: (alert) => {
      const { state, isReminder } = alert
      if (state === undefined) return [[methods.post, { channel, ...payload(alert) }]]
      const ts = "(the message)"
      const isNew = alert.action === "trigger" && isReminder !== true
      return [
        isNew
          ? [methods.post, { channel, ...head(alert, state) }]
          : [methods.update, { channel, ts, ...head(alert, state) }],
        [methods.post, { channel, thread_ts: ts, ...(isReminder && { reply_broadcast: true }), ...payload(alert) }],
      ]
    },
  }

/** Tokens that can't post for long, or at all. */
const doubts = ({ token }: SlackConfig): ReadonlyArray<Doubt> => {
  const [, kind] = /^(xapp|xoxe)/.exec(token === undefined ? "" : Redacted.value(token)) ?? []
  if (kind === undefined) return []
  return [
    kind === "xapp"
      ? { path: ["token"], message: "this is the token of an app, which can't post", hint: "use its bot token, xoxb-…" }
      : {
          path: ["token"],
          message: "this token expires after 12 hours",
          hint: "turn token rotation off for the app, and use its bot token, xoxb-…",
        },
  ]
}

export const Slack = sinkType<SlackConfig>({ config: SlackConfig, payload, meaning, doubts, api: apiOf })
