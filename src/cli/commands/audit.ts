/** `relay audit`: lists changes through the admin API, the command line or the page, and who made them. */
import { Effect } from "effect"
import { Command } from "effect/cli"
import type { AuditRecord } from "../../journal/AuditLog.ts"
import { ask } from "../support/adminClient.ts"
import { given, Json, limit, number, text, withExamples } from "../support/flags.ts"
import { headedTable, instant, print, printJson, say, width } from "../support/output.ts"
import { timesOf } from "../support/values.ts"

const resultOf = ({ result, note }: AuditRecord): string => (note === "" ? result : `${result}: ${note}`)

const table = (records: ReadonlyArray<AuditRecord>, width: number): string => {
  const isFleet = records.some(({ relay }) => relay !== "")
  return headedTable(width, [
    ["TIME", "WHO", "BY", ...(isFleet ? ["RELAY"] : []), "WHAT", "ON", "RESULT"],
    ...records.map((record) => {
      const { at, who, by, relay, what, on } = record
      return [instant(at), who, by, ...(isFleet ? [relay || "-"] : []), what, on || "-", resultOf(record)]
    }),
  ])
}

export const audit = Command.make(
  "audit",
  {
    since: text("since", "TIME", 'At or after TIME: 2026-11-20T08:00:00Z, or "2 hours" for two hours ago'),
    limit,
    before: number("before", "ID", "Only older than this record, for the next page"),
  },
  Effect.fn(function* ({ since, limit, before }) {
    const query = { ...given({ before }), ...(yield* timesOf({ since })), limit }
    const page = yield* ask((client) => client.audit({ query }))
    if (yield* Json) return yield* printJson(page)
    if (page.records.length === 0) return yield* say("no operation is recorded")
    yield* print(table(page.records, yield* width))
    if (page.next !== undefined) yield* say(`for older ones: --before ${page.next}`)
  }),
).pipe(
  withExamples({
    'relay audit --since "2 days"': "What was changed in two days",
    "relay audit --limit 1000 --json": "As JSON, for another log",
  }),
)
