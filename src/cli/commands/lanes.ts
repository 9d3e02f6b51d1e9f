/** `relay lanes …`: what waits for each sink, and how to steer it. */
import { Effect } from "effect"
import { Argument, Command } from "effect/cli"
import { ask } from "../support/adminClient.ts"
import { Json } from "../support/globalFlags.ts"
import { count, plain, print, printJson } from "../support/output.ts"
import { lanesTable } from "../support/statusReport.ts"

const name = Argument.String("name").pipe(Argument.withDescription("The lane: its sink's name"))

/** Says what was done: an object for a script, a sentence for a person. */
const tell = Effect.fnUntraced(function* (done: object, sentence: string) {
  if (yield* Json) yield* printJson(done)
  else yield* print(plain(sentence))
})

const list = Command.make(
  "list",
  {},
  Effect.fn(function* () {
    const { lanes, now } = yield* ask((client) => client.status())
    if (yield* Json) yield* printJson(lanes)
    else yield* print(lanesTable(lanes, now))
  }),
).pipe(Command.withDescription("List the lanes, worst first"))

const pause = Command.make(
  "pause",
  { name },
  Effect.fn(function* ({ name }) {
    yield* ask((client) => client.lanes.pause({ params: { name } }))
    yield* tell({ lane: name, paused: true }, `${name} is paused, across restarts too; its events are kept`)
  }),
).pipe(Command.withDescription("Send nothing more to a sink; its events are kept"))

const resume = Command.make(
  "resume",
  { name },
  Effect.fn(function* ({ name }) {
    yield* ask((client) => client.lanes.resume({ params: { name } }))
    yield* tell({ lane: name, paused: false }, `${name} goes on`)
  }),
).pipe(Command.withDescription("Let a lane go on that was paused or blocked"))

const move = Command.make(
  "move",
  {
    name: Argument.String("from").pipe(Argument.withDescription("A lane whose sink is no longer in the config")),
    to: Argument.String("to").pipe(Argument.withDescription("The sink that takes its events over")),
  },
  Effect.fn(function* ({ name, to }) {
    const moved = yield* ask((client) => client.lanes.move({ params: { name }, payload: { to } }))
    yield* tell({ from: name, to, ...moved }, `${count(moved.count, "event")} moved from ${name} to ${to}`)
  }),
).pipe(Command.withDescription("Hand what a removed sink left behind to another"))

const drop = Command.make(
  "drop",
  { name: Argument.String("name").pipe(Argument.withDescription("A lane whose sink is no longer in the config")) },
  Effect.fn(function* ({ name }) {
    const given = yield* ask((client) => client.lanes.drop({ params: { name } }))
    yield* tell({ lane: name, ...given }, `${name} is gone, and ${count(given.count, "event")} with it`)
  }),
).pipe(Command.withDescription("Give up what a removed sink left behind, for good"))

export const lanes = Command.make("lanes").pipe(
  Command.withDescription("See and steer what waits for each sink"),
  Command.withSubcommands([list, pause, resume, move, drop]),
  Command.withExamples([
    { command: "relay lanes pause lake", description: "Before maintenance of a sink" },
    { command: "relay lanes move lake lake2", description: "After a sink was replaced" },
  ]),
)
