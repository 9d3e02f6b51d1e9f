/** `relay journal …`: look after the journal's file. */
import { Effect, type Option, Terminal } from "effect"
import { Argument, Command, TerminalCapabilities } from "effect/cli"
import type { Imported } from "../../admin/ImportLine.ts"
import { ask } from "../support/adminClient.ts"
import { failed, io } from "../support/CommandError.ts"
import { loadConfig } from "../support/loadConfig.ts"
import { Json } from "../support/options.ts"
import { bytes, count, plain, print, printJson, say } from "../support/output.ts"
import { lazily } from "../support/Program.ts"
import { bar } from "../support/progressBar.ts"

const journals = lazily(() => import("../../journal/Journals.ts"))
const maintenance = Effect.flatMap(journals, ({ maintenance }) => lazily(maintenance))

const journal = Argument.String("journal").pipe(
  Argument.withDescription("A journal's file; that of the config without it"),
  Argument.optional,
)
const to = (what: string) => Argument.String("to").pipe(Argument.withDescription(what))

/** The config is read only where it is needed: a salvage must not fail for a secret that is out of reach. */
const pathOf = Effect.fnUntraced(function* (file: Option.Option<string>) {
  if (file._tag === "Some") return file.value
  const { fileOf } = yield* journals
  const path = fileOf((yield* loadConfig).config.journal)?.path
  return path ?? (yield* io("the journal of the config keeps no file: name one"))
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
      const holds = `${count(report.events, "event")}, ${count(report.retrying, "event")} waiting for a retry, ${count(report.deadLetters, "dead letter")}, ${count(report.lanes, "lane")}`
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
      ...(report.repaired ? ["the file could not be opened as it is: a copy was repaired"] : []),
      ...(report.fromPages === 0 ? [] : [`${count(report.fromPages, "event")} found only in its pages`]),
    ]
    yield* print(
      `${count(report.events, "event")} written to ${plain(to)}${lost.length === 0 ? "" : `; ${lost.join(", ")}`}`,
    )
  }),
).pipe(Command.withDescription("Write what can still be read from a damaged journal; changes nothing in it"))

const words = (owed: Imported): ReadonlyArray<string> => [
  `${count(owed.pending, "event")} on the way`,
  ...(owed.deadLetters === 0 ? [] : [`${count(owed.deadLetters, "dead letter")} brought back`]),
  ...(owed.known === 0 ? [] : [`${count(owed.known, "event")} known already`]),
]

const bring = Command.make(
  "import",
  {
    file: Argument.String("file").pipe(
      Argument.withDescription("A journal that was set aside, or what `journal salvage` wrote"),
    ),
  },
  Effect.fn(function* ({ file }) {
    const { read } = yield* lazily(() => import("../support/importFile.ts"))
    const { canAnimate } = yield* TerminalCapabilities.TerminalCapabilities
    const { display } = yield* Terminal.Terminal
    const isJson = yield* Json
    const erase = canAnimate ? "\r\u001b[K" : ""
    const report = yield* read(file, (slice, share, sofar) =>
      ask((client) => client.import({ payload: { events: slice } })).pipe(
        Effect.tap(() => {
          if (isJson) return Effect.void
          if (canAnimate) return Effect.ignore(display(`${erase}${bar(`import of ${file}`, share)}`))
          return sofar % plainEvery < slice.length ? say(`${count(sofar, "event")} so far`) : Effect.void
        }),
      ),
    ).pipe(
      Effect.catchTag("MaintenanceError", ({ message }) => Effect.fail(io(message))),
      Effect.ensuring(canAnimate && !isJson ? Effect.ignore(display(erase)) : Effect.void),
    )
    if (isJson) return yield* printJson({ from: file, ...report })
    const lost = [
      ...(report.damaged === 0 ? [] : [`${count(report.damaged, "record")} of it could not be read`]),
      ...report.strange.map(
        ({ lane, count: owed }) =>
          `${count(owed, "event")} for ${plain(lane)} not imported: the config has no such sink; add it and import again, or leave them`,
      ),
    ]
    yield* print([words(report).join(", "), ...lost.map((line) => `  ${line}`)].join("\n"))
  }),
).pipe(
  Command.withDescription(
    "Have the running relay deliver what another journal still owed, each event once; may be repeated",
  ),
)

/** Where nothing can be drawn, a line is written after so many events. */
const plainEvery = 10_000

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
  Command.withDescription("Look after the journal: check, backup, salvage, import, acknowledge"),
  Command.withSubcommands([check, backup, salvage, bring, acknowledge]),
  Command.withExamples([
    { command: "relay journal check", description: "The journal of relay.config.json" },
    { command: "relay journal backup /backup/journal.db", description: "A copy while the relay runs" },
    {
      command: "relay journal import data/journal.db.2026-11-20T08-00-00-000Z.damaged",
      description: "What a journal that was set aside still owed",
    },
    {
      command: "relay journal salvage events.ndjson old/journal.db",
      description: "What can be read of a damaged file",
    },
  ]),
)
