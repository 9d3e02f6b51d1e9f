/**
 * A mail: its subject, its text and the ids that it is threaded by.
 *
 * **Guarantee.** Nothing of an event comes into a header but in the subject,
 * which is one line without control characters. Who a mail goes to is the
 * config's alone. Without templates it shows what an alert does (`Alert.ts`).
 */
import { createHash } from "node:crypto"
import { groupKey } from "../../event/IdempotencyKey.ts"
import * as Template from "../../formats/Template.ts"
import * as Alert from "../alerts/Alert.ts"
import { arrange, type Fact, fit } from "../alerts/AlertText.ts"
import type { Entries } from "../Rendered.ts"
import { type EmailConfig, mailboxOf } from "./EmailConfig.ts"

export interface Mail {
  readonly subject: string
  /** Lines end in LF. */
  readonly text: string
  /** It is equal at each attempt: mail systems drop the second of two. */
  readonly messageId: string
  /** The id that all mails of a thread refer to; there is no such mail. */
  readonly thread: string
}

/** RFC 5322 wants lines under 998 characters; lists of mails show some 60. */
const longestSubject = 200
/** Code units of a text; what was cut ends in an ellipsis. */
const longestText = 256 * 1024

const room = {
  facts: { facts: 60, name: 100, value: 2_000, total: 30_000 },
  samples: { facts: 51, name: 100, value: 2_000, total: 60_000 },
}

const lines = (facts: ReadonlyArray<Fact>): ReadonlyArray<string> => {
  const width = facts.reduce((widest, { name }) => Math.max(widest, name.length), 0)
  return facts.map(({ name, value }) => `${`${name}:`.padEnd(width + 2)}${value}`)
}

const paragraphs = ({ summary, facts, samples }: Alert.Alert): string =>
  [[fit(summary, 3_000)], lines(arrange(facts, room.facts)), lines(arrange(samples, room.samples))]
    .filter((paragraph) => paragraph.length > 0)
    .map((paragraph) => paragraph.join("\n"))
    .join("\n\n")

/** Control characters but for tabs and line feeds, and marks that change the direction of text. */
const steering = /(?![\t\n])\p{Cc}|[\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu

/** A text of several lines, as {@link fit} makes one of one. */
const harmless = (text: string): string => {
  const near = text.length <= longestText ? text : `${text.slice(0, longestText - 1)}…`
  return near.toWellFormed().replace(/\r\n?/g, "\n").replace(steering, " ")
}

const hash = (parts: ReadonlyArray<string>): string =>
  createHash("sha256").update(JSON.stringify(parts)).digest("hex").slice(0, 40)

/** Makes a mail of one event, or of a digest: at least one event, oldest first. Throws what a template throws. */
export const composer = (config: EmailConfig): ((entries: Entries) => Mail) => {
  const { from, to, cc, thread, objectId, details, resolve } = config
  const alertOf = Alert.compile({ objectId, details, resolve, ...(thread !== undefined && { dedupKey: thread }) })
  const subject = config.subject && Template.compile(config.subject, "text", "subject")
  const text = config.text && Template.compile(config.text, "text", "text")
  const content = JSON.stringify([config.subject, config.text, objectId, details])
  const domain = mailboxOf(from)?.address.replace(/^.*@/, "") ?? ""
  const host = URL.canParse(`http://${domain}`) ? new URL(`http://${domain}`).hostname : domain
  const id = (kind: string, parts: ReadonlyArray<string>) => `<${kind}.${hash(parts)}@${host}>`
  return (entries) => {
    const last = entries.at(-1) ?? entries[0]
    const alert = alertOf(Alert.group(entries, resolve))
    return {
      subject: fit(subject ? subject.render(last, entries) : alert.summary, longestSubject),
      text: `${text ? harmless(text.render(last, entries)) : paragraphs(alert)}\n`,
      // Ids are unique within a webhook only; and who gets other mails of two sinks gets both.
      messageId: id("relay", [last.event.webhook, groupKey(entries), ...to, "", ...cc, "", content]),
      thread: id("thread", [alert.key]),
    }
  }
}
