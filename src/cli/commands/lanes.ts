/** `relay lanes …`: the lanes, and commands to pause, resume, move and drop them. */
import { Effect } from "effect"
import { Argument, Command } from "effect/cli"
import { ask } from "../support/adminClient.ts"
import { Json } from "../support/flags.ts"
import { count, print, printDone, printJson, width } from "../support/output.ts"
import { askStatus, lanesTable } from "../support/statusReport.ts"

const name = Argument.String("name").pipe(Argument.withDescription("The lane: its sink's name"))

const list = Command.make(
  "list",
  {},
  Effect.fn(function* () {
    const { lanes, now } = yield* askStatus
    if (yield* Json) yield* printJson(lanes)
    else yield* print(lanesTable(lanes, now, yield* width))
  }),
).pipe(Command.withDescription("List the lanes, worst first"))

const pause = Command.make(
  "pause",
  { name },
  Effect.fn(function* ({ name }) {
    yield* ask((client) => client.lanes.pause({ params: { name } }))
    yield* printDone({ lane: name, paused: true }, `${name} is paused, also after a restart; its events are kept`)
  }),
).pipe(Command.withDescription("Stop sending to a sink; its events are kept"))

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
    name: Argument.String("from").pipe(Argument.withDescription("A lane whose sink is no longer in the config")),
    to: Argument.String("to").pipe(Argument.withDescription("The sink that takes over its events")),
  },
  Effect.fn(function* ({ name, to }) {
    const moved = yield* ask((client) => client.lanes.move({ params: { name }, payload: { to } }))
    yield* printDone({ from: name, to, ...moved }, `${count(moved.count, "event")} moved from ${name} to ${to}`)
  }),
).pipe(Command.withDescription("Move the events of a removed sink to another sink"))

const drop = Command.make(
  "drop",
  { name: Argument.String("name").pipe(Argument.withDescription("A lane whose sink is no longer in the config")) },
  Effect.fn(function* ({ name }) {
    const given = yield* ask((client) => client.lanes.drop({ params: { name } }))
    yield* printDone({ lane: name, ...given }, `${name} is dropped, with ${count(given.count, "event")}`)
  }),
).pipe(Command.withDescription("Drop the events of a removed sink; they are not delivered"))

export const lanes = Command.make("lanes").pipe(
  Command.withSubcommands([list, pause, resume, move, drop]),
  Command.withExamples([
    { command: "relay lanes pause lake", description: "Before maintenance of a sink" },
    { command: "relay lanes move lake lake2", description: "After a sink was replaced" },
  ]),
)
