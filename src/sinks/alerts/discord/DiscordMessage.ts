/**
 * Discord's webhooks: a message with one embed.
 *
 * Its documented limits: `content` 2000 characters; an embed 25 fields, a
 * name 256, a value 1024, all of them together 6000. Nobody is mentioned,
 * whatever an event says (`allowed_mentions` parses nothing), and a backslash
 * before each character of its Markdown leaves it as it is.
 */
import type { Alert } from "../Alert.ts"
import { arrange, type Escape, fit } from "../AlertText.ts"

export const harmless: Escape = (text) => text.replace(/[\\*_~`|<>[\]()#@:-]/g, "\\$&")

/** Together 25 fields and below 6000 characters. */
const room = {
  facts: { facts: 15, name: 256, value: 1_024, total: 3_900 },
  samples: { facts: 10, name: 256, value: 1_024, total: 2_000 },
}

const color = { trigger: 0xd93f3f, resolve: 0x3fa45b }

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
