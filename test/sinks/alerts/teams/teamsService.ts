/** Teams by its documentation. */
import { common, fields, json, list, parse, problem, type Service } from "../localService.ts"

export const teams: Service = {
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
      // Rich text blocks have no Markdown; text blocks and fact sets do.
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
