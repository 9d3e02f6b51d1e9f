/**
 * Microsoft Teams by a Workflows webhook: a message with one adaptive card.
 *
 * Its documented limit is about 28 KB a message. All text stands in rich text
 * blocks, which know no Markdown, so nothing in an event is markup.
 */
import type { Alert } from "../Alert.ts"
import { arrange, type Fact, fit } from "../AlertText.ts"

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
