/** The Slack sink: a message to an incoming webhook. */
import { Schema } from "effect"
import type { Documented, Meaning } from "../../http/HttpAnswer.ts"
import { url } from "../../http/HttpConfig.ts"
import * as Alerts from "../Alerts.ts"
import * as SlackMessage from "./SlackMessage.ts"

// --- config ------------------------------------------------------------------

export const SlackConfig = Schema.Struct({
  url: url({
    description: "The incoming webhook's URL: whoever has it may post",
    examples: ["https://hooks.slack.com/services/T000/B000/abcd"],
  }),
  ...Alerts.keys,
})
export type SlackConfig = typeof SlackConfig.Type

// --- classify ----------------------------------------------------------------

const all = (words: ReadonlyArray<string>, meaning: Documented): ReadonlyArray<readonly [string, Documented]> =>
  words.map((word) => [word, meaning])

/** The words that Slack answers with instead of `ok` (Slack, "Sending messages using incoming webhooks", errors). */
const words = new Map<string, Documented>([
  ...all(["invalid_payload", "invalid_blocks", "invalid_blocks_format", "no_text", "too_many_attachments"], {
    verdict: "reject",
    because: "Slack refuses the message as invalid",
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

/** Success is 200 with the body `ok`; a failure may come with 200, too. */
const meaning: Meaning = (status, text) => {
  if (status === 429 || status >= 500) return undefined
  const word = text().trim()
  if (status === 200 && word === "ok") return { verdict: "delivered" }
  const known = words.get(word)
  if (known !== undefined) return known
  return status < 300
    ? { verdict: "retry", because: 'without Slack\'s "ok", so the message may not be there' }
    : undefined
}

export const Slack = Alerts.sinkType<SlackConfig>({
  type: "slack",
  config: SlackConfig,
  payload: SlackMessage.payload,
  meaning,
})
