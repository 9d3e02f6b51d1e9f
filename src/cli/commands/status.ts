/**
 * `relay status`: how the running relay is, worst first, and what to do.
 *
 * Exit code 1 when something is red, so that it serves as a check: the journal
 * is full, broken or red, a lane can't go on without a person, or a webhook has
 * no valid secret left. A sink that is merely away is yellow: the lane waits and
 * goes on by itself. So is a secret that soon expires, and a reload that was
 * refused.
 */
import { Effect } from "effect"
import { Command, Flag } from "effect/cli"
import type { Lane, Status } from "../../admin/Api.ts"
import { quarantine } from "../../event/Event.ts"
import { ask } from "../support/adminClient.ts"
import { failed } from "../support/CommandError.ts"
import { Json } from "../support/options.ts"
import { bytes, count, type Paint, paint, plain, print, printJson, span, table } from "../support/output.ts"
import { lazily } from "../support/Program.ts"
import { isShut, secretsTable, secretTroubles } from "../support/secretsTable.ts"

export type Severity = "red" | "yellow" | "green"

const severities: readonly Severity[] = ["red", "yellow", "green"]

/** Too few failures to pause the lane, and nothing has passed since. */
const isFailing = ({ condition, message, backlog }: Lane): boolean =>
  condition === "running" && message !== "" && backlog > 0

export const severityOf = (lane: Lane): Severity => {
  const { condition, deadLetters, backlog } = lane
  if (condition === "misconfigured" || condition === "blocked" || condition === "failed") return "red"
  if (condition === "orphaned") return backlog > 0 ? "red" : "green"
  return condition === "running" && deadLetters === 0 && !isFailing(lane) ? "green" : "yellow"
}

const journalRed = ({ journal: { health } }: Status): boolean =>
  health === "full" || health === "broken" || health === "red"

export const isRed = (status: Status): boolean =>
  journalRed(status) ||
  status.lanes.some((lane) => severityOf(lane) === "red") ||
  status.webhooks.some((webhook) => isShut(webhook, status.now))

/** Worst first, then by name; the quarantine shows when it holds something. */
const ordered = (lanes: ReadonlyArray<Lane>): ReadonlyArray<Lane> =>
  lanes
    .filter((lane) => lane.name !== quarantine || lane.deadLetters + lane.backlog > 0)
    .toSorted(
      (a, b) => severities.indexOf(severityOf(a)) - severities.indexOf(severityOf(b)) || a.name.localeCompare(b.name),
    )

const age = ({ oldestAt }: Lane, now: number): string => (oldestAt === 0 ? "-" : span(now - oldestAt))

export const lanesTable = (lanes: ReadonlyArray<Lane>, now: number): string =>
  table([
    ["SINK", "TYPE", "STATE", "BACKLOG", "OLDEST", "PARKED", "DEAD LETTERS"],
    ...ordered(lanes).map((lane) => [
      lane.name,
      lane.type === "" ? "-" : lane.type,
      lane.condition,
      String(lane.backlog),
      age(lane, now),
      String(lane.retrying),
      String(lane.deadLetters),
    ]),
  ])

/** What is the matter with the journal, a lane or the config. */
export interface Trouble {
  readonly name: string
  readonly severity: Severity
  readonly lines: ReadonlyArray<string>
  /** Empty where the lines say it. */
  readonly todo: string
}

const failing = ({ backlog, message }: Lane): string =>
  `${count(backlog, "event")} not delivered; the last attempt failed: ${message}`

/** Where a person stopped the lane, or must look, its message says it. */
const aboutSink = ({ name, condition }: Lane): ReadonlyArray<string> => {
  if (condition === "waiting") return [`wait, it is tried again by itself; relay lanes resume ${name} tries at once`]
  if (condition === "misconfigured")
    return ["mend the sink, and it goes on by itself; or its config, then relay reload"]
  if (condition === "failed") return ["nothing, it restarts by itself; the log has the cause, please report it"]
  return []
}

/** Worst first. */
export const troubles = (status: Status): ReadonlyArray<Trouble> => {
  const { health, message } = status.journal
  const todo = health === "red" ? "relay journal check, then relay journal acknowledge" : ""
  const ofJournal: Trouble = { name: "journal", severity: "red", lines: [health, ...message.split("\n")], todo }
  const ofLanes = ordered(status.lanes).flatMap((lane): ReadonlyArray<Trouble> => {
    const severity = severityOf(lane)
    if (severity === "green") return []
    const letters = lane.deadLetters === 0 ? "" : `${count(lane.deadLetters, "dead letter")}`
    const said = lane.condition !== "running" ? [lane.condition, lane.message] : isFailing(lane) ? [failing(lane)] : []
    const what = [...said, letters].filter((_) => _ !== "")
    const todo = [...aboutSink(lane), ...(lane.deadLetters === 0 ? [] : [`relay dlq list --sink ${lane.name}`])]
    return [{ name: lane.name, severity, lines: [what.join("; ")], todo: todo.join("; ") }]
  })
  const { loadedAt, refusal } = status.config
  const since = `the last reload was refused; the config of ${new Date(loadedAt).toISOString()} stays in force`
  const ofConfig: Trouble = {
    name: "config",
    severity: "yellow",
    lines: [since, ...refusal.split("\n")],
    todo: "relay validate, then relay reload",
  }
  return [...(journalRed(status) ? [ofJournal] : []), ...ofLanes, ...(refusal === "" ? [] : [ofConfig])]
}

export const render = (status: Status, style: Paint): string => {
  const { version, configFile, startedAt, now, draining, journal, lanes } = status
  const all = [...troubles(status), ...secretTroubles(status)].toSorted(
    (a, b) => severities.indexOf(a.severity) - severities.indexOf(b.severity),
  )
  const problems = all.map(({ name, severity, lines, todo }) => {
    const advice = todo === "" ? "" : `\n  what to do: ${plain(todo)}`
    return `${style(severity, name)}: ${lines.map(plain).join("\n  ")}${advice}`
  })
  const filling = journal.filling > 0 ? ` (${journal.filling} % full)` : ""
  return [
    ...problems.flatMap((problem) => [problem, ""]),
    `relay ${plain(version)} with ${plain(configFile)}, up ${span(now - startedAt)}${draining ? ", draining" : ""}`,
    `journal ${journal.health}: ${count(journal.head, "event")} so far, ${bytes(journal.usedBytes)} of ${bytes(journal.maxBytes)}${filling}`,
    ...status.work.map(({ what, share }) => `at work: ${plain(what)}, ${Math.floor(share * 100)} %`),
    "",
    lanesTable(lanes, now),
    "",
    secretsTable(status),
  ].join("\n")
}

export const status = Command.make(
  "status",
  {
    watch: Flag.Boolean("watch").pipe(
      Flag.withDescription(
        "Show it again each second until Ctrl-C; where no terminal is, a line when something changes",
      ),
      Flag.withoutNegation,
      Flag.withDefault(false),
    ),
  },
  Effect.fn(function* ({ watch }) {
    if (watch) return yield* (yield* lazily(() => import("../support/liveStatus.ts"))).watch
    const found = yield* ask((client) => client.status())
    if (yield* Json) yield* printJson({ red: isRed(found), ...found })
    else yield* print(render(found, yield* paint))
    if (isRed(found)) return yield* failed()
  }),
).pipe(
  Command.withDescription("Show how the running relay is, worst first; exits 1 when something is red"),
  Command.withExamples([
    { command: "relay status", description: "The journal, the lanes, and what to do about them" },
    { command: "relay status --watch", description: "The same, live" },
    { command: "relay status --json", description: "The same for a script" },
  ]),
)
