/** Slack, and servers that are compatible with it, under each condition. */
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { alertRows, kindOf, revoked } from "./AlertRows.ts"
import type { Column } from "./Column.ts"
import { answer, json, page, refusesAll, refusesOne, throttles } from "./HttpRows.ts"
import { answers, type Kind, steps } from "./HttpService.ts"

const slack = kindOf("slack", () => answer(200, "ok", { "content-type": "text/html" }))

/** By the token of a bot. */
const byToken = {
  sink: (url: string) => ({ type: "slack", token: "xoxb-first", channel: "C1", api: `${url}/api` }),
  accepted: () => json(200, { ok: true, channel: "C1", ts: "1700000000.000001" }),
} satisfies Kind
const refused = (error: string) => json(200, { ok: false, error })

const renewed = steps(
  byToken,
  "the token is revoked, and its file has another; after a reload that is used",
  (service, { directory, reload }) => {
    const file = join(directory, "token")
    writeFileSync(file, "xoxb-first")
    return {
      sink: { ...byToken.sink(service.url), token: `file:${file}` },
      breaks: () => {
        service.answer = ({ headers }) =>
          headers.get("authorization") === "Bearer xoxb-second" ? undefined : refused("token_revoked")
      },
      heals: () => {
        writeFileSync(file, "xoxb-second")
        return reload()
      },
    }
  },
  { says: /misconfigured: .*"token_revoked".*does not accept the token/ },
)

export const column: Column = {
  sink: "slack",
  cells: {
    ...alertRows("slack", slack),
    c: [
      revoked(slack, () => answer(404, "no_service"), /misconfigured: .*404; it says "no_service".*make another/),
      renewed,
    ],
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
      answers(byToken, "the bot is not in the channel, until it is invited", () => () => refused("not_in_channel"), {
        says: /misconfigured: .*200; it says "not_in_channel".*invite it/,
      }),
    ],
    // An incoming webhook takes one message, as a whole or not at all.
    f: [
      steps(
        byToken,
        "the message of an alert is posted, and its thread is limited; the next attempt completes it",
        (service) => {
          const limited = () => json(429, { ok: false, error: "ratelimited" }, { "retry-after": "1" })
          // An event has arrived once the thread has its details.
          const thread = (answer: () => Response | undefined) => {
            service.answer = ({ body }) => (body.includes("thread_ts") ? answer() : byToken.accepted())
          }
          thread(() => undefined)
          return {
            sink: { ...byToken.sink(service.url), alert: { by: ["id"] } },
            breaks: () => thread(limited),
            heals: () => thread(() => undefined),
          }
        },
        { says: /waiting: .*answered 429/, bound: { wait: 1_000, because: "the service asks for this wait" } },
      ),
    ],
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
      refusesAll(byToken, "the token", () => refused("invalid_auth"), /misconfigured: .*"invalid_auth".*the token/),
      refusesOne(byToken, "too long by token", () => refused("msg_too_long"), /"msg_too_long".*too long/),
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
      throttles(
        byToken,
        "429 of the Web API with a time",
        () => json(429, { ok: false, error: "ratelimited" }, { "retry-after": "1" }),
        1_000,
      ),
      answers(byToken, "200 with ratelimited and no time", () => () => refused("ratelimited"), {
        says: /waiting: .*answered 200; it says "ratelimited"/,
        bound: { wait: 5_000, because: "five seconds if Slack names none" },
      }),
      throttles(slack, "429 without a time", () => answer(429, "rate_limited"), 5_000),
    ],
  },
}
