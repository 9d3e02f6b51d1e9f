/** `relay alerts …`: the alerts of sinks with `alert`, and commands to acknowledge, mute and resolve them. */
import { Effect } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import type { AlertDetails, AlertReport } from "../../admin/api/Api.ts"
import { ask } from "../support/adminClient.ts"
import { argument, Json, withExamples } from "../support/flags.ts"
import { headedTable, instant, print, printDone, printJson, table, width } from "../support/output.ts"
import { spanOf } from "../support/values.ts"

const row = ({ sink, id, status, type, account, count, first, last, messages, ...alert }: AlertReport) => {
  const { remindsAt, mutedUntil } = alert
  const state = mutedUntil === undefined ? status : `${status} until ${instant(mutedUntil)}`
  return [
    ...[sink, String(id), state, String(count), instant(first), instant(last), String(messages)],
    ...[remindsAt === undefined ? "-" : instant(remindsAt), type || "-", account || "-"],
  ]
}

const list = Command.make(
  "list",
  {},
  Effect.fn(function* () {
    const alerts = yield* ask((client) => client.alerts.list())
    if (yield* Json) return yield* printJson(alerts)
    const titles = ["SINK", "ID", "STATE", "FAILURES", "SINCE", "NEWEST", "MESSAGES", "REMINDER", "TYPE", "ACCOUNT"]
    yield* print(
      alerts.length === 0
        ? 'there are no alerts: a sink has them if its config has "alert"'
        : headedTable(yield* width, [titles, ...alerts.map(row)]),
    )
  }),
).pipe(Command.withDescription("List the alerts, firing ones first"))

const named = {
  sink: argument("sink", "The sink that the alert was sent to"),
  id: Argument.Int("id").pipe(Argument.withDescription("The alert's id in the list")),
}

/** Shows an alert with its messages and the events behind it. */
const details = ({ alert, to, messages, events, hasMore }: AlertDetails, columns: number): string => {
  const { sink, id, status, type, account, count, first, last, remindsAt, mutedUntil } = alert
  const facts = [
    ["alert", `${id} of ${sink}`],
    ["sent to", to],
    ["state", mutedUntil === undefined ? status : `${status} until ${instant(mutedUntil)}`],
    ["failures", `${count}, the first at ${instant(first)}, the newest at ${instant(last)}`],
    ["newest", account === "" ? type : `${type} of ${account}`],
    ["reminder", remindsAt === undefined ? "-" : instant(remindsAt)],
  ]
  const sent = messages.map(({ sequence, action, at, outcome = "not kept", endedAt, tries }) => [
    ...[action, instant(at), outcome, endedAt === undefined ? "-" : instant(endedAt), String(tries ?? "-")],
    `seq_${sequence}`,
  ])
  const counted = events.map(({ sequence, id, type, account, receivedAt }) => [
    ...[id || `seq_${sequence}`, instant(receivedAt), type || "-", account || "-"],
  ])
  return [
    table(facts),
    ...(sent.length === 0
      ? []
      : [headedTable(columns, [["MESSAGE", "DECIDED", "OUTCOME", "SENT", "ATTEMPTS", "EVENT"], ...sent])]),
    ...(counted.length === 0 ? [] : [headedTable(columns, [["COUNTED", "RECEIVED", "TYPE", "ACCOUNT"], ...counted])]),
    ...(hasMore ? [`\`relay events --sink ${sink} --alert ${id}\` lists all that it counts`] : []),
  ].join("\n\n")
}

const show = Command.make(
  "show",
  named,
  Effect.fn(function* ({ sink, id }) {
    const found = yield* ask((client) => client.alerts.show({ params: { sink, id } }))
    if (yield* Json) yield* printJson(found)
    else yield* print(details(found, yield* width))
  }),
).pipe(Command.withDescription("Show an alert: what was sent to whom and when, and the events behind it"))

const ack = Command.make(
  "ack",
  named,
  Effect.fn(function* ({ sink, id }) {
    yield* ask((client) => client.alerts.acknowledge({ params: { sink, id } }))
    yield* printDone({ sink, alert: id }, `${sink}: no more reminders of alert ${id}`)
  }),
).pipe(Command.withDescription("Stop the reminders of an alert; its recovery is still sent"))

const resolve = Command.make(
  "resolve",
  named,
  Effect.fn(function* ({ sink, id }) {
    yield* ask((client) => client.alerts.resolve({ params: { sink, id } }))
    yield* printDone({ sink, alert: id }, `${sink}: alert ${id} is over; its next failure begins another`)
  }),
).pipe(Command.withDescription("End an alert; a sink with `resolve` sends that"))

const mute = Command.make(
  "mute",
  {
    ...named,
    for: Flag.String("for").pipe(
      Flag.withMetavar("SPAN"),
      Flag.withDescription("How long it sends nothing, such as 8h; it then continues by itself"),
    ),
  },
  Effect.fn(function* ({ sink, id, for: span }) {
    const query = { for: yield* spanOf("--for", span) }
    const { until } = yield* ask((client) => client.alerts.mute({ params: { sink, id }, query }))
    yield* printDone(
      { sink, alert: id, until },
      `${sink}: alert ${id} sends nothing until ${instant(until)}, also after a restart; its failures are counted`,
    )
  }),
).pipe(Command.withDescription("Send nothing about an alert for a time; muting it again replaces the end"))

export const alerts = Command.make("alerts").pipe(
  Command.withSubcommands([list, show, ack, mute, resolve]),
  withExamples({
    "relay alerts list": "What fires, since when, how often, and the next reminder",
    "relay alerts show oncall 4711": "What was sent and when, and the events behind it",
    "relay alerts ack oncall 4711": "It is being worked on",
    "relay alerts mute oncall 4711 --for 8h": "Nothing can be done before the morning",
    "relay alerts resolve oncall 4711": "It is over, and no recovery will come",
  }),
)
