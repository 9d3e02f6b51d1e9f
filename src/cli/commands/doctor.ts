/**
 * `relay doctor`: checks everything that the relay needs: sinks, the API for client
 * details, journal, disk, clock, ports, secrets, certificates and the running relay.
 * Exits with 1 if it finds an error; warnings don't count.
 */
import { Clock, Effect } from "effect"
import { Command } from "effect/cli"
import { fileOf } from "../../journal/Journals.ts"
import { checkSinks, type SinkCheck } from "../reports/checkSinks.ts"
import {
  certificates,
  checkJournal,
  clients,
  clock,
  disk,
  type Finding,
  type Findings,
  finder,
  holding,
  ports,
  secrets,
  type Verdict,
} from "../reports/doctorFindings.ts"
import { failed } from "../support/CommandError.ts"
import { Json, withExamples } from "../support/flags.ts"
import { lacks, loadForHost } from "../support/loadConfig.ts"
import { count, type Paint, paint, plain, print, printJson, table } from "../support/output.ts"

const verdicts = { wrong: "red", warning: "yellow", ok: "green" } as const
const order: ReadonlyArray<Verdict> = ["wrong", "warning", "ok"]

const sink = ({ sink, ok, message, advice }: SinkCheck): Findings => {
  const at = finder("sink", sink)
  if (!ok) return [at("wrong", message)]
  return advice.length === 0 ? [at("ok", "reached")] : advice.map((one) => at("warning", one))
}

const file = (name: string, warnings: number): Finding =>
  finder("config", name)(
    warnings === 0 ? "ok" : "warning",
    warnings === 0 ? "valid" : `${count(warnings, "warning")}: \`relay validate --offline\` shows them`,
  )

/** Worst first. */
const ordered = (found: Findings): Findings =>
  found.toSorted((a, b) => order.indexOf(a.verdict) - order.indexOf(b.verdict))

export const render = (found: Findings, style: Paint): string => {
  const rows = ordered(found)
  const lines = table(rows.map(({ verdict, part, name, message }) => [verdict, part, name, message])).split("\n")
  return lines
    .map((line, index) => {
      const verdict = rows[index]?.verdict ?? "ok"
      return line.replace(verdict, style(verdicts[verdict], verdict))
    })
    .join("\n")
}

export const doctor = Command.make(
  "doctor",
  {},
  Effect.fn(function* () {
    const loaded = yield* loadForHost
    const { file: name, config, warnings, certificateFaults, absent } = loaded
    const journalFile = fileOf(config.journal)
    const [reached, ofClients, ofJournal, ofDisk, ofClock, { findings: ofPorts, runs }, now] = yield* Effect.all(
      [
        checkSinks({ ...config, sinks: config.sinks.filter(({ name }) => !lacks(loaded, "sinks", name)) }),
        clients(lacks(loaded, "clients") ? undefined : config.clients),
        lacks(loaded, "journal") ? Effect.succeed([]) : checkJournal(config.journal),
        journalFile === undefined ? Effect.succeed([]) : disk(journalFile),
        clock,
        ports(config, name),
        Clock.currentTimeMillis,
      ],
      { concurrency: "unbounded" },
    )
    const found = [
      file(name, warnings.length),
      ...absent.map(({ key, message }) =>
        finder("secret", key)("warning", `${message}, so what needs it is not checked`),
      ),
      ...reached.flatMap(sink),
      ...ofClients,
      ...ofJournal.map(({ verdict, message }) => finder("journal", config.journal.type)(verdict, message)),
      ...ofDisk,
      ...(journalFile === undefined ? [] : [holding(journalFile, runs, name)]),
      ofClock,
      ...ofPorts,
      ...secrets(config.webhooks, now),
      ...certificates(config, certificateFaults, now),
    ]
    const wrong = found.filter(({ verdict }) => verdict === "wrong")
    if (yield* Json) yield* printJson({ ok: wrong.length === 0, findings: ordered(found) })
    else yield* print(render(found, yield* paint))
    if (wrong.length > 0) {
      const names = wrong.map(({ part, name }) => `${part} ${plain(name)}`).join(", ")
      return yield* failed((yield* Json) ? "" : `problems found: ${names}`)
    }
  }),
).pipe(
  withExamples({
    "relay doctor": "Findings, worst first, and what to do",
    "relay doctor --json": "The findings for a script",
  }),
)
