/** Discord under each condition. */
import { alertRows, kindOf, revoked } from "./AlertRows.ts"
import { type Column, never } from "./Column.ts"
import { answer, json, page, refusesAll, refusesOne, throttles } from "./HttpRows.ts"
import { answers } from "./HttpService.ts"

const discord = kindOf("discord", () => answer(204))

const unknown = () => json(404, { message: "Unknown Webhook", code: 10015 })

export const column: Column = {
  sink: "discord",
  cells: {
    ...alertRows("discord", discord),
    c: [
      revoked(
        discord,
        () => json(401, { message: "Invalid Webhook Token", code: 50027 }),
        /misconfigured: .*Invalid Webhook Token.*make another/,
      ),
    ],
    d: [
      answers(discord, "the webhook is deleted; the lane waits for another URL", () => unknown, {
        says: /misconfigured: .*404; it says "Unknown Webhook".*does not know this webhook/,
        isQuick: true,
      }),
      answers(
        discord,
        "the channel becomes a forum, which wants a thread",
        () => () =>
          json(400, {
            message: "Webhooks posted to forum channels must have a thread_name or thread_id",
            code: 220001,
          }),
        { says: /misconfigured: .*the channel is a forum; put "\?thread_id="/ },
      ),
    ],
    f: never(
      "a webhook takes one message, as a whole or not at all",
      "https://discord.com/developers/docs/resources/webhook#execute-webhook",
    ),
    g: [
      refusesAll(
        discord,
        "its network blocks this machine",
        () => json(403, { message: "internal network error", code: 40333 }),
        /misconfigured: .*Discord's network blocks this machine/,
      ),
      refusesAll(
        discord,
        "with 400, which may be about one message",
        () => json(400, { message: "Invalid Form Body", code: 50035 }),
        /misconfigured: refused 3 different events.*Invalid Form Body/,
      ),
      refusesOne(
        discord,
        "its content",
        () => json(400, { message: "Cannot send an empty message", code: 50006 }),
        /Cannot send an empty message.*as invalid/,
        { isQuick: true },
      ),
    ],
    h: [
      refusesAll(
        discord,
        "Cloudflare blocks this machine",
        () => answer(403, "error code: 1010", { server: "cloudflare" }),
        /misconfigured: .*Cloudflare, in front of the service, blocks this machine \(error 1010\)/,
      ),
      refusesAll(discord, "a sign-in page with 200", () => page(200, "Sign in"), /misconfigured: .*web page/),
      answers(
        discord,
        "200 with the message, as with wait=true, is a success",
        (service) => (asked) => {
          service.accept(asked)
          return json(200, { id: "1099", type: 0, content: "", channel_id: "1098" })
        },
        {},
      ),
    ],
    j: [
      throttles(
        discord,
        "429 with seconds as a fraction in its body",
        () => json(429, { message: "You are being rate limited.", retry_after: 1.5, global: false }),
        1_500,
      ),
      throttles(discord, "429 without a time", () => json(429, { message: "You are being rate limited." }), 5_000),
      answers(
        discord,
        "Cloudflare limits the requests of this machine",
        () => () => answer(429, "error code: 1015", { server: "cloudflare", "retry-after": "2" }),
        {
          says: /waiting: .*Cloudflare, in front of the service, limits this machine/,
          bound: { wait: 2_000, because: "Cloudflare asks for this wait" },
        },
      ),
    ],
  },
}
