/** `relay dlq …`: events that could not be delivered, with the error of every attempt. */
import { Effect, Option } from "effect"
import { Argument, Command } from "effect/cli"
import type { Replayed, Selection } from "../../admin/api/DeadLetterApi.ts"
import { quarantine } from "../../event/Event.ts"
import { parseLetterId } from "../../journal/LaneInfo.ts"
import { attemptRows } from "../reports/eventReport.ts"
import { newerNotes, preview } from "../reports/replayReport.ts"
import { ask, withProgressBar } from "../support/adminClient.ts"
import { failed, usage } from "../support/CommandError.ts"
import { argument, given, Json, limit, text, toggle, withExamples } from "../support/flags.ts"
import {
  count,
  headedTable,
  instant,
  plain,
  print,
  printDone,
  printJson,
  printWhole,
  say,
  table,
  width,
} from "../support/output.ts"
import { letterFlags, rate, sayUnknown, selectionOf } from "../support/selection.ts"

const all = toggle("all", "All dead letters")
const ids = argument("id", "Ids as `dlq list` shows them, such as lake:42").pipe(Argument.variadic())

const choosing = { id: ids, ...letterFlags, all }

/** Requires ids, a filter or `--all`, so that omitting all of them never selects everything. */
export const selection = Effect.fnUntraced(function* (chosen: Command.Command.Config.Infer<typeof choosing>) {
  const filter = yield* selectionOf(chosen)
  const [first, ...rest] = chosen.id
  const filtered = Object.keys(filter).length > 0
  const ways = [first !== undefined, filtered, chosen.all].filter(Boolean).length
  if (ways === 0) return yield* usage("name dead letters: give ids, --all, or filters such as --sink and --since")
  if (ways > 1) return yield* usage("give only one of: ids, filters such as --sink and --since, --all")
  const selected: Selection = first === undefined ? filter : { ids: [first, ...rest] }
  return selected
})

const list = Command.make(
  "list",
  {
    ...letterFlags,
    limit,
    before: text("before", "ID", "Only older than this one, for the next page"),
  },
  Effect.fn(function* ({ limit, before, ...flags }) {
    const selected = yield* selectionOf(flags)
    if (Option.isSome(before) && parseLetterId(before.value) === undefined) {
      return yield* usage(`--before ${plain(before.value)}: give an id as \`dlq list\` shows it, such as lake:42`)
    }
    const query = { ...selected, ...given({ before }), limit }
    const letters = yield* ask((client) => client.deadLetters.list({ query }))
    if (yield* Json) return yield* printJson(letters)
    if (letters.length === 0) {
      yield* say("no dead letters")
      return yield* sayUnknown(selected)
    }
    yield* print(
      headedTable(yield* width, [
        ["ID", "TYPE", "EVENT", "AT", "ATTEMPTS", "WHY"],
        ...letters.map((letter) => [
          letter.id,
          letter.type || "-",
          letter.eventId || "-",
          instant(letter.at),
          String(letter.attempts.length),
          letter.attempts.at(-1)?.message ?? "",
        ]),
      ]),
    )
    if (letters.some(({ lane }) => lane === quarantine)) {
      yield* say("`relay dlq replay` routes what is in _quarantine again, once the config accepts it")
    }
    const oldest = letters.at(-1)
    if (oldest !== undefined && letters.length === limit) {
      yield* say(`for older ones: --before ${plain(oldest.id)}`)
    }
  }),
).pipe(Command.withDescription("List dead letters, newest first"))

const show = Command.make(
  "show",
  { id: argument("id", "An id as `dlq list` shows it, such as lake:42") },
  Effect.fn(function* ({ id }) {
    const letter = yield* ask((client) => client.deadLetters.show({ params: { id } }))
    if (yield* Json) return yield* printJson(letter)
    yield* print(
      table([
        ["id", letter.id],
        ["event", letter.eventId || "-"],
        ["type", letter.type || "-"],
        ["account", letter.accountId || "-"],
        ["webhook", letter.webhook],
        ["received", instant(letter.receivedAt)],
        ["dead since", instant(letter.at)],
        ...attemptRows("attempt", letter.attempts),
      ]),
    )
    if (letter.lane === quarantine) {
      yield* print("")
      yield* print(`It is in quarantine. Once the config accepts it: relay dlq replay ${plain(letter.id)}`)
    }
    yield* print("")
    if (letter.erased !== undefined) return yield* print(`Its body was erased on ${instant(letter.erased)}.`)
    yield* printWhole(Buffer.from(letter.body, "base64").toString("utf8").split("\n").map(plain).join("\n"))
  }),
).pipe(Command.withDescription("Show one dead letter: every attempt with the answer to it, and the payload"))

/** Fails if given ids were not found, because an id may be mistyped or its dead letter removed. */
const refuseAbsent = (selected: Selection, found: number) => {
  const absent = "ids" in selected ? new Set(selected.ids).size - found : 0
  return absent === 0
    ? Effect.void
    : Effect.fail(failed(`${count(absent, "id")} not found; \`relay dlq list\` shows the dead letters`))
}

const printStayed = Effect.fnUntraced(function* (stayed: Replayed["stayed"]) {
  for (const { why, count: number } of stayed) {
    yield* print(`${count(number, "dead letter")} still in quarantine: ${plain(why)}`)
  }
})
const printErased = (erased: number) =>
  erased === 0
    ? Effect.void
    : print(`${count(erased, "dead letter")} left out: their bodies were erased; \`relay explain\` says when`)
const sumOf = (stayed: Replayed["stayed"]) => stayed.reduce((sum, { count }) => sum + count, 0)

const dryRun = Effect.fnUntraced(function* (payload: Selection) {
  const found = yield* ask((client) => client.deadLetters.preview({ payload }))
  if (yield* Json) return yield* printJson(found)
  yield* print(`dry run, nothing was sent: ${count(found.count, "dead letter")} would be queued for delivery again`)
  yield* printStayed(found.stayed)
  yield* printErased(found.erased)
  for (const note of newerNotes(found)) yield* print(note)
  if (found.count > 0) yield* print(preview(found, yield* width))
  yield* refuseAbsent(payload, found.count + found.erased + sumOf(found.stayed))
})

const replay = Command.make(
  "replay",
  { ...choosing, rate, dryRun: toggle("dry-run", "Show how many would be sent and which, and send nothing") },
  Effect.fn(function* (chosen) {
    const payload = yield* selection(chosen)
    if (chosen.dryRun) return yield* dryRun(payload)
    const replayed = yield* withProgressBar(
      "replay of dead letters",
      ask((client) => client.deadLetters.replay({ payload: { ...payload, ...given({ rate: chosen.rate }) } })),
    )
    if (yield* Json) yield* printJson(replayed)
    else {
      yield* print(`${count(replayed.count, "dead letter")} queued for delivery again`)
      yield* printStayed(replayed.stayed)
      yield* printErased(replayed.erased)
    }
    yield* refuseAbsent(payload, replayed.count + replayed.erased + sumOf(replayed.stayed))
  }),
).pipe(
  Command.withDescription(
    "Send dead letters to their sink again, oldest first; those in quarantine are routed by the current config",
  ),
)

const drop = Command.make(
  "drop",
  choosing,
  Effect.fn(function* (chosen) {
    const payload = yield* selection(chosen)
    const dropped = yield* withProgressBar(
      "drop of dead letters",
      ask((client) => client.deadLetters.drop({ payload })),
    )
    yield* printDone(dropped, `${count(dropped.count, "dead letter")} deleted`)
    yield* refuseAbsent(payload, dropped.count)
  }),
).pipe(Command.withDescription("Delete dead letters; their events are not delivered"))

export const dlq = Command.make("dlq").pipe(
  Command.withSubcommands([list, show, replay, drop]),
  withExamples({
    "relay dlq list --sink lake": "Events that could not be delivered to lake, and why",
    "relay dlq show lake:42": "One of them in full",
    "relay dlq replay --sink lake --dry-run": "Count lake's dead letters, and show the first",
    "relay dlq replay --sink lake": "Send all of lake's again, once it works",
    "relay dlq replay --sink lake --since yesterday": "Only events since yesterday, 00:00 UTC",
    "relay dlq replay --sink _quarantine": "Route what could not be routed, by the current config",
  }),
)
