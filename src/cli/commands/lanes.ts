/** `relay lanes …`: the lanes, and commands to pause, resume, move and drop them. */
import { Effect, Option } from "effect"
import { Command, Flag, Prompt, TerminalCapabilities } from "effect/cli"
import { endings } from "../../journal/LaneInfo.ts"
import { askStatus, lanesTable } from "../reports/statusReport.ts"
import { ask } from "../support/adminClient.ts"
import { failed, usage } from "../support/CommandError.ts"
import { argument, Json, text, toggle, withExamples } from "../support/flags.ts"
import { count, instant, plain, print, printDone, printJson, width } from "../support/output.ts"
import { spanOf } from "../support/values.ts"

export const yes = toggle("yes", "Confirm without a question, for scripts")

/** Asks on a terminal whether to go on. Without one, it requires `--yes`. */
export const confirmed = Effect.fnUntraced(function* (isGiven: boolean, what: string) {
  if (isGiven) return
  const { canAnimate } = yield* TerminalCapabilities.TerminalCapabilities
  if (!canAnimate) return yield* usage(`${what}: confirm it with --yes`)
  const question = Prompt.Confirm({ message: `${what}. Go on?` })
  const isSure = yield* Effect.orElseSucceed(Prompt.run(question), () => false)
  if (!isSure) return yield* failed("nothing was changed")
})

const name = argument("name", "The lane: its sink's name")

const list = Command.make(
  "list",
  {},
  Effect.fn(function* () {
    const { lanes, now } = yield* askStatus
    if (yield* Json) yield* printJson(lanes)
    else yield* print(lanesTable(lanes, now, yield* width))
  }),
).pipe(Command.withDescription("List the lanes, worst first"))

const then = Flag.Literals("then", endings).pipe(
  Flag.withDescription(
    "When the pause ends: deliver its events, send them as one digest, or drop them; the last two for sinks that send alerts",
  ),
  Flag.withDefault("deliver"),
)

/** The words for how events received during a pause end. */
const fate = {
  deliver: "its events are kept",
  digest: "its events are kept, and sent as one digest then",
  drop: "its events are kept until then, and dropped",
} as const

const pause = Command.make(
  "pause",
  { name, for: text("for", "SPAN", "Resume it by itself after this time, such as 8h"), then, yes },
  Effect.fn(function* ({ name, for: span, then: ending, yes }) {
    const length = Option.isSome(span) ? yield* spanOf("--for", span.value) : undefined
    if (ending !== "deliver" && length === undefined) {
      return yield* usage(`--then ${ending} happens when the pause ends: say when with --for, such as --for 8h`)
    }
    // The relay refuses to mute a sink that sends no alerts, so there is nothing to confirm.
    const lane = ending === "drop" ? (yield* askStatus).lanes.find((lane) => lane.name === name) : undefined
    if (ending === "drop" && (lane === undefined || lane.alerts === true)) {
      yield* confirmed(yes, `the events that ${plain(name)} gets during the pause will never be sent to it`)
    }
    const query = length === undefined ? {} : { for: length, ending }
    const { until } = yield* ask((client) => client.lanes.pause({ params: { name }, query }))
    const end = until === undefined ? "" : ` until ${instant(until)}`
    yield* printDone(
      { lane: name, paused: true, ...(until !== undefined && { until, ending }) },
      `${name} is paused${end}, also after a restart; ${fate[ending]}`,
    )
  }),
).pipe(Command.withDescription("Stop sending to a sink, for good or for a time; its events are kept"))

const resume = Command.make(
  "resume",
  { name },
  Effect.fn(function* ({ name }) {
    yield* ask((client) => client.lanes.resume({ params: { name } }))
    yield* printDone({ lane: name, paused: false }, `${name} is resumed`)
  }),
).pipe(Command.withDescription("Resume a lane that is paused, waiting or blocked"))

const move = Command.make(
  "move",
  {
    name: argument("from", "A lane whose sink is no longer in the config"),
    to: argument("to", "The sink that takes over its events"),
  },
  Effect.fn(function* ({ name, to }) {
    const moved = yield* ask((client) => client.lanes.move({ params: { name }, payload: { to } }))
    yield* printDone({ from: name, to, ...moved }, `${count(moved.count, "event")} moved from ${name} to ${to}`)
  }),
).pipe(Command.withDescription("Move the events of a removed sink to another sink"))

const drop = Command.make(
  "drop",
  { name: argument("name", "A lane whose sink is no longer in the config") },
  Effect.fn(function* ({ name }) {
    const given = yield* ask((client) => client.lanes.drop({ params: { name } }))
    yield* printDone({ lane: name, ...given }, `${name} is dropped, with ${count(given.count, "event")}`)
  }),
).pipe(Command.withDescription("Drop the events of a removed sink; they are not delivered"))

export const lanes = Command.make("lanes").pipe(
  Command.withSubcommands([list, pause, resume, move, drop]),
  withExamples({
    "relay lanes pause lake": "Before maintenance of a sink",
    "relay lanes pause oncall --for 8h": "Mute a sink for the night",
    "relay lanes pause oncall --for 8h --then digest": "Mute it, and send one digest in the morning",
    "relay lanes move lake lake2": "After a sink was replaced",
  }),
)
