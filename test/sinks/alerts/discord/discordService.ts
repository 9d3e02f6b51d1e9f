/** Discord by its documentation. */
import { common, fields, isText, isTime, json, list, parse, problem, type Service } from "../localService.ts"

/** A character of Discord's Markdown, or of a mention, without an odd number of backslashes before it. */
const isLive = (text: string): boolean =>
  /(^|[^\\])(\\\\)*[*_~`|<>[\]()#@:-]/.test(text) || /(^|[^\\])(\\\\)*\\([^\\*_~`|<>[\]()#@:-]|$)/.test(text)

export const discord: Service = {
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
