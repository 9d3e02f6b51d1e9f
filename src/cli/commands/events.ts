/** `relay events`: lists the journal's events with their outcome at each sink, and erases events. */
import { Effect, Option } from "effect"
import { Command } from "effect/cli"
import type { Erasure, ErasureRequest } from "../../admin/api/ErasureApi.ts"
import type { Event } from "../../admin/api/EventApi.ts"
import { sequenceOf } from "../../admin/api/EventSelection.ts"
import { selectionWords } from "../../admin/replay/ReplayCommand.ts"
import { nameOf } from "../reports/eventReport.ts"
import { ask, withProgressBar } from "../support/adminClient.ts"
import { failed, usage } from "../support/CommandError.ts"
import { given, Json, limit, number, text, toggle, withExamples } from "../support/flags.ts"
import { count, headedTable, instant, plain, print, printJson, say, width } from "../support/output.ts"
import { lazily } from "../support/Program.ts"
import { eventFlags, sayUnknown, selectionOf } from "../support/selection.ts"
import { timesOf } from "../support/values.ts"

const stateOf = ({ sink, outcome, collecting, at, tries = 0, copy }: Event["sinks"][number]): string => {
  if (collecting === true) return `${sink} collecting`
  const when = outcome === "delivered" && at !== undefined ? ` ${instant(at)}` : ""
  const after = outcome === "delivered" && tries > 1 ? ` after ${tries} attempts` : ""
  return `${sink} ${outcome}${when}${after}${copy === undefined ? "" : ` as seq_${copy}`}`
}

const row = (event: Event): ReadonlyArray<string> => {
  const { receivedAt, type, accountId, webhook, origin, sinks, copyOf, erased } = event
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
      ...(erased === undefined ? [] : [`(erased ${instant(erased)})`]),
    ].join(" "),
  ]
}

/** Returns the lines about other events whose bodies contain the object's id. */
const mentionLines = ({ count: events, first }: NonNullable<Erasure["mentions"]>): ReadonlyArray<string> => {
  if (events === 0) return ["no other event has the id in its body"]
  const others = events - first.length
  return [
    `not erased, but with the id elsewhere in the body: ${count(events, "event")}; \`relay explain\` shows each, and --event or --place erases it:`,
    ...first.map(({ sequence, id, type }) => `  seq_${sequence} ${plain(id || "-")} ${plain(type || "-")}`),
    ...(others === 0 ? [] : [`  and ${count(others, "other")}`]),
  ]
}

const erasedLines = (erasure: Erasure, isDry: boolean): ReadonlyArray<string> => {
  const { count: events, deadLetters, givenUp, before, mentions, notReached } = erasure
  const note = (amount: number, text: string) => (amount === 0 ? [] : [`  ${text}`])
  return [
    `${isDry ? "dry run, nothing was erased: " : ""}${count(events, "event")} ${isDry ? "would be " : ""}erased`,
    ...note(deadLetters, `${count(deadLetters, "dead letter")} among them: what is erased can't be replayed`),
    ...note(givenUp, `${count(givenUp, "event")} among them given up: a sink had yet to get what was erased`),
    ...note(before, `${count(before, "event")} erased before`),
    ...(mentions === undefined ? [] : mentionLines(mentions)),
    ...notReached.map((place) => `not reached: ${plain(place)}`),
  ]
}

const refuseUndelivered = ({ undelivered, first }: Erasure) => {
  if (undelivered === 0) return Effect.void
  const shown = first.map(
    ({ id, sequence, sinks }) => `\n  ${plain(id === "" ? `seq_${sequence}` : id)} for ${plain(sinks.join(", "))}`,
  )
  const others = undelivered - first.length
  const more = others === 0 ? "" : `\n  and ${count(others, "other")}`
  return failed(
    `${count(undelivered, "event")} not erased, because sinks have yet to get them; repeat the command later, or give them up with --give-up:${shown.join("")}${more}`,
  )
}

/** Erases events in the journal's file while no relay runs, and rewrites the file. */
const offline = (request: ErasureRequest) =>
  Effect.flatMap(
    lazily(() => import("../support/eraseOffline.ts")),
    ({ eraseOffline }) => eraseOffline(request),
  )

const erase = Command.make(
  "erase",
  {
    ...eventFlags,
    event: text("event", "ID", "The event with this id, and its copies"),
    place: text("place", "PLACE", "The event at this place in the log (seq_42), and its copies"),
    dryRun: toggle("dry-run", "Count what would be erased, and erase nothing"),
    giveUp: toggle("give-up", "Also erase what sinks have yet to get: it is not delivered any more"),
    offline: toggle(
      "offline",
      "Work on the journal's file while no relay runs, and rewrite the file without its free space",
    ),
  },
  Effect.fn(function* ({ event, place, dryRun, giveUp, offline: isOffline, ...flags }) {
    const selection = yield* selectionOf(flags)
    const selected = { ...given({ event, place }), ...selection }
    const isSelection = Object.keys(selection).length > 0
    const ways = [Option.isSome(event), Option.isSome(place), isSelection].filter(Boolean).length
    if (ways === 0) return yield* usage("name what to erase: --event ID, --place PLACE, or filters such as --object ID")
    if (ways > 1) return yield* usage("give only one of: --event, --place, filters such as --object and --since")
    if ([selected.event, selected.account].includes("")) return yield* usage("the id is empty")
    if (selected.place !== undefined && sequenceOf(selected.place) === undefined) {
      return yield* usage("a place in the log is seq_ and a number, such as seq_42")
    }
    const payload: ErasureRequest = { ...selected, ...(dryRun && { dryRun }), ...(giveUp && { giveUp }) }
    const erasure = yield* isOffline
      ? offline(payload)
      : withProgressBar(
          dryRun ? "dry run of an erasure" : "erasure",
          ask((client) => client.events.erase({ payload })),
        )
    if (yield* Json) yield* printJson(erasure)
    else yield* print(erasedLines(erasure, dryRun).join("\n"))
    yield* refuseUndelivered(erasure)
    if (erasure.count + erasure.before + erasure.undelivered === 0) {
      const name = selected.event ?? selected.place ?? selectionWords(selection).join(" ")
      const isPlace = selected.event !== undefined && sequenceOf(selected.event) !== undefined
      return yield* failed(
        `the journal holds no event of ${plain(name)}; \`relay events\` lists those that it has${isPlace ? ", and --place names one by its place in the log" : ""}`,
      )
    }
  }),
).pipe(
  Command.withDescription(
    "Overwrite the bodies, answers and signatures of selected events and their copies, and keep id, type, time and outcome",
  ),
)

export const events = Command.make(
  "events",
  {
    ...eventFlags,
    deliveredAfter: text("delivered-after", "TIME", "Only events that a sink got at or after TIME"),
    attemptsOver: number("attempts-over", "N", "Only events that took more than N attempts at a sink"),
    alert: number(
      "alert",
      "ID",
      "Only events that the alert with this id counts; alerts list has the ids, and --sink its sink",
    ),
    limit,
    before: text("before", "PLACE", "Only older than this place in the log, for the next page"),
  },
  Effect.fn(function* ({ deliveredAfter, attemptsOver, alert, before, limit, ...flags }) {
    const selected = yield* selectionOf(flags)
    const query = {
      ...selected,
      ...given({ attemptsOver, alert, before }),
      ...(yield* timesOf({ deliveredAfter })),
      limit,
    }
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
    else if (page.events.length === 0) {
      yield* say(
        `${looked}${back}: the journal holds no others${page.kept?.pruned === true ? "; older events are not kept any more" : ""}`,
      )
      yield* sayUnknown(selected)
    }
  }),
).pipe(
  Command.withSubcommands([erase]),
  withExamples({
    "relay events --sink lake --outcome dead": "Events that are dead letters of lake",
    'relay events --account acct_1 --type "appointment.**" --since "2 days"': "An account's appointments of two days",
    "relay events --outcome unrouted": "Events that no route matches",
    "relay events erase --object cli_1 --dry-run": "Count what an erasure would overwrite",
  }),
)
