/**
 * The alert services, as far as their documentation says: what they find wrong
 * with a request, and how they answer it.
 */
import type { ServerResponse } from "node:http"
import { type Received, serve } from "../receiver.ts"

type Json = Readonly<Record<string, unknown>>

const fields = (value: unknown): Json => (typeof value === "object" && value !== null ? (value as Json) : {})
const list = (value: unknown): ReadonlyArray<unknown> => (Array.isArray(value) ? value : [])

/** Characters as code points and as UTF-16 code units: a service may mean either. */
const isText = (value: unknown, most: number): value is string =>
  typeof value === "string" && value.trim() !== "" && value.length <= most

const isTime = (value: unknown): boolean =>
  typeof value === "string" && /^\d{4}-\d\d-\d\dT/.test(value) && !Number.isNaN(Date.parse(value))

/** Every text in a value: its keys, too. */
const textsOf = (value: unknown): ReadonlyArray<string> => {
  if (typeof value === "string") return [value]
  if (Array.isArray(value)) return value.flatMap(textsOf)
  return Object.entries(fields(value)).flatMap(([key, item]) => [key, ...textsOf(item)])
}

/** What no service should get: halves of characters, and what steers who reads it. A line break is ours. */
const common = (value: unknown): ReadonlyArray<string> =>
  textsOf(value).flatMap((text) => [
    ...(text.isWellFormed() ? [] : ["half a character"]),
    ...(/(?!\n)[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/u.test(text) ? ["a control character"] : []),
  ])

const problem = (isRight: boolean, what: string): ReadonlyArray<string> => (isRight ? [] : [what])

export interface Service {
  /** What is wrong with a request's body by the service's documentation; nothing when it is valid. */
  readonly problems: (body: Uint8Array) => ReadonlyArray<string>
  /** The answer to a valid request, and to another. */
  readonly accept: (response: ServerResponse) => void
  readonly refuse: (response: ServerResponse, problems: ReadonlyArray<string>) => void
}

const parse = (body: Uint8Array): unknown => {
  try {
    return JSON.parse(Buffer.from(body).toString("utf8"))
  } catch {
    return undefined
  }
}

const json = (response: ServerResponse, status: number, value: unknown) =>
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value))

/** The one integration key that the local PagerDuty knows. */
export const routingKey = "0123456789abcdef0123456789abcdef"

const pagerduty: Service = {
  problems: (body) => {
    const event = fields(parse(body))
    const payload = fields(event.payload)
    return [
      ...common(event),
      ...problem(body.length <= 512_000, "over 512 KB"),
      ...problem(event.routing_key === routingKey, "Length of 'routing_key' is incorrect (should be 32 characters)"),
      ...problem(["trigger", "acknowledge", "resolve"].includes(String(event.event_action)), "event_action"),
      ...problem(isText(event.dedup_key, 255), "dedup_key"),
      ...(event.event_action === "trigger"
        ? [
            ...problem(isText(payload.summary, 1_024), "summary"),
            ...problem(isText(payload.source, 1_024), "source"),
            ...problem(["critical", "error", "warning", "info"].includes(String(payload.severity)), "severity"),
            ...problem(isTime(payload.timestamp), "timestamp"),
          ]
        : []),
    ]
  },
  accept: (response) => json(response, 202, { status: "success", message: "Event processed", dedup_key: "x" }),
  refuse: (response, errors) =>
    json(response, 400, { status: "invalid event", message: "Event object is invalid", errors }),
}

const slack: Service = {
  problems: (body) => {
    const message = fields(parse(body))
    const blocks = list(message.blocks).map(fields)
    const shown = [
      message.text,
      ...blocks.flatMap((block) => [fields(block.text).text, ...list(block.fields).map((_) => fields(_).text)]),
    ].filter((text) => text !== undefined)
    return [
      ...common(message),
      ...problem(isText(message.text, 4_000), "text"),
      ...problem(blocks.length <= 50, "blocks"),
      // Only the control characters' entities begin with an ampersand, and no control character is left.
      ...problem(
        shown.every((text) => !/[<>]|&(?!amp;|lt;|gt;)/.test(String(text))),
        "something that Slack would interpret",
      ),
      ...blocks.flatMap((block) => {
        const texts = list(block.fields).map(fields)
        return block.type === "header"
          ? problem(fields(block.text).type === "plain_text" && isText(fields(block.text).text, 150), "header")
          : [
              ...problem(block.type === "section" && texts.length >= 1 && texts.length <= 10, "section"),
              ...problem(
                texts.every(({ type, text }) => type === "plain_text" && isText(text, 2_000)),
                "field",
              ),
            ]
      }),
    ]
  },
  accept: (response) => response.writeHead(200, { "content-type": "text/html" }).end("ok"),
  refuse: (response) => response.writeHead(400, { "content-type": "text/html" }).end("invalid_payload"),
}

const teams: Service = {
  problems: (body) => {
    const message = fields(parse(body))
    const text = Buffer.from(body).toString("utf8")
    const [attachment, ...others] = list(message.attachments).map(fields)
    const card = fields(attachment?.content)
    const elements = list(card.body).map(fields)
    const runs = elements.flatMap(({ inlines }) => list(inlines).map(fields))
    return [
      ...common(message),
      ...problem(body.length <= 28_000 && text.length * 2 <= 28_000, "over 28 KB"),
      ...problem(message.type === "message" && others.length === 0, "message"),
      ...problem(attachment?.contentType === "application/vnd.microsoft.card.adaptive", "contentType"),
      ...problem(card.type === "AdaptiveCard" && typeof card.version === "string" && elements.length > 0, "card"),
      // Rich text blocks know no Markdown; a text block or a fact set does.
      ...problem(
        elements.every(({ type }) => type === "RichTextBlock") && runs.every(({ type }) => type === "TextRun"),
        "something that Teams would interpret",
      ),
      ...problem(
        runs.every(({ text }) => typeof text === "string" && text !== ""),
        "an empty run",
      ),
    ]
  },
  accept: (response) => response.writeHead(202).end(),
  refuse: (response) =>
    json(response, 400, { error: { code: "TriggerInputSchemaMismatch", message: "The input body is invalid." } }),
}

/** A character of Discord's Markdown, or of a mention, without an odd number of backslashes before it. */
const isLive = (text: string): boolean =>
  /(^|[^\\])(\\\\)*[*_~`|<>[\]()#@:-]/.test(text) || /(^|[^\\])(\\\\)*\\([^\\*_~`|<>[\]()#@:-]|$)/.test(text)

const discord: Service = {
  problems: (body) => {
    const message = fields(parse(body))
    const embeds = list(message.embeds).map(fields)
    const shown = embeds.flatMap((embed) => list(embed.fields).map(fields))
    const texts = [message.content, ...shown.flatMap(({ name, value }) => [name, value])].map(String)
    return [
      ...common(message),
      ...problem(isText(message.content, 2_000), "content"),
      ...problem(JSON.stringify(message.allowed_mentions) === '{"parse":[]}', "allowed_mentions"),
      ...problem(embeds.length <= 10, "embeds"),
      ...problem(
        embeds.every(({ timestamp }) => isTime(timestamp)),
        "timestamp",
      ),
      ...problem(shown.length <= 25, "fields"),
      ...problem(
        shown.every(({ name, value }) => isText(name, 256) && isText(value, 1_024)),
        "field",
      ),
      ...problem(
        shown.reduce((sum, { name, value }) => sum + String(name).length + String(value).length, 0) <= 6_000,
        "over 6000",
      ),
      ...problem(!texts.some(isLive), "something that Discord would interpret"),
    ]
  },
  accept: (response) => response.writeHead(204).end(),
  refuse: (response) => json(response, 400, { code: 50_035, message: "Invalid Form Body", errors: {} }),
}

export const services = { pagerduty, slack, teams, discord } as const
export type Name = keyof typeof services
export const names = Object.keys(services) as ReadonlyArray<Name>

/** The service on this machine; it keeps what it accepted. */
export const local = (name: Name, accepted: (request: Received) => void = () => {}) =>
  serve((request, response) => {
    const { problems, accept, refuse } = services[name]
    const found = problems(request.body)
    if (request.method !== "POST") response.writeHead(405).end()
    else if (found.length > 0) refuse(response, found)
    else {
      accepted(request)
      accept(response)
    }
  })

/** A config of the type, complete but for where it leads. */
export const own: Readonly<Record<Name, object>> = {
  pagerduty: { routingKey },
  slack: {},
  teams: {},
  discord: {},
}
