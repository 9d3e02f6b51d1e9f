/** `relay journal …`: check, back up and restore the journal. */
import { Clock, Effect, Option } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import type { Imported } from "../../admin/api/ImportLine.ts"
import type { Checked } from "../../journal/JournalCopy.ts"
import { localUser } from "../../runtime/Files.ts"
import { ask, progressBar } from "../support/adminClient.ts"
import { failed, io, usage } from "../support/CommandError.ts"
import { argument, Json, withExamples } from "../support/flags.ts"
import { loadJournal } from "../support/loadConfig.ts"
import { bytes, count, plain, print, printDone, printJson, say } from "../support/output.ts"
import { lazily } from "../support/Program.ts"

const journals = lazily(() => import("../../journal/Journals.ts"))
const maintenance = Effect.flatMap(journals, ({ maintenance }) => lazily(maintenance))

const file = argument("journal", "The journal's file (default: the config's)").pipe(Argument.optional)
const to = (what: string) => argument("to", what)

/** Reads only the config's journal, because a salvage must not fail if a secret can't be read. */
const pathOf = Effect.fnUntraced(function* (file: Option.Option<string>) {
  if (file._tag === "Some") return file.value
  const { fileOf } = yield* journals
  const path = fileOf(yield* loadJournal)?.path
  return path ?? (yield* io("the journal of the config keeps no file: name one, or use the database's own tools"))
})

const asIoError = Effect.mapError(({ message }: { readonly message: string }) => io(message))

/** Checks a journal in a database. Reports whether there is one. */
const checkDatabase = Effect.fnUntraced(function* () {
  const { check } = yield* journals
  const config = yield* loadJournal
  const found = yield* asIoError(check(config))
  if (found === undefined) return false
  const sound = found.damaged === 0
  if (yield* Json) yield* printJson({ type: config.type, sound, ...found })
  else {
    const damaged = sound ? "" : `\n  ${count(found.damaged, "record")} damaged`
    yield* print(`${config.type}: ${sound ? "sound" : "NOT SOUND"}\n  ${holds(found)}${damaged}`)
  }
  if (!sound) return yield* failed("the journal is damaged: restore the database from its backup, or check its disk")
  return true
})

const holds = ({ events, retrying, deadLetters, lanes }: Omit<Checked, "damaged">): string =>
  `${count(events, "event")}, ${count(retrying, "event")} waiting for a retry, ${count(deadLetters, "dead letter")}, ${count(lanes, "lane")}`

const check = Command.make(
  "check",
  { file },
  Effect.fn(function* ({ file }) {
    if (Option.isNone(file) && (yield* checkDatabase())) return
    const path = yield* pathOf(file)
    const { check } = yield* maintenance
    const report = yield* asIoError(check(path))
    if (yield* Json) yield* printJson(report)
    else {
      const ranges = (name: string, found: typeof report.missing) => {
        const texts = found.map(([from, to]) => (from === to ? `${from}` : `${from} to ${to}`))
        return texts.length === 0 ? [] : [`${name}: ${texts.join(", ")}`]
      }
      const problems = [
        ...report.sqlite.map((message) => `SQLite: ${message}`),
        ...(report.damaged.length === 0 ? [] : [`damaged: ${report.damaged.join(", ")}`]),
        ...ranges("missing", report.missing),
        ...ranges("lost, as the relay has reported", report.lost),
      ]
      yield* print(
        [
          `${plain(report.path)}: ${report.sound ? "sound" : "NOT SOUND"}`,
          `  ${holds(report)}`,
          ...problems.map((_) => `  ${plain(_)}`),
        ].join("\n"),
      )
    }
    if (!report.sound) {
      return yield* failed(
        "the journal is damaged: `relay journal salvage TO` writes what can still be read, and `relay status` says how the relay handles it",
      )
    }
  }),
).pipe(Command.withDescription("Read the whole journal and check every record; works while a relay runs on it"))

const backup = Command.make(
  "backup",
  { to: to("Where to write the copy; a new file"), file },
  Effect.fn(function* ({ to, file }) {
    const path = yield* pathOf(file)
    const { backup } = yield* maintenance
    const written = yield* asIoError(backup(path, to))
    yield* printDone({ from: path, to, ...written }, `${bytes(written.bytes)} written to ${to}`)
  }),
).pipe(Command.withDescription("Write a consistent copy; works while a relay runs on it"))

const salvage = Command.make(
  "salvage",
  { to: to("Where to write the events, one JSON object a line; a new file"), file },
  Effect.fn(function* ({ to, file }) {
    const path = yield* pathOf(file)
    const { salvage } = yield* maintenance
    const report = yield* asIoError(salvage(path, to))
    if (yield* Json) return yield* printJson(report)
    const lost = [
      ...(report.damaged.length === 0 ? [] : [`${count(report.damaged.length, "record")} damaged`]),
      ...(report.unreadable === 0 ? [] : [`${count(report.unreadable, "part")} of the file could not be read`]),
      ...(report.repaired ? ["the file could not be opened: a copy was repaired and read"] : []),
      ...(report.fromPages === 0 ? [] : [`${count(report.fromPages, "event")} found by reading the file page by page`]),
    ]
    yield* print(
      `${count(report.events, "event")} written to ${plain(to)}${lost.length === 0 ? "" : `; ${lost.join(", ")}`}`,
    )
  }),
).pipe(Command.withDescription("Write the readable events of a damaged journal; changes nothing in it"))

const summary = (owed: Imported): ReadonlyArray<string> => [
  `${count(owed.pending, "event")} queued for delivery`,
  ...(owed.deadLetters === 0 ? [] : [`${count(owed.deadLetters, "dead letter")} restored`]),
  ...(owed.known === 0 ? [] : [`${count(owed.known, "event")} already in the journal`]),
]

const importEvents = Command.make(
  "import",
  {
    file: argument("file", "A journal that was moved aside, or the output of `journal salvage`"),
  },
  Effect.fn(function* ({ file }) {
    const { read } = yield* lazily(() => import("../support/importFile.ts"))
    const { show, erasedAfter } = yield* progressBar
    const report = yield* read(file, (slice, share, sofar) => {
      const inWords = sofar % plainEvery < slice.length ? say(`${count(sofar, "event")} so far`) : Effect.void
      return Effect.tap(
        ask((client) => client.import({ payload: { events: slice } })),
        show(`import of ${file}`, share, inWords),
      )
    }).pipe(erasedAfter)
    if (yield* Json) return yield* printJson({ from: file, ...report })
    const lost = [
      ...(report.damaged === 0 ? [] : [`${count(report.damaged, "record")} of it could not be read`]),
      ...report.strange.map(
        ({ lane, count: owed }) =>
          `${count(owed, "event")} for ${plain(lane)} not imported: the config has no such sink; add it and import again, or ignore them`,
      ),
    ]
    yield* print([summary(report).join(", "), ...lost.map((line) => `  ${line}`)].join("\n"))
  }),
).pipe(
  Command.withDescription(
    "Deliver the undelivered events of another journal, each once, through the running relay; can be repeated",
  ),
)

const copy = Command.make(
  "copy",
  {
    from: Flag.String("from").pipe(Flag.withDescription("The type of the journal to read")),
    to: Flag.String("to").pipe(Flag.withDescription("The type of the journal to write")),
    file: Flag.String("file").pipe(
      Flag.withDescription("The file of the journal that the config does not name (default: ./data/journal.db)"),
      Flag.optional,
    ),
  },
  Effect.fn(function* ({ from, to, file }) {
    const { copy, journalTypes, ofFile } = yield* journals
    const named = yield* loadJournal
    for (const [flag, type] of [
      ["--from", from],
      ["--to", to],
    ] as const) {
      if (Object.hasOwn(journalTypes, type)) continue
      return yield* usage(`${flag} ${plain(type)}: the types of journals are ${Object.keys(journalTypes).join(", ")}`)
    }
    if (from === to) {
      return yield* usage(`--from ${from} --to ${to}: a journal is copied into one of another type`)
    }
    const configOf = (type: string) => {
      const other = type === named.type ? named : ofFile(type, Option.getOrUndefined(file))
      return other === undefined
        ? failed(`the config names no journal of the type ${plain(type)}: name the config that does with -c`)
        : Effect.succeed(other)
    }
    const [source, target] = [yield* configOf(from), yield* configOf(to)]
    const { show, erasedAfter } = yield* progressBar
    let printedShare = 0
    const inWords = (share: number) => {
      if (share < printedShare + plainShare) return Effect.void
      printedShare = share
      return print(`${Math.floor(share * 100)} % of the events`)
    }
    const operation = {
      at: yield* Clock.currentTimeMillis,
      who: `user ${localUser()}`,
      by: "the command line",
      what: "journal copy",
      on: `from ${from}`,
      result: "done",
      note: "",
    } as const
    const counts = yield* copy(source, target, operation, (share) =>
      Effect.suspend(() => show(`copy from ${from} to ${to}`, share, inWords(share))),
    ).pipe(asIoError, erasedAfter)
    if (yield* Json) return yield* printJson({ from, to, ...counts })
    const parts = [
      `${count(counts.events, "event")} copied`,
      `${count(counts.retries, "event")} waiting for a retry`,
      count(counts.deadLetters, "dead letter"),
      ...(counts.known === 0 ? [] : [`${count(counts.known, "event")} copied before`]),
      ...(counts.damaged === 0 ? [] : [`${count(counts.damaged, "record")} could not be read`]),
    ]
    yield* print(parts.join(", "))
  }),
).pipe(
  Command.withDescription(
    "Copy a stopped relay's journal into one of another type: undelivered events, dead letters, history",
  ),
)

/** Without a terminal, a line is printed after each tenth of the work. */
const plainShare = 0.1

/** Without a terminal, a line is printed after this many events. */
const plainEvery = 10_000

const acknowledge = Command.make(
  "acknowledge",
  {},
  Effect.fn(function* () {
    yield* ask((client) => client.acknowledge())
    yield* printDone({ acknowledged: true }, "acknowledged: the alarm for everything found so far is cleared")
  }),
).pipe(Command.withDescription("Clear the running relay's journal alarm, once you have seen its cause"))

export const journal = Command.make("journal").pipe(
  Command.withSubcommands([check, backup, salvage, importEvents, copy, acknowledge]),
  withExamples({
    "relay journal check": "The journal of relay.config.json",
    "relay journal backup /backup/journal.db": "A copy while the relay runs",
    "relay journal import data/journal.db.2026-11-20T08-00-00-000Z.damaged":
      "Deliver the undelivered events of a journal that was moved aside",
    "relay journal copy --from sqlite --to postgres --file data/journal.db":
      "Move from a file to the database of the config, to run several relays on it",
    "relay journal salvage events.ndjson old/journal.db": "Write the readable events of a damaged file",
  }),
)
