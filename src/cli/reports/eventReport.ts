/** `relay explain EVENT_ID`: everything the running relay knows about an event. */
import { Effect, Option } from "effect"
import { absence, atTheSender, unsigned } from "../../admin/api/Absence.ts"
import type { EventReport, EventReports, Step } from "../../admin/api/EventApi.ts"
import { mask } from "../../event/Quoted.ts"
import type { Attempt } from "../../journal/Journal.ts"
import { type Explanation, reached } from "../../routing/Explanation.ts"
import { ask } from "../support/adminClient.ts"
import { failed, usage } from "../support/CommandError.ts"
import { Json } from "../support/flags.ts"
import {
  count,
  headedTable,
  instant,
  type Paint,
  paint,
  plain,
  print,
  printJson,
  say,
  table,
  toJson,
  width,
} from "../support/output.ts"

// Rows of a table with failed attempts and the receiver's answers.

/** Splits an answer into lines. Each is a row, so that a page of HTML stays readable. */
const lines = (answer: string): ReadonlyArray<string> =>
  answer === mask ? ["(--reveal shows the answer)"] : answer.split(/[\r\n]+/).filter((line) => line.trim() !== "")

export const attemptRows = (
  label: string,
  attempts: ReadonlyArray<Attempt>,
): ReadonlyArray<readonly [label: string, text: string]> =>
  attempts.flatMap(({ at, reason, message, answer }) => [
    [label, `${instant(at)}  ${reason}: ${message}`] as const,
    ...lines(answer ?? "").map((line) => ["", `  ${line}`] as const),
  ])

// A table with the routes' verdicts on an event and their reasons.

const describe = ({ verdict, because }: Explanation): readonly [verdict: string, because: string] => {
  switch (verdict) {
    case "matches":
      return ["matches", `by ${because}`]
    case "matches when":
      return ["may match", `where ${because}`]
    case "resolves":
      return ["matches", `ends ${because}`]
    case "no pattern matches":
      return ["-", `none of ${because} matches`]
    case "excepted":
      return ["-", `excepted by ${because}`]
    case "other webhook":
      return ["-", `only deliveries of the webhook ${because}`]
    case "outside hours":
      return ["-", `only within ${because}`]
    case "where differs":
      return ["-", `it does not hold that ${because}`]
  }
}

export const routesTable = (explanations: ReadonlyArray<Explanation>, width: number): string =>
  headedTable(width, [
    ["ROUTE", "VERDICT", "WHY", "SINKS"],
    ...explanations.map((explanation) => [explanation.route, ...describe(explanation), explanation.sinks.join(", ")]),
  ])

/** Returns an event's id, or its position in the log if it has none. */
export const nameOf = ({ id, sequence }: { readonly id: string; readonly sequence: number }): string =>
  id || `seq_${sequence}`

/** Returns the reasons why sinks make no attempts, in addition to the timeline. */
const waitsOf = ({ sinks }: EventReport): ReadonlyArray<string> =>
  sinks.flatMap(({ sink, lane }) => (lane === undefined ? [] : [plain(`the sink ${sink} is ${lane}`)]))

/** The duration and response code of an attempt: ` (12 ms, answered 422)`, or an empty string without both. */
const measured = ({ took, code }: Partial<NonNullable<Step["attempt"]>> = {}): string => {
  const parts = [...(took === undefined ? [] : [`${took} ms`]), ...(code === undefined ? [] : [`answered ${code}`])]
  return parts.length === 0 ? "" : ` (${parts.join(", ")})`
}

const timelineRows = ({ timeline }: EventReport): ReadonlyArray<ReadonlyArray<string>> =>
  timeline.map(({ at, sink, what, attempt }) => [
    at === undefined ? "-" : instant(at),
    sink ?? "-",
    `${what}${measured(attempt)}`,
  ])

const answers = ({ sinks }: EventReport, width: number): ReadonlyArray<string> => {
  const rows = sinks.flatMap(({ sink, attempts }) =>
    attemptRows(
      sink,
      attempts.filter(({ answer = "" }) => answer !== ""),
    ),
  )
  return rows.length === 0 ? [] : ["", headedTable(width, [["SINK", "ANSWERS TO FAILED ATTEMPTS"], ...rows])]
}

const origins = { delivered: "received", replayed: "replay of what was received", moved: "moved; received" } as const

const facts = (report: EventReport): ReadonlyArray<ReadonlyArray<string>> => [
  ["type", report.type || "-"],
  ["account", report.accountId || "-"],
  [
    origins[report.origin],
    `${instant(report.receivedAt)} by webhook ${report.webhook}${report.webhookId === "" ? "" : ` (${report.webhookId})`}`,
  ],
  ["stored as", `seq_${report.sequence}, ${count(report.size, "byte")}`],
  ...(report.erased === undefined
    ? []
    : [["erased", `${instant(report.erased)}: body, signature and answers are gone`]]),
  [
    "signature",
    report.signature === "" && report.erased === undefined
      ? unsigned(report)
      : `${report.signature || "erased"}, verified by the secret ${report.secret}`,
  ],
  ...(report.problem === undefined ? [] : [["quarantined", report.problem]]),
]

const routing = ({ sinks, routes, type }: EventReport): string => {
  const names = sinks.map(({ sink }) => sink)
  const routed = names.length === 0 ? "no route matched" : `routed to ${names.join(", ")}`
  if (type === "") return `${routed} when it was accepted`
  const { sinks: now } = reached(routes)
  const isSame = now.length === names.length && now.every((sink) => names.includes(sink))
  return `${routed} when it was accepted${isSame ? "" : `; the current routes: ${now.join(", ") || "no sink"}`}`
}

const payloads = ({ sinks }: EventReport, style: Paint, reveal: boolean): ReadonlyArray<string> => {
  const masked = reveal ? "" : "; personal data is masked, --reveal shows it"
  return sinks.flatMap(({ sink, outcome, payload, sentIn, note }) => {
    if (payload === undefined && note === undefined) return []
    const isSent = outcome === "delivered" && sentIn === undefined
    const heading = style("bold", `what ${plain(sink)} ${isSent ? "was" : "would be"} sent`)
    if (payload === undefined) return ["", `${heading}: ${plain(note ?? "")}`]
    const alone =
      sentIn === undefined ? "" : `, of this event alone; a ${sentIn} of several has another body and idempotency key`
    return ["", `${heading}, by the current config${alone}${masked}:`, toJson(payload, 2)]
  })
}

export const render = (report: EventReport, style: Paint, reveal: boolean, width: number): string =>
  [
    style("bold", plain(nameOf(report))),
    table(facts(report)),
    "",
    ...(report.origin === "delivered" && report.routes.length > 0 ? [routesTable(report.routes, width), ""] : []),
    ...(report.origin === "delivered" ? [plain(routing(report)), ""] : []),
    headedTable(width, [["TIME", "SINK", "WHAT HAPPENED"], ...timelineRows(report)]),
    ...waitsOf(report),
    ...answers(report, width),
    ...payloads(report, style, reveal),
  ].join("\n")

/** Returns a remark if no event was found, or if there may be more. */
export const remark = ({ events, looked, lookedTo, next, kept }: EventReports, id: string): string => {
  const far = lookedTo === 0 ? "" : `${count(looked, "event")} searched, back to ${instant(lookedTo)}`
  if (next !== undefined) {
    return events.length > 0
      ? `there may be more of ${id}: ${far}`
      : `${id} is not found so far: ${far}. Older events are still being indexed; try again in a minute`
  }
  if (events.length > 0) return ""
  if (kept !== undefined) return `${absence(id, kept, instant)}\n${atTheSender(id)}`
  return `the journal holds no ${id}${far === "" ? "" : `: ${far}`}`
}

interface Asked {
  readonly webhook: Option.Option<string>
  readonly payload: Option.Option<string>
  readonly reveal: boolean
}

export const explainEvent = Effect.fnUntraced(function* (id: string, { webhook, payload, reveal }: Asked) {
  const query = reveal ? ({ reveal: "true" } as const) : {}
  const found = yield* ask((client) => client.events.explain({ params: { id }, query }))
  const events = found.events.filter((event) => Option.isNone(webhook) || event.webhook === webhook.value)
  const note = remark({ ...found, events }, plain(id))
  if (events.length === 0) return yield* failed(note)
  if (Option.isSome(payload)) {
    const sinks = events.flatMap(({ sinks }) => sinks)
    const sink = sinks.find((one) => one.sink === payload.value && one.payload !== undefined)
    if (sink !== undefined) return yield* printJson(sink.payload)
    const why = sinks.find((one) => one.sink === payload.value)?.note ?? "it was not routed to this sink"
    return yield* usage(`there is no payload of ${plain(id)} for ${plain(payload.value)}: ${plain(why)}`)
  }
  if (yield* Json) return yield* printJson({ ...found, events })
  const style = yield* paint
  const columns = yield* width
  yield* print(events.map((report) => render(report, style, reveal, columns)).join("\n\n"))
  if (note !== "") yield* say(`\n${note}`)
})
