/** Slack, by the texts of its answers. */
import { Effect } from "effect"
import { openAlert } from "../alerts/alertContract.ts"
import { serve } from "../receiver.ts"
import { entry, reasonOf } from "../samples.ts"
import type { Part } from "./Cause.ts"

const words: ReadonlyArray<readonly [name: string, todo: string, status: number, word: string]> = [
  ["all blocks together are too long", 'shorten "summary" and "details"', 400, "msg_blocks_too_long"],
  ["the webhook was removed", 'put its URL into "url"', 404, "no_service"],
  ["the channel is archived", "make a webhook for another channel", 410, "channel_is_archived"],
  ["an administrator forbids it", "administrator", 403, "action_prohibited"],
  ["too many messages", "", 429, "rate_limited"],
  ["a page of something on the way", '"url"', 200, "<html>Welcome to the network</html>"],
]

export const slack: Part = {
  title: "Slack",
  lacking: () => undefined,
  causes: async () =>
    words.map(([name, todo, status, word]) => ({
      name: `${name} (${word.replaceAll(/[<>]/g, "")})`,
      todo,
      reason: Effect.gen(function* () {
        const { url } = yield* serve((_, response) => response.writeHead(status).end(word))
        const sink = yield* openAlert("slack", { url: `${url}/services/T0/B0/x` })
        return yield* reasonOf(sink.send([entry(1)]))
      }),
    })),
}
