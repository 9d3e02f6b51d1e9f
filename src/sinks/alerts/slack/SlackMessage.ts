/**
 * Slack's incoming webhooks: a message of blocks, and its text for
 * notifications.
 *
 * Its documented limits: 50 blocks; a header 150 characters, a section ten
 * fields of 2000 each; `text` is cut after 40,000 and best below 4000. `&`, `<`
 * and `>` are its control characters: escaped, `<!channel>` and `<@U1>` are what
 * they look like. Fields are plain text, so nothing in them is markup.
 */
import type { Alert } from "../Alert.ts"
import { arrange, type Escape, type Fact, fit } from "../AlertText.ts"

const entities: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;" }
export const harmless: Escape = (text) => text.replace(/[&<>]/g, (character) => entities[character] ?? character)

const room = {
  facts: { facts: 40, name: 100, value: 1_800, total: 20_000 },
  samples: { facts: 20, name: 100, value: 1_800, total: 10_000 },
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
  text: fit(alert.summary, 3_000, harmless),
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
