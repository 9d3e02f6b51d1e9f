/**
 * `relay backtest`: runs a new config over the events that the journal keeps, and shows how its deliveries differ
 * from those of the running config.
 *
 * **Guarantee.** It only reads. It sends nothing, stores nothing, and asks nothing of the running relay. After each
 * page it rests for as long as the page took, so that it takes at most half of a processor, at the lowest priority.
 */
import { Effect, type Option } from "effect"
import { Command, Flag } from "effect/cli"
import type { RelayConfig } from "../../config/Config.ts"
import { defaultFile, embeddedName, installedFile } from "../../config/load/ConfigText.ts"
import type { Loaded } from "../../config/load/Load.ts"
import { quarantine } from "../../event/Event.ts"
import type { EpochMillis } from "../../event/Quantities.ts"
import { type CopiedStream, isDelivery } from "../../journal/JournalCopy.ts"
import { reading } from "../../journal/Journals.ts"
import * as Difference from "../../reload/Difference.ts"
import * as Pattern from "../../routing/Pattern.ts"
import { fileIdentity } from "../../runtime/Files.ts"
import { progressBar } from "../support/adminClient.ts"
import { failed, io, misconfigured, usage } from "../support/CommandError.ts"
import { type Allowed, Backtest, type Report, refused } from "../support/comparison.ts"
import { Config, Json, text, toggle, withExamples } from "../support/flags.ts"
import { absentIn, loadForCheck, loadJournal } from "../support/loadConfig.ts"
import { count, headedTable, instant, plain, print, printJson, say, width } from "../support/output.ts"
import { Program } from "../support/Program.ts"
import { timesOf } from "../support/values.ts"

/** Loads the two configs. Each must be named or found, and they must be two. */
const loadBoth = Effect.fnUntraced(function* (against: Option.Option<string>) {
  const after = yield* loadForCheck
  const before = yield* Effect.provideService(loadForCheck, Config, against)
  if (before.file === embeddedName) {
    const message = `there is neither ${defaultFile} here nor ${installedFile} to compare with: \`--against FILE\` names the running config`
    return yield* misconfigured(message)
  }
  if (fileIdentity(before.file) === fileIdentity(after.file)) {
    const message = `${plain(after.file)} is both the new and the running config: name the new one with \`-c FILE\`, or an earlier one with \`--against FILE\``
    return yield* usage(message)
  }
  return { before, after }
})

/** Returns what `--allow SINK` or `--allow SINK:PATTERN` permits. */
const allowedOf = Effect.fnUntraced(function* (text: string, configs: ReadonlyArray<RelayConfig>) {
  const [, sink = text, pattern] = /^([^:]*):(.*)$/.exec(text) ?? []
  const names = new Set([...configs.flatMap(({ sinks }) => sinks.map(({ name }) => name)), quarantine, refused])
  if (!names.has(sink)) {
    return yield* usage(
      `--allow ${plain(text)}: neither config has the sink ${plain(sink)}; they have ${[...names].join(", ")}`,
    )
  }
  if (pattern === undefined) return { sink }
  const problem = Pattern.problem(pattern)
  if (problem !== undefined) return yield* usage(`--allow ${plain(text)}: ${problem}`)
  const allowed: Allowed = { sink, types: Pattern.make(pattern) }
  return allowed
})

/**
 * Returns the sequence after which a stream has the events since a time. The wall clock may have been set back, so
 * single events below it may be younger.
 */
const placeOf = Effect.fnUntraced(function* ({ events, last }: CopiedStream, since: EpochMillis) {
  let [low, high] = [0, last]
  while (low < high) {
    const middle = Math.floor((low + high) / 2)
    const page = yield* events(middle)
    const [first, end] = [page[0], page.at(-1)]
    if (first === undefined || end === undefined || first.entry.event.receivedAt >= since) high = middle
    else if (end.entry.event.receivedAt >= since) return middle
    else low = end.entry.sequence
  }
  return low
})

/** Hands over the kept events received between two times, page after page. */
const eachEvent = Effect.fnUntraced(function* (
  streams: ReadonlyArray<CopiedStream>,
  since: EpochMillis,
  until: EpochMillis,
  backtest: Backtest,
  show: (share: number) => Effect.Effect<void>,
) {
  for (const [index, stream] of streams.entries()) {
    const from = since === 0 ? 0 : yield* placeOf(stream, since)
    for (let after = from; after < stream.last; ) {
      const [took, end] = yield* Effect.timed(
        Effect.map(stream.events(after), (page) => {
          for (const { entry } of page.filter(isDelivery)) {
            const { receivedAt } = entry.event
            if (receivedAt >= since && receivedAt < until && entry.sequence <= stream.last) backtest.add(entry)
          }
          return page.at(-1)?.entry.sequence
        }),
      )
      if (end === undefined) break
      after = end
      yield* show((index + Math.min(1, (after - from) / Math.max(1, stream.last - from))) / streams.length)
      yield* Effect.sleep(took)
    }
  }
})

const rate = ({ mean, most }: Report["alerts"][number]["before"]): string =>
  `${mean < 10 ? mean.toFixed(1) : Math.round(mean)}, at most ${most}`

const changeOf = ({ removed, added, why }: Report["sinks"][number]): string =>
  [
    ...removed.map((sink) => `- ${sink}`),
    ...added.map((sink) => `+ ${sink}`),
    ...(why === undefined ? [] : [`(${why})`]),
  ].join(" ")

const allowedText = (isAllowed: boolean): string => (isAllowed ? "allowed" : "")

const shownValue = (value: unknown): string => (value === undefined ? "nothing" : JSON.stringify(value))

const sinksTable = ({ sinks }: Report): ReadonlyArray<ReadonlyArray<string>> => [
  ["TYPE", "WEBHOOK", "EVENTS", "CHANGE", "EXAMPLE", ""],
  ...sinks.map((moved) => [
    moved.type || "-",
    moved.webhook,
    String(moved.events),
    changeOf(moved),
    moved.example,
    allowedText(moved.isAllowed),
  ]),
]

const pointersTable = ({ pointers }: Report, reveal: boolean): ReadonlyArray<ReadonlyArray<string>> => [
  ["SINK", "POINTER", "EVENTS", "CHANGE", "EXAMPLE", ""],
  ...pointers.map(({ sink, pointer, events, change, why, example, isAllowed, before, after }) => [
    sink,
    pointer || "-",
    String(events),
    change === "unrenderable"
      ? `dead letter: ${why}`
      : reveal
        ? `${change}: ${shownValue(before)} → ${shownValue(after)}`
        : change,
    example,
    allowedText(isAllowed),
  ]),
]

const printReport = Effect.fnUntraced(function* (report: Report, changes: ReadonlyArray<string>, reveal: boolean) {
  const columns = yield* width
  const part = (title: string, rows: ReadonlyArray<ReadonlyArray<string>>) =>
    rows.length === 1 ? Effect.void : print(`\n${title}\n${headedTable(columns, rows, ["WEBHOOK", "EXAMPLE"])}`)
  const { events, erased, first, last, moved, payloads, quarantined, alerts } = report
  const range = events === 0 ? "" : `, received from ${instant(first)} to ${instant(last)}`
  yield* print(`${count(events, "event")}${range}`)
  if (erased > 0) yield* print(`${count(erased, "event")} left out: the bodies were erased`)
  for (const line of changes) yield* print(`  ${plain(line)}`)
  yield* part("Sinks", sinksTable(report))
  yield* part("Payloads", pointersTable(report, reveal))
  yield* part("Alerts an hour", [
    ["SINK", "BEFORE", "AFTER"],
    ...alerts.map(({ sink, before, after }) => [sink, rate(before), rate(after)]),
  ])
  yield* print(
    [
      `\n${count(moved, "event")} to other sinks`,
      `${count(payloads.different, "payload")} of ${payloads.compared.toLocaleString("en-US")} different`,
      `quarantined ${quarantined.before} before, ${quarantined.after} after`,
    ].join(", "),
  )
})

const namesOf = (report: Report): ReadonlyArray<string> => [
  ...new Set([
    ...report.sinks.filter(({ isAllowed }) => !isAllowed).flatMap(({ removed, added }) => [...removed, ...added]),
    ...report.pointers.filter(({ isAllowed }) => !isAllowed).map(({ sink }) => sink),
  ]),
]

const outcomeOf = (
  { before, after }: { readonly before: Loaded; readonly after: Loaded },
  report: Report,
  unexpected: ReadonlyArray<string>,
) => ({
  ok: unexpected.length === 0,
  before: before.file,
  after: after.file,
  config: Difference.between(before.config, after.config),
  ...report,
  unexpected,
  ...absentIn(after),
})

export const backtest = Command.make(
  "backtest",
  {
    since: text(
      "since",
      "TIME",
      "Only events received at or after TIME: 7d for seven days ago (default: all that are kept)",
    ),
    until: text("until", "TIME", "Only events received before TIME"),
    against: text("against", "FILE", "The config to compare with (default: the one that commands use without -c)"),
    allow: Flag.String("allow").pipe(
      Flag.withMetavar("SINK[:PATTERN]"),
      Flag.withDescription(
        "Changes at this sink are expected, or only those of matching event types; _quarantine and _refused are names too; may be repeated",
      ),
      Flag.atLeast(0),
    ),
    allPayloads: toggle(
      "all-payloads",
      "Compare every payload, not only the first 1,000 of each type and sink and every 100th after them",
    ),
    reveal: toggle("reveal", "Show values of an example for each difference; they may be personal data"),
  },
  Effect.fn(function* ({ since, until, against, allow, allPayloads, reveal }) {
    const times = yield* timesOf({ since, until })
    const both = yield* loadBoth(against)
    const configs = [both.before.config, both.after.config]
    const allowed = yield* Effect.forEach(allow, (one) => allowedOf(one, configs))
    const backtest = new Backtest(both.before, both.after, { allow: allowed, isThorough: allPayloads, reveal })
    // The journal that relays use now has the events.
    const journal = yield* Effect.provideService(loadJournal, Config, against)
    const { show, erasedAfter } = yield* progressBar
    const { giveWay } = yield* Program
    giveWay?.()
    yield* Effect.scoped(
      Effect.gen(function* () {
        const { streams } = yield* reading(journal)
        yield* eachEvent(streams, times.since ?? 0, times.until ?? Number.POSITIVE_INFINITY, backtest, (share) =>
          show("backtest", share),
        )
      }),
    ).pipe(
      Effect.mapError(({ message }) => io(message)),
      erasedAfter,
    )
    const { report } = backtest
    const unexpected = namesOf(report)
    if (report.events === 0) yield* say("the journal keeps no events of this time, so nothing was compared")
    if (yield* Json) yield* printJson(outcomeOf(both, report, unexpected))
    else
      yield* printReport(report, Difference.between(both.before.config, both.after.config).map(Difference.show), reveal)
    if (unexpected.length === 0) return
    return yield* failed(
      (yield* Json)
        ? ""
        : `these sinks change: ${unexpected.map(plain).join(", ")}; if that is intended, \`--allow SINK\` says so`,
    )
  }),
).pipe(
  withExamples({
    "relay backtest -c new.json --since 7d": "What a new config would have done in the last week",
    "relay backtest -c new.json --since 7d --allow audit --allow 'oncall:appointment.meeting.**'":
      "Fail unless only these sinks change",
    "relay backtest --against old.json": "The running file against an earlier one",
  }),
)
