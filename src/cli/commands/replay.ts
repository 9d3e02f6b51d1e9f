/** `relay replay`: replays events from the journal. */
import { Effect, Fiber, Option } from "effect"
import { Argument, Command } from "effect/cli"
import type { Replay, ReplayRequest } from "../../admin/replay/ReplayReport.ts"
import { firstSignal } from "../../runtime/Runtime.ts"
import { commandLine, followed, hasEnded, notes, preview, queued } from "../reports/replayReport.ts"
import { ask } from "../support/adminClient.ts"
import { failed, usage } from "../support/CommandError.ts"
import { argument, Config, given, Json, text, toggle, withExamples } from "../support/flags.ts"
import {
  count,
  headedTable,
  instant,
  plain,
  print,
  printDone,
  printJson,
  say,
  sayWhole,
  width,
} from "../support/output.ts"
import { Program } from "../support/Program.ts"
import { eventFlags, rate, sayUnknown, selectionOf } from "../support/selection.ts"

const flags = {
  event: argument("event", "Only this event: its id, or its place in the log (seq_42)").pipe(Argument.optional),
  to: text("to", "SINK", "Send to this sink, whatever the routes say"),
  routed: toggle(
    "routed",
    "Send each event to the sinks that it was routed to; of these, only to those that --sink, --outcome and --ended-… select",
  ),
  ...eventFlags,
  after: text("after", "PLACE", "Only beyond this place, which an earlier replay that stopped has printed"),
  through: text("through", "PLACE", "No further than this place (default: the newest event)"),
  all: toggle("all", "All events in the journal"),
  rate,
  dryRun: toggle("dry-run", "Show how many events would be sent and which, and send nothing"),
}

type Flags = Command.Command.Config.Infer<typeof flags>

/** Returns the replay that the user requests. Omitting all selectors never selects everything. */
const requestOf = Effect.fnUntraced(function* (flags: Flags) {
  const { event, to: target, routed, all, dryRun, after, through } = flags
  if (Option.isSome(target) === routed) {
    return yield* usage("say where to: --to SINK, or --routed for the sinks that each event was routed to")
  }
  const events: ReplayRequest["events"] = {
    ...given({ id: event, after, through }),
    ...(yield* selectionOf(flags)),
  }
  const isFiltered = Object.keys(events).length > 0
  if (isFiltered === all) {
    return yield* usage(
      all
        ? "give --all alone, or say which events"
        : "say which events: an id, or filters such as --sink, --outcome and --since; --all for everything",
    )
  }
  const to: ReplayRequest["to"] = Option.isSome(target) ? { sink: target.value } : "routed"
  return { events, to, dryRun, ...given({ rate: flags.rate }) } satisfies ReplayRequest
})

const printDryRun = Effect.fnUntraced(function* (replay: Replay) {
  yield* print(`dry run, nothing was sent: ${queued(replay)}`)
  if (replay.count > 0) yield* print(preview(replay, yield* width))
})

/** Prints the result of a replay that has ended. */
const printEnd = Effect.fnUntraced(function* (replay: Replay) {
  const isFinished = replay.state === "finished"
  if (yield* Json) yield* printJson(replay)
  else {
    if (replay.dryRun) yield* printDryRun(replay)
    else if (isFinished) yield* print(queued(replay))
    for (const note of notes(replay)) yield* print(`  ${note}`)
  }
  const { command } = yield* Program
  const file = yield* Config
  const { id } = replay.events
  if (isFinished && id !== undefined && replay.count === 0) {
    return yield* failed(`the journal has no event ${plain(id)} to send`)
  }
  if (isFinished) {
    return replay.dryRun && replay.count > 0
      ? yield* sayWhole(`\nto send them: ${commandLine(command, file, replay)}`)
      : undefined
  }
  const sent = replay.dryRun ? "nothing was sent" : `${count(replay.count, "event")} queued again until then`
  const why = replay.message === "" ? "" : `: ${plain(replay.message)}`
  const rest = commandLine(command, file, replay, replay.reached === "" ? {} : { after: replay.reached })
  return yield* failed(
    `${replay.state} at ${Math.floor(replay.share * 100)} %, ${sent}${why}${replay.dryRun ? "" : `\n  to send the rest: \`${rest}\``}`,
  )
})

const list = Command.make(
  "list",
  {},
  Effect.fn(function* () {
    const replays = yield* ask((client) => client.replays.list())
    if (yield* Json) return yield* printJson(replays)
    if (replays.length === 0) return yield* say("no replay since the relay started")
    yield* print(
      headedTable(yield* width, [
        ["ID", "STATE", "DONE", "EVENTS", "TO", "STARTED"],
        ...replays.map((replay) => [
          replay.id,
          `${replay.state}${replay.dryRun ? " (dry run)" : ""}`,
          `${Math.floor(replay.share * 100)} %`,
          String(replay.count),
          replay.to === "routed" ? "as routed" : replay.to.sink,
          instant(replay.startedAt),
        ]),
      ]),
    )
  }),
).pipe(Command.withDescription("List the replays that run, and the last that ended"))

const cancel = Command.make(
  "cancel",
  { id: argument("id", "An id as `replay list` shows it") },
  Effect.fn(function* ({ id }) {
    const replay = yield* ask((client) => client.replays.cancel({ params: { id } }))
    yield* printDone(replay, `${replay.state}: ${queued(replay)}`)
  }),
).pipe(Command.withDescription("Cancel a replay; events that it has queued are delivered"))

export const replay = Command.make(
  "replay",
  flags,
  Effect.fn(function* (flags) {
    const payload = yield* requestOf(flags)
    // Started before the replay, so that a signal during its start also cancels it. Otherwise the replay would continue
    // unattended.
    const signal = yield* Effect.forkChild(firstSignal, { startImmediately: true })
    const started = yield* ask((client) => client.replays.start({ payload }))
    const cancelled = Effect.andThen(
      Fiber.join(signal),
      ask((client) => client.replays.cancel({ params: { id: started.id } })),
    )
    const ended = hasEnded(started) ? started : yield* Effect.raceFirst(followed(started), cancelled)
    yield* Fiber.interrupt(signal)
    yield* printEnd(ended)
    if (ended.count === 0 && !(yield* Json)) yield* sayUnknown(ended.events)
  }),
).pipe(
  Command.withSubcommands([list, cancel]),
  withExamples({
    "relay replay evt_8sZ2kQ --routed": "One event, to the sinks that it was routed to",
    "relay replay --account acct_1 --to lake --dry-run": "Count an account's events, and show the first",
    'relay replay --to lake --since "2 hours"': "The last two hours",
    "relay replay --sink crm --outcome dropped --since yesterday --routed":
      "Events that were dropped at crm, to crm again",
    "relay replay --to audit --since 2026-11-20 --until 2026-11-21 --type 'appointment.**'": "One day's appointments",
    "relay replay --outcome unrouted --to lake": "Events that no route matched",
  }),
)
