/** `relay validate`: checks the config, and whether its sinks and a remote journal can be reached. */
import { Effect } from "effect"
import { Command } from "effect/cli"
import { toJson } from "../../config/diagnostics/Diagnostic.ts"
import { embeddedName, unwritten } from "../../config/load/ConfigText.ts"
import { requireCertificates } from "../../config/load/Load.ts"
import { checkSinks } from "../reports/checkSinks.ts"
import { checkJournal, checkJournalFile } from "../reports/doctorFindings.ts"
import { failed } from "../support/CommandError.ts"
import { Json, toggle, withExamples } from "../support/flags.ts"
import { absentIn, lacks, loadForHost, loadLacking, sayAbsent, sayWarnings } from "../support/loadConfig.ts"
import { count, paintMessages, plain, print, printJson, say, table } from "../support/output.ts"

export const validate = Command.make(
  "validate",
  {
    offline: toggle("offline", "Check the file only, without its sinks and without secrets that are absent"),
    strict: toggle(
      "strict",
      "Warnings are errors: those of the file, and what a sink that is reached can't reach itself",
    ),
  },
  Effect.fn(function* ({ offline, strict }) {
    const json = yield* Json
    const loading = Effect.flatMap(offline ? loadLacking : loadForHost, requireCertificates).pipe(
      Effect.filterOrFail(
        ({ file }) => file !== embeddedName,
        () => unwritten,
      ),
    )
    const loaded = yield* Effect.tapError(loading, (error) =>
      json ? printJson({ ok: false, file: error.file, diagnostics: toJson(error.diagnostics) }) : Effect.void,
    )
    const { file, config, warnings } = loaded
    const sinks = config.sinks.filter(({ name }) => !lacks(loaded, "sinks", name))
    const reached = offline ? [] : yield* checkSinks({ ...config, sinks })
    const looked =
      offline || lacks(loaded, "journal")
        ? []
        : [...(yield* checkJournal(config.journal)), ...(yield* checkJournalFile(config.journal))]
    const wrong = looked.filter(({ verdict }) => verdict === "wrong")
    const away = reached.filter((sink) => !sink.ok).map(({ sink }) => sink)
    const advised = reached.filter(({ advice }) => advice.length > 0).map(({ sink }) => sink)
    const warned = warnings.length + advised.length > 0 || looked.some(({ verdict }) => verdict === "warning")
    const ok = away.length + wrong.length === 0 && !(strict && warned)
    if (json) {
      yield* printJson({
        ok,
        file,
        diagnostics: toJson(warnings),
        ...absentIn(loaded),
        journal: looked,
        sinks: reached,
      })
      return ok ? undefined : yield* failed()
    }
    yield* sayWarnings(loaded)
    yield* sayAbsent(loaded)
    const warning = (yield* paintMessages)("yellow", "warning")
    for (const { sink, advice } of reached) for (const text of advice) yield* say(`${warning}: sink ${sink}: ${text}`)
    for (const { verdict, message } of looked) {
      if (verdict === "warning") yield* say(`${warning}: journal: ${message}`)
      else yield* print(`journal: ${message}`)
    }
    if (reached.length > 0) {
      yield* print(table(reached.map(({ sink, ok, message }) => [sink, ok ? "reached" : "NOT REACHED", message])))
    }
    if (wrong.length > 0) return yield* failed("the config is valid, but its journal can't be used")
    if (away.length > 0) {
      return yield* failed(`the config is valid, but these sinks can't be reached: ${away.join(", ")}`)
    }
    if (!ok) return yield* failed("the config is valid, but with --strict its warnings are errors")
    const amount = sinks.length === config.sinks.length ? "all" : `${sinks.length} of them`
    const checked = offline ? "" : `, ${amount} reached`
    yield* print(
      `${plain(file)}: valid, ${count(config.webhooks.length, "webhook")}, ${count(config.routes.length, "route")}, ${count(config.sinks.length, "sink")}${checked}`,
    )
  }),
).pipe(
  withExamples({
    "relay validate": "Check relay.config.json and its sinks",
    "relay validate --offline -c new.config.json":
      "Check a file on a machine without its secrets or access to its sinks",
  }),
)
