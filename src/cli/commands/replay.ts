/** `relay replay`: sends what the journal still holds to a sink again. */
import { Clock, Effect, Option } from "effect"
import { Command, Flag } from "effect/cli"
import { ask } from "../support/adminClient.ts"
import { usage } from "../support/CommandError.ts"
import { text } from "../support/flags.ts"
import { count, printDone } from "../support/output.ts"
import { timeFlag } from "../support/parseTime.ts"
import { withProgressBar } from "../support/progressBar.ts"

export const replay = Command.make(
  "replay",
  {
    sink: Flag.String("sink").pipe(Flag.withMetavar("NAME"), Flag.withDescription("The sink to send to")),
    since: Flag.String("since").pipe(
      Flag.withMetavar("TIME"),
      Flag.withDescription('Received from then on: 2026-11-20T08:00:00Z, or "2 hours" for two hours ago'),
    ),
    until: text("until", "TIME", "Received before then; by default now"),
    type: Flag.String("type").pipe(
      Flag.withMetavar("PATTERN"),
      Flag.withDescription("Only event types that match, such as appointment.**; may be repeated"),
      Flag.atLeast(0),
    ),
  },
  Effect.fn(function* ({ sink, since, until, type }) {
    const now = yield* Clock.currentTimeMillis
    const from = yield* timeFlag("since", since, now)
    const to = Option.isNone(until) ? now : yield* timeFlag("until", until.value, now)
    if (from >= to) return yield* usage("--since must be before --until")
    const payload = { sink, since: from, until: to, types: type }
    const replayed = yield* withProgressBar(
      `replay to ${sink}`,
      ask((client) => client.replay({ payload })),
    )
    yield* printDone({ ...payload, ...replayed }, `${count(replayed.count, "event")} queued for ${sink} again`)
  }),
).pipe(
  Command.withDescription("Send what the journal still holds to a sink again, whatever the routes say"),
  Command.withExamples([
    { command: 'relay replay --sink lake --since "2 hours"', description: "The last two hours" },
    {
      command: "relay replay --sink audit --since 2026-11-20 --until 2026-11-21 --type 'appointment.**'",
      description: "One day's appointments",
    },
  ]),
)
