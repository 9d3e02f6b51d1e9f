/** `relay events`: which events the running relay keeps, and what became of each. */
import { Clock, Effect, Option, Schema } from "effect"
import { Command, Flag } from "effect/cli"
import { type Event, outcomes } from "../../admin/Api.ts"
import { ask } from "../support/adminClient.ts"
import { nameOf } from "../support/eventReport.ts"
import { Json } from "../support/globalFlags.ts"
import { count, print, printJson, say, table } from "../support/output.ts"
import * as When from "../support/parseTime.ts"

const row = (event: Event): ReadonlyArray<string> => {
  const { receivedAt, type, accountId, webhook, origin, sinks } = event
  return [
    new Date(receivedAt).toISOString(),
    nameOf(event),
    type === "" ? "-" : type,
    accountId === "" ? "-" : accountId,
    webhook,
    [
      ...(origin === "delivered" ? [] : [`${origin}:`]),
      sinks.length === 0 ? "unrouted" : sinks.map(({ sink, outcome }) => `${sink} ${outcome}`).join(", "),
    ].join(" "),
  ]
}

const text = (name: string, metavar: string, description: string) =>
  Flag.String(name).pipe(Flag.withMetavar(metavar), Flag.withDescription(description), Flag.optional)

export const events = Command.make(
  "events",
  {
    type: text("type", "PATTERN", "Only event types that match, such as appointment.**"),
    account: text("account", "ID", "Only of this account"),
    webhook: text("webhook", "NAME", "Only what came by this webhook"),
    since: text("since", "TIME", 'Received from then on: 2026-11-20T08:00:00Z, or "2 hours" for two hours ago'),
    until: text("until", "TIME", "Received before then"),
    outcome: Flag.Literals("outcome", outcomes).pipe(
      Flag.withDescription("Only those of which a sink says so; unrouted went to none"),
      Flag.optional,
    ),
    limit: Flag.Int("limit").pipe(
      Flag.withDescription("How many, newest first"),
      Flag.withSchema(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 1000 }))),
      Flag.withDefault(50),
    ),
    before: Flag.Int("before").pipe(
      Flag.withMetavar("N"),
      Flag.withDescription("Only older than this place in the log: the next page"),
      Flag.optional,
    ),
  },
  Effect.fn(function* ({ type, account, webhook, since, until, outcome, before, limit }) {
    const now = yield* Clock.currentTimeMillis
    const query = {
      ...(Option.isSome(type) && { type: type.value }),
      ...(Option.isSome(account) && { account: account.value }),
      ...(Option.isSome(webhook) && { webhook: webhook.value }),
      ...(Option.isSome(since) && { since: yield* When.flag("since", since.value, now) }),
      ...(Option.isSome(until) && { until: yield* When.flag("until", until.value, now) }),
      ...(Option.isSome(outcome) && { outcome: outcome.value }),
      ...(Option.isSome(before) && { before: before.value }),
      limit,
    }
    const page = yield* ask((client) => client.events.list({ query }))
    if (yield* Json) return yield* printJson(page)
    if (page.events.length > 0) {
      yield* print(table([["RECEIVED", "EVENT", "TYPE", "ACCOUNT", "WEBHOOK", "SINKS"], ...page.events.map(row)]))
    }
    const found = page.events.length === 0 ? "no such event among " : ""
    const looked = `${found}${count(page.looked, "event")} looked at`
    const back = page.lookedTo === 0 ? "" : `, back to ${new Date(page.lookedTo).toISOString()}`
    if (page.next !== undefined) yield* say(`${looked}${back}; there may be older ones: --before ${page.next}`)
    else if (page.events.length === 0) yield* say(`${looked}${back}: these are all that are kept`)
  }),
).pipe(
  Command.withDescription("List events that are kept, newest first, and what became of each"),
  Command.withExamples([
    { command: "relay events --outcome dead", description: "What a sink would not take" },
    {
      command: 'relay events --account acct_1 --type "appointment.**" --since "2 days"',
      description: "What happened to an account's appointments",
    },
    { command: "relay events --outcome unrouted", description: "What no route took" },
  ]),
)
