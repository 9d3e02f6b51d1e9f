/** `relay journal …`: look after the journal's file. */
import { Effect, type Option } from "effect"
import { Argument, Command } from "effect/cli"
import { ask } from "./Ask.ts"
import { failed, io } from "./CommandError.ts"
import { loadConfig } from "./Loading.ts"
import { Json } from "./Options.ts"
import { bytes, count, plain, print, printJson } from "./Output.ts"
import { lazily } from "./Program.ts"

const maintenance = lazily(() => import("../journal/Maintenance.ts"))

const journal = Argument.String("journal").pipe(
  Argument.withDescription("A journal's file; that of the config without it"),
  Argument.optional,
)
const to = (what: string) => Argument.String("to").pipe(Argument.withDescription(what))

/** The config is read only where it is needed: a salvage must not fail for a secret that is out of reach. */
const pathOf = Effect.fnUntraced(function* (file: Option.Option<string>) {
  if (file._tag === "Some") return file.value
  return (yield* loadConfig).config.journal.path
})

const asIo = Effect.mapError(({ message }: { readonly message: string }) => io(message))

const check = Command.make(
  "check",
  { journal },
  Effect.fn(function* ({ journal }) {
    const path = yield* pathOf(journal)
    const { check } = yield* maintenance
    const report = yield* asIo(check(path))
    if (yield* Json) yield* printJson(report)
    else {
      const lost = report.missing.map(([from, to]) => (from === to ? `${from}` : `${from} to ${to}`))
      const problems = [
        ...report.sqlite.map((words) => `SQLite: ${words}`),
        ...(report.damaged.length === 0 ? [] : [`damaged: ${report.damaged.join(", ")}`]),
        ...(lost.length === 0 ? [] : [`missing: ${lost.join(", ")}`]),
      ]
      const holds = `${count(report.events, "event")}, ${count(report.parked, "parked event")}, ${count(report.deadLetters, "dead letter")}, ${count(report.lanes, "lane")}`
      yield* print(
        [
          `${plain(report.path)}: ${report.sound ? "sound" : "NOT SOUND"}`,
          `  ${holds}`,
          ...problems.map((_) => `  ${plain(_)}`),
        ].join("\n"),
      )
    }
    if (!report.sound) {
      return yield* failed(
        "the journal is damaged: `relay journal salvage TO` writes what can still be read, and `relay status` says what the relay made of it",
      )
    }
  }),
).pipe(Command.withDescription("Read the whole journal and check every record; works while a relay runs on it"))

const backup = Command.make(
  "backup",
  { to: to("Where to write the copy; a new file"), journal },
  Effect.fn(function* ({ to, journal }) {
    const path = yield* pathOf(journal)
    const { backup } = yield* maintenance
    const written = yield* asIo(backup(path, to))
    if (yield* Json) yield* printJson({ from: path, to, ...written })
    else yield* print(`${bytes(written.bytes)} written to ${plain(to)}`)
  }),
).pipe(Command.withDescription("Write a consistent copy; works while a relay runs on it"))

const salvage = Command.make(
  "salvage",
  { to: to("Where to write the events, one JSON object a line; a new file"), journal },
  Effect.fn(function* ({ to, journal }) {
    const path = yield* pathOf(journal)
    const { salvage } = yield* maintenance
    const report = yield* asIo(salvage(path, to))
    if (yield* Json) return yield* printJson(report)
    const lost = [
      ...(report.damaged.length === 0 ? [] : [`${count(report.damaged.length, "record")} damaged`]),
      ...(report.unreadable === 0 ? [] : [`${count(report.unreadable, "part")} of the file could not be read`]),
    ]
    yield* print(
      `${count(report.events, "event")} written to ${plain(to)}${lost.length === 0 ? "" : `; ${lost.join(", ")}`}`,
    )
  }),
).pipe(Command.withDescription("Write what can still be read from a damaged journal; changes nothing in it"))

const acknowledge = Command.make(
  "acknowledge",
  {},
  Effect.fn(function* () {
    yield* ask((client) => client.acknowledge())
    if (yield* Json) yield* printJson({ acknowledged: true })
    else yield* print("acknowledged: the journal is no longer red for what was found so far")
  }),
).pipe(Command.withDescription("You have seen why the running relay's journal is red"))

export const journalCommand = Command.make("journal").pipe(
  Command.withDescription("Look after the journal: check, backup, salvage, acknowledge"),
  Command.withSubcommands([check, backup, salvage, acknowledge]),
  Command.withExamples([
    { command: "relay journal check", description: "The journal of relay.config.json" },
    { command: "relay journal backup /backup/journal.db", description: "A copy while the relay runs" },
    { command: "relay journal salvage events.ndjson data/journal.db.corrupt", description: "From a quarantined file" },
  ]),
)
