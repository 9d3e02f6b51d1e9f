/**
 * Slack's incoming webhooks: a message of blocks, and its text for notifications.
 *
 * Its documented limits: 50 blocks; a header 150 characters, a section ten fields of
 * 2000 each; `text` is cut after 40,000 and best below 4000. All blocks together
 * have an undocumented limit (`msg_blocks_too_long`) of about 13,000 characters: a
 * message stays below 12,000, its `text` included. `&`, `<` and `>` are its control
 * characters. They are escaped, so `<!channel>` and `<@U1>` are shown as plain text.
 * Fields are plain text, so nothing in them is markup.
 */
import { Schema } from "effect"
import type { Documented, Meaning } from "../../http/HttpAnswer.ts"
import { url } from "../../http/HttpUrl.ts"
import { type Alert, arrange, type Escape, type Fact, fit } from "../Alert.ts"
import { keys, otherNames, sinkType } from "../AlertService.ts"

const slacks = ["hooks.slack.com", "hooks.slack-gov.com"]

export const SlackConfig = Schema.Struct({
  url: url({
    description: "The incoming webhook's URL: anybody who has it may post",
    examples: ["https://hooks.slack.com/services/T000/B000/abcd"],
    hosts: slacks,
    paths: ["/services/", "/triggers/", "/workflows/"],
  }),
  ...keys,
}).annotate({ otherNames })

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
  return isOk === false
    ? { verdict: "reject", because: "the service refuses the message" }
    : { verdict: "retry", because: 'without Slack\'s "ok", so the message may not be there' }
}

export const Slack = sinkType({ config: SlackConfig, payload, meaning })
