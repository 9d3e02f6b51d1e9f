/** Slack, and servers that are compatible with it, under each condition. */
import { alertRows, kindOf, revoked } from "./AlertRows.ts"
import { type Column, never } from "./Column.ts"
import { answer, json, page, refusesAll, refusesOne, throttles } from "./HttpRows.ts"
import { answers } from "./HttpService.ts"

const slack = kindOf("slack", () => answer(200, "ok", { "content-type": "text/html" }))

export const column: Column = {
  sink: "slack",
  cells: {
    ...alertRows("slack", slack),
    c: [revoked(slack, () => answer(404, "no_service"), /misconfigured: .*404; it says "no_service".*make another/)],
    d: [
      answers(slack, "the channel is archived, and comes back", () => () => answer(410, "channel_is_archived"), {
        says: /misconfigured: .*410; it says "channel_is_archived".*channel or user is gone or archived/,
        isQuick: true,
      }),
      answers(slack, "the webhook never existed, until its URL is made", () => () => answer(403, "invalid_token"), {
        says: /misconfigured: .*403; it says "invalid_token".*does not know this webhook/,
        isThereAtStart: true,
      }),
      answers(
        slack,
        "the channel of a Mattermost webhook is deleted",
        () => () =>
          json(404, {
            id: "web.incoming_webhook.channel.app_error",
            message: "Couldn't find the channel.",
            status_code: 404,
          }),
        { says: /misconfigured: .*Couldn't find the channel.*the webhook's channel is gone/ },
      ),
    ],
    f: never(
      "a webhook takes one message, as a whole or not at all",
      "https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks",
    ),
    g: [
      refusesAll(
        slack,
        "by an administrator",
        () => answer(403, "action_prohibited"),
        /misconfigured: .*"action_prohibited".*administrator/,
      ),
      refusesAll(
        slack,
        "with words that may be about one message",
        () => answer(400, "invalid_blocks"),
        /misconfigured: refused 3 different events.*invalid_blocks/,
      ),
      refusesOne(slack, "too long", () => answer(400, "msg_blocks_too_long"), /"msg_blocks_too_long".*too long/, {
        isQuick: true,
      }),
      refusesOne(slack, "its content", () => answer(400, "invalid_payload"), /"invalid_payload".*as invalid/),
    ],
    h: [
      refusesAll(
        slack,
        "a sign-in page with 200",
        () => page(200, "Sign in"),
        /misconfigured: .*web page, probably for a person to sign in/,
      ),
      answers(
        slack,
        "200 with ok: false is a refusal",
        () => () => json(200, { ok: false, error: "channel_not_found" }),
        { says: /misconfigured: .*200; it says "channel_not_found".*channel or user is gone/ },
      ),
      ...[
        ["Rocket.Chat", () => json(200, { success: true })],
        ["Zulip", () => json(200, { result: "success", msg: "" })],
        ["a workflow", () => json(200, { ok: true })],
        ["a server that answers 204", () => answer(204)],
      ].map(([name, accepted]) =>
        answers(
          slack,
          `${name as string} takes messages with an answer of its own`,
          (service) => (asked) => {
            service.accept(asked)
            return (accepted as () => Response)()
          },
          {},
        ),
      ),
    ],
    j: [
      throttles(slack, "429 with a time", () => answer(429, "rate_limited", { "retry-after": "1" }), 1_000),
      throttles(slack, "429 without a time", () => answer(429, "rate_limited"), 5_000),
    ],
  },
}
