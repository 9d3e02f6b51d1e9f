/** `relay events`: the events in the journal, and the outcome of each at each sink. */
import { Effect } from "effect"
import { Command, Flag } from "effect/cli"
import { type Event, outcomes } from "../../admin/Api.ts"
import { ask } from "../support/adminClient.ts"
import { nameOf } from "../support/eventReport.ts"
import { account, given, Json, limit, since, text, type, until, webhook } from "../support/flags.ts"
import { count, headedTable, instant, plain, print, printJson, say, width } from "../support/output.ts"
import { timesOf } from "../support/parseTime.ts"

const stateOf = ({ sink, outcome, at, tries = 0, copy }: Event["sinks"][number]): string => {
  const when = outcome === "delivered" && at !== undefined ? ` ${instant(at)}` : ""
  const after = outcome === "delivered" && tries > 1 ? ` after ${tries} attempts` : ""
  return `${sink} ${outcome}${when}${after}${copy === undefined ? "" : ` as seq_${copy}`}`
}

const row = (event: Event): ReadonlyArray<string> => {
  const { receivedAt, type, accountId, webhook, origin, sinks, copyOf } = event
  return [
    instant(receivedAt),
    nameOf(event),
    type || "-",
    accountId || "-",
    webhook,
    [
      ...(origin === "delivered"
        ? []
        : [copyOf === undefined ? `${origin}:` : `${origin} from seq_${copyOf.sequence}:`]),
      sinks.length === 0 ? "unrouted" : sinks.map(stateOf).join(", "),
    ].join(" "),
  ]
}

export const events = Command.make(
  "events",
  {
    type,
    account,
    webhook,
    since,
    until,
    outcome: Flag.Literals("outcome", outcomes).pipe(
      Flag.withDescription("Only events with this outcome at a sink; unrouted are those that went to none"),
      Flag.optional,
    ),
    deliveredAfter: text("delivered-after", "TIME", "Only events that a sink got at or after TIME"),
    attemptsOver: Flag.Int("attempts-over").pipe(
      Flag.withMetavar("N"),
      Flag.withDescription("Only events that took more than N attempts at a sink"),
      Flag.optional,
    ),
    limit,
    before: text("before", "PLACE", "Only older than this place in the log, for the next page"),
  },
  Effect.fn(function* ({ since, until, deliveredAfter, limit, ...flags }) {
    const query = { ...given(flags), ...(yield* timesOf({ since, until, deliveredAfter })), limit }
    const page = yield* ask((client) => client.events.list({ query }))
    if (yield* Json) return yield* printJson(page)
    if (page.events.length > 0) {
      yield* print(
        headedTable(yield* width, [
          ["RECEIVED", "EVENT", "TYPE", "ACCOUNT", "WEBHOOK", "SINKS"],
          ...page.events.map(row),
        ]),
      )
    }
    const found = page.events.length === 0 ? "no match in " : ""
    const looked = `${found}${count(page.looked, "event")} searched`
    const back = page.lookedTo === 0 ? "" : `, back to ${instant(page.lookedTo)}`
    if (page.next !== undefined) yield* say(`${looked}${back}; for older ones: --before ${plain(page.next)}`)
    else if (page.events.length === 0) yield* say(`${looked}${back}: the journal holds no others`)
  }),
).pipe(
  Command.withExamples([
    { command: "relay events --outcome dead", description: "Events that are dead letters of a sink" },
    {
      command: 'relay events --account acct_1 --type "appointment.**" --since "2 days"',
      description: "An account's appointments of two days",
    },
    { command: "relay events --outcome unrouted", description: "Events that no route matches" },
  ]),
)
