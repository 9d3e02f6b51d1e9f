/** The Discord sink: a message to a channel's webhook. */
import { Schema } from "effect"
import type { Meaning } from "../../http/HttpAnswer.ts"
import { url } from "../../http/HttpConfig.ts"
import * as Alerts from "../Alerts.ts"
import * as DiscordMessage from "./DiscordMessage.ts"

// --- config ------------------------------------------------------------------

export const DiscordConfig = Schema.Struct({
  url: url({
    description: "The webhook's URL: whoever has it may post",
    examples: ["https://discord.com/api/webhooks/0000/abcd"],
  }),
  ...Alerts.keys,
})
export type DiscordConfig = typeof DiscordConfig.Type

// --- classify ----------------------------------------------------------------

/** Seconds with fractions, in the body of a 429 (Discord, "Rate Limits"); `Retry-After` where there are none. */
const waitOf = (text: string): number | undefined => {
  const seconds = /"retry_after"\s*:\s*(\d+(?:\.\d+)?)/.exec(text)?.[1]
  return seconds === undefined ? undefined : Math.ceil(Number(seconds) * 1_000)
}

/** 204, or 200 where the URL says `wait=true`, is success. */
const meaning: Meaning = (status, text) => {
  switch (status) {
    case 429:
      return { verdict: "throttle", retryAfter: waitOf(text()) }
    case 400:
      return { verdict: "reject", because: "Discord refuses the message as invalid" }
    case 401:
    case 403:
    case 404:
      return {
        verdict: "misconfigured",
        because: 'Discord does not know this webhook, or its token; make another and put its URL into "url"',
      }
    default:
      return undefined
  }
}

export const Discord = Alerts.sinkType<DiscordConfig>({
  type: "discord",
  config: DiscordConfig,
  payload: DiscordMessage.payload,
  meaning,
})
