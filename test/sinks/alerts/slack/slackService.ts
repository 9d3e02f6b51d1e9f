/** Slack by its documentation. */
import { common, fields, isText, list, parse, problem, type Service } from "../localService.ts"

export const slack: Service = {
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
      ...problem(shown.reduce<number>((sum, text) => sum + String(text).length, 0) < 12_000, "msg_blocks_too_long"),
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
