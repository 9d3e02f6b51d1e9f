/** `relay dlq …`: events that a sink will not take, with every attempt's error. */
import { Effect, Option, Schema } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import type { DeadLetter, Selection } from "../../admin/Api.ts"
import { quarantine } from "../../event/Event.ts"
import { ask } from "../support/adminClient.ts"
import { failed, usage } from "../support/CommandError.ts"
import { Json } from "../support/globalFlags.ts"
import { count, plain, print, printJson, say, table } from "../support/output.ts"
import { during } from "../support/progressBar.ts"

const sink = Flag.String("sink").pipe(
  Flag.withMetavar("NAME"),
  Flag.withDescription("Only of this sink; _quarantine holds what was signed but could not be routed"),
  Flag.optional,
)
const type = Flag.String("type").pipe(
  Flag.withMetavar("PATTERN"),
  Flag.withDescription("Only event types that match, such as appointment.**"),
  Flag.optional,
)
const all = Flag.Boolean("all").pipe(
  Flag.withDescription("Every dead letter there is"),
  Flag.withoutNegation,
  Flag.withDefault(false),
)
const ids = Argument.String("id").pipe(
  Argument.withDescription("Ids as `dlq list` shows them, such as lake:42"),
  Argument.variadic(),
)

interface Filter {
  readonly sink: Option.Option<string>
  readonly type: Option.Option<string>
}

const filterOf = ({ sink, type }: Filter) => ({
  ...(Option.isSome(sink) ? { lane: sink.value } : {}),
  ...(Option.isSome(type) ? { type: type.value } : {}),
})

/** Ids, or a filter, or `--all`: never everything because nothing was said. */
export const selection = (chosen: Filter & { readonly id: ReadonlyArray<string>; readonly all: boolean }) => {
  const filter = filterOf(chosen)
  const [first, ...rest] = chosen.id
  const filtered = Object.keys(filter).length > 0
  const ways = [first !== undefined, filtered, chosen.all].filter(Boolean).length
  if (ways === 0) return Effect.fail(usage("say which: ids, --sink, --type, or --all"))
  if (ways > 1) return Effect.fail(usage("say it one way: ids, or --sink and --type, or --all"))
  const selected: Selection = first === undefined ? filter : { ids: [first, ...rest] }
  return Effect.succeed(selected)
}

const time = (millis: number): string => new Date(millis).toISOString()

const last = ({ attempts }: DeadLetter) => attempts.at(-1)

const list = Command.make(
  "list",
  {
    sink,
    type,
    limit: Flag.Int("limit").pipe(
      Flag.withDescription("How many, newest first"),
      Flag.withSchema(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 1000 }))),
      Flag.withDefault(50),
    ),
    before: Flag.String("before").pipe(
      Flag.withMetavar("ID"),
      Flag.withDescription("Only older than this one: the next page"),
      Flag.optional,
    ),
  },
  Effect.fn(function* ({ sink, type, limit, before }) {
    const query = { ...filterOf({ sink, type }), limit, ...(Option.isSome(before) ? { before: before.value } : {}) }
    const letters = yield* ask((client) => client.deadLetters.list({ query }))
    if (yield* Json) return yield* printJson(letters)
    if (letters.length === 0) return yield* say("no dead letters")
    yield* print(
      table([
        ["ID", "TYPE", "EVENT", "AT", "ATTEMPTS", "WHY"],
        ...letters.map((letter) => [
          letter.id,
          letter.type === "" ? "-" : letter.type,
          letter.eventId === "" ? "-" : letter.eventId,
          time(letter.at),
          String(letter.attempts.length),
          last(letter)?.message ?? "",
        ]),
      ]),
    )
    if (letters.some(({ lane }) => lane === quarantine)) {
      yield* say("what is in _quarantine is routed anew by `relay dlq replay`, once the config takes it")
    }
    const oldest = letters.at(-1)
    if (oldest !== undefined && letters.length === limit) {
      yield* say(`there may be older ones: --before ${plain(oldest.id)}`)
    }
  }),
).pipe(Command.withDescription("List dead letters, newest first"))

const show = Command.make(
  "show",
  { id: Argument.String("id").pipe(Argument.withDescription("An id as `dlq list` shows it, such as lake:42")) },
  Effect.fn(function* ({ id }) {
    const letter = yield* ask((client) => client.deadLetters.show({ params: { id } }))
    if (yield* Json) return yield* printJson(letter)
    yield* print(
      table([
        ["id", letter.id],
        ["event", letter.eventId === "" ? "-" : letter.eventId],
        ["type", letter.type === "" ? "-" : letter.type],
        ["account", letter.accountId === "" ? "-" : letter.accountId],
        ["webhook", letter.webhook],
        ["received", time(letter.receivedAt)],
        ["dead since", time(letter.at)],
        ...letter.attempts.map(({ at, reason, message }) => ["attempt", `${time(at)}  ${reason}: ${message}`]),
      ]),
    )
    if (letter.lane === quarantine) {
      yield* print("")
      yield* print(`It waits in quarantine. Once the config takes it: relay dlq replay ${plain(letter.id)}`)
    }
    yield* print("")
    yield* print(Buffer.from(letter.body, "base64").toString("utf8").split("\n").map(plain).join("\n"))
  }),
).pipe(Command.withDescription("Show one dead letter: every attempt, and the payload"))

/** Of ids that were named, some may be gone, or mistyped. */
const refuseAbsent = (selected: Selection, found: number) => {
  const absent = "ids" in selected ? new Set(selected.ids).size - found : 0
  return absent === 0
    ? Effect.void
    : Effect.fail(failed(`no dead letter: ${absent} of the ids; \`relay dlq list\` shows them`))
}

const replay = Command.make(
  "replay",
  { id: ids, sink, type, all },
  Effect.fn(function* (chosen) {
    const payload = yield* selection(chosen)
    const replayed = yield* during(
      "replay of dead letters",
      ask((client) => client.deadLetters.replay({ payload })),
    )
    const stayed = replayed.stayed.reduce((sum, { count }) => sum + count, 0)
    if (yield* Json) yield* printJson(replayed)
    else {
      yield* print(`${count(replayed.count, "dead letter")} on the way again`)
      for (const { why, count: number } of replayed.stayed) {
        yield* print(`${count(number, "dead letter")} still in quarantine: ${plain(why)}`)
      }
    }
    yield* refuseAbsent(payload, replayed.count + stayed)
  }),
).pipe(
  Command.withDescription(
    "Send dead letters to their sink again, with a fresh idempotency key; what is in quarantine is routed by the config of now",
  ),
)

const drop = Command.make(
  "drop",
  { id: ids, sink, type, all },
  Effect.fn(function* (chosen) {
    const payload = yield* selection(chosen)
    const dropped = yield* during(
      "drop of dead letters",
      ask((client) => client.deadLetters.drop({ payload })),
    )
    if (yield* Json) yield* printJson(dropped)
    else yield* print(`${count(dropped.count, "dead letter")} dropped for good`)
    yield* refuseAbsent(payload, dropped.count)
  }),
).pipe(Command.withDescription("Forget dead letters for good"))

export const dlq = Command.make("dlq").pipe(
  Command.withDescription("See dead letters, send them again, or drop them"),
  Command.withSubcommands([list, show, replay, drop]),
  Command.withExamples([
    { command: "relay dlq list --sink lake", description: "What the sink lake would not take, and why" },
    { command: "relay dlq show lake:42", description: "One of them in full" },
    { command: "relay dlq replay --sink lake", description: "All of lake's again, once it is mended" },
    {
      command: "relay dlq replay --sink _quarantine",
      description: "What could not be routed, by the config of now",
    },
  ]),
)
