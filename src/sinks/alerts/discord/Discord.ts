/**
 * Discord's webhooks: a message with one embed.
 *
 * Its documented limits: `content` 2000 characters; an embed 25 fields, a name 256,
 * a value 1024, all of them together 6000. No text of an event can mention anybody
 * (`allowed_mentions` parses nothing). A backslash before each character of Markdown
 * shows it as it is.
 */
import { Schema } from "effect"
import type { Meaning } from "../../http/HttpAnswer.ts"
import { url } from "../../http/HttpUrl.ts"
import { type Alert, arrange, type Escape, fit } from "../Alert.ts"
import { keys, otherNames, sinkType } from "../AlertService.ts"

const DiscordConfig = Schema.Struct({
  url: url({
    description: "The webhook's URL: anybody who has it may post",
    examples: ["https://discord.com/api/webhooks/0000/abcd"],
    hosts: ["discord.com", ".discord.com", "discordapp.com"],
    paths: ["/api/"],
  }),
  ...keys,
}).annotate({ otherNames })

const harmless: Escape = (text) => text.replace(/[\\*_~`|<>[\]()#@:-]/g, "\\$&")

/** Together 25 fields and below 6000 characters. */
const room = {
  facts: { facts: 15, name: 256, value: 1_024, total: 3_900 },
  samples: { facts: 10, name: 256, value: 1_024, total: 2_000 },
}

const color = { trigger: 0xd93f3f, update: 0xd93f3f, resolve: 0x3fa45b }

export const payload = (alert: Alert): object => ({
  content: fit(alert.summary, 2_000, harmless),
  allowed_mentions: { parse: [] },
  embeds: [
    {
      color: color[alert.action],
      timestamp: alert.time,
      fields: [
        ...arrange(alert.facts, room.facts, harmless).map((fact) => ({ ...fact, inline: true })),
        ...arrange(alert.samples, room.samples, harmless).map((fact) => ({ ...fact, inline: false })),
      ],
    },
  ],
})

/**
 * The wait in the body of a 429, in milliseconds: seconds with a fraction (Discord, "Rate Limits"), or a whole number
 * of milliseconds before version 8 of the API, which a URL without a version gets. `Retry-After` has the same unit.
 */
const waitOf = (text: string): number | undefined => {
  const [, wait] = /"retry_after"\s*:\s*(\d+(?:\.\d+)?)/.exec(text) ?? []
  if (wait === undefined) return undefined
  return wait.includes(".") ? Math.ceil(Number(wait) * 1_000) : Number(wait)
}

/** The code of an error of Discord itself. Errors of proxies in front of it have none. */
const codeOf = (text: string): number => Number(/"code"\s*:\s*(\d+)/.exec(text)?.[1] ?? Number.NaN)

/** Codes that concern every message to the webhook, each with advice. */
const ofWebhook = new Map([
  [40333, "Discord's network blocks this machine's requests"],
  [
    220001,
    'the channel is a forum; put "?thread_id=" with the id of one of its threads behind the "url", or make a webhook for another channel',
  ],
])

/** Success is 204, or 200 if the URL says `wait=true`. */
const meaning: Meaning = (status, text) => {
  if (status === 429) return { verdict: "throttle", retryAfter: waitOf(text()) }
  if (status < 400 || status >= 500) return undefined
  const code = codeOf(text())
  const because = ofWebhook.get(code)
  if (because !== undefined) return { verdict: "misconfigured", because }
  switch (status) {
    case 400:
      return { verdict: "reject", because: "Discord refuses the message as invalid" }
    case 401:
    case 403:
    case 404:
      if (text() !== "" && Number.isNaN(code)) return undefined
      return {
        verdict: "misconfigured",
        because: 'Discord does not know this webhook, or its token; make another and put its URL into "url"',
      }
    default:
      return undefined
  }
}

export const Discord = sinkType({ config: DiscordConfig, payload, meaning })
