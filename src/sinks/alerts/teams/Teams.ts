/**
 * Microsoft Teams by a Workflows webhook: a message with one adaptive card.
 *
 * Its documented limit is about 28 KB a message. All text is in rich text blocks,
 * which know no Markdown, so nothing in an event is markup.
 */
import { Schema } from "effect"
import type { Documented, Meaning } from "../../http/HttpAnswer.ts"
import { url } from "../../http/HttpUrl.ts"
import { type Alert, arrange, type Fact, fit } from "../Alert.ts"
import { keys, otherNames, sinkType } from "../AlertService.ts"

const TeamsConfig = Schema.Struct({
  url: url({
    description: 'The URL of a workflow "When a Teams webhook request is received": anybody who has it may post',
    examples: ["https://example.api.powerplatform.com/workflows/0000"],
    hosts: [".powerplatform.com", ".logic.azure.com", ".azure-apim.net", ".powerplatform.us"],
    retired: {
      ".webhook.office.com": 'make a workflow "When a Teams webhook request is received" and put its URL here',
    },
  }),
  ...keys,
}).annotate({ otherNames })

/** At three bytes a code unit in UTF-8, or two in UTF-16, a message with all of its braces stays below 28 KB. */
const room = {
  summary: 512,
  facts: { facts: 25, name: 100, value: 1_000, total: 4_000 },
  samples: { facts: 10, name: 100, value: 400, total: 1_500 },
}

const run = (text: string, style: object = {}) => ({ type: "TextRun", text, ...style })
const block = (...inlines: ReadonlyArray<object>) => ({ type: "RichTextBlock", inlines })
const line = ({ name, value }: Fact) => block(run(`${name}: `, { weight: "Bolder" }), run(value))

export const payload = (alert: Alert): object => ({
  type: "message",
  attachments: [
    {
      contentType: "application/vnd.microsoft.card.adaptive",
      contentUrl: null,
      content: {
        $schema: "http://adaptivecards.io/schemas/adaptive-card.json",
        type: "AdaptiveCard",
        version: "1.2",
        body: [
          block(
            run(fit(alert.summary, room.summary), {
              size: "Large",
              weight: "Bolder",
              color: alert.action === "resolve" ? "Good" : "Attention",
            }),
          ),
          ...arrange(alert.facts, room.facts).map(line),
          ...arrange(alert.samples, room.samples).map(line),
        ],
      },
    },
  ],
})

/** The retired connector answers 200 even if Teams has refused the message. The text says so, with the status. */
const ofConnector = (text: string): Documented | undefined => {
  const [failed, code = ""] = /message delivery failed(?:.*?HTTP error (\d{3}))?/is.exec(text) ?? []
  const because =
    code === "" ? "and says that Teams refused the message" : `and says that Teams refused the message (${code})`
  switch (code) {
    case "":
      if (failed !== undefined) return { verdict: "retry", because }
      return /\bis required\b|^Bad payload|^Webhook Bad Request/i.test(text)
        ? { verdict: "reject", because }
        : undefined
    case "429":
      return { verdict: "throttle", because }
    case "400":
    case "413":
      return { verdict: "reject", because, ofEvent: code === "413" }
    case "401":
    case "403":
    case "404":
    case "410":
      return { verdict: "misconfigured", because: `${because}; make a workflow and put its URL into "url"` }
    default:
      return { verdict: "retry", because }
  }
}

const turnedOff = {
  verdict: "misconfigured",
  because: "the workflow is turned off; turn it on in Power Automate",
} as const

/** The URL is signed, and a workflow accepts only one login. */
const twoLogins = {
  verdict: "misconfigured",
  because: 'the workflow takes no login beside its URL; take "authorization" out of "headers"',
} as const

/** A workflow answers 202 when it accepts a message. The answer doesn't show whether it then posts the message. */
const meaning: Meaning = (status, text) => {
  if (status < 300) return ofConnector(text())
  if (/WorkflowTriggerIsNotEnabled|WorkflowNotEnabled|WorkflowIsDisabled/.test(text())) return turnedOff
  if (/DirectApiRequestHasMoreThanOneAuthorization/.test(text())) return twoLogins
  switch (status) {
    case 400:
      return { verdict: "reject", because: "the workflow refuses the message as invalid" }
    case 401:
    case 403:
      return {
        verdict: "misconfigured",
        because: 'the workflow does not take this URL\'s signature; copy its URL into "url" again',
      }
    case 404:
    case 410:
      return { verdict: "misconfigured", because: 'there is no such workflow; make one and put its URL into "url"' }
    default:
      return undefined
  }
}

export const Teams = sinkType({ config: TeamsConfig, payload, meaning })
