/**
 * The running relay's status as text: problems first, worst on top, then the
 * journal, the lanes and the signing secrets.
 *
 * Red is what needs an operator: the journal is full, broken or red, a lane
 * can't continue by itself, a webhook has no valid secret left, or a certificate
 * has expired. Yellow is what recovers by itself or can wait: a sink that is
 * down, a secret or a certificate that is about to expire, a reload that was refused, requests that were refused.
 */
import type { Lane, Status } from "../../admin/Api.ts"
import { quarantine } from "../../event/Event.ts"
import * as certificates from "./certificatesTable.ts"
import { bytes, count, type Paint, plain, span, table } from "./output.ts"
import { refusalProblems } from "./refusalProblems.ts"
import type { Severity, StatusProblem } from "./StatusProblem.ts"
import { hasExpired, secretProblems, secretsTable } from "./secretsTable.ts"

const severities: readonly Severity[] = ["red", "yellow", "green"]

/** Too few failures to pause the lane, and no success since. */
const isFailing = ({ condition, message, backlog }: Lane): boolean =>
  condition === "running" && message !== "" && backlog > 0

export const severityOf = (lane: Lane): Severity => {
  const { condition, deadLetters, backlog } = lane
  if (condition === "misconfigured" || condition === "blocked" || condition === "failed") return "red"
  if (condition === "orphaned") return backlog > 0 ? "red" : "green"
  return condition === "running" && deadLetters === 0 && !isFailing(lane) ? "green" : "yellow"
}

const isJournalRed = ({ journal: { health } }: Status): boolean =>
  health === "full" || health === "broken" || health === "red"

export const isRed = (status: Status): boolean =>
  isJournalRed(status) ||
  status.lanes.some((lane) => severityOf(lane) === "red") ||
  status.webhooks.some((webhook) => hasExpired(webhook, status.now)) ||
  status.certificates.some((certificate) => certificates.hasExpired(certificate, status.now))

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
    ["SINK", "TYPE", "STATE", "BACKLOG", "OLDEST", "RETRYING", "DEAD LETTERS"],
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

const failing = ({ backlog, message }: Lane): string =>
  `${count(backlog, "event")} not delivered; the last attempt failed: ${message}`

/** Empty where the lane's message says what to do. */
const actions = ({ name, condition }: Lane): ReadonlyArray<string> => {
  if (condition === "waiting")
    return [`none needed, it is retried automatically; relay lanes resume ${name} retries now`]
  if (condition === "misconfigured")
    return ["fix the sink, and the lane resumes by itself; or fix its config, then relay reload"]
  if (condition === "failed") return ["the log has the cause, please report it"]
  return []
}

/** Problems of the journal, the lanes, the config and refused requests, worst first. */
export const problems = (status: Status): ReadonlyArray<StatusProblem> => {
  const { health, message } = status.journal
  const action = health === "red" ? "relay journal check, then relay journal acknowledge" : ""
  const ofJournal: StatusProblem = { name: "journal", severity: "red", lines: [health, ...message.split("\n")], action }
  const ofLanes = ordered(status.lanes).flatMap((lane): ReadonlyArray<StatusProblem> => {
    const severity = severityOf(lane)
    if (severity === "green") return []
    const letters = lane.deadLetters === 0 ? "" : `${count(lane.deadLetters, "dead letter")}`
    const state = lane.condition !== "running" ? [lane.condition, lane.message] : isFailing(lane) ? [failing(lane)] : []
    const what = [...state, letters].filter((_) => _ !== "")
    const action = [...actions(lane), ...(lane.deadLetters === 0 ? [] : [`relay dlq list --sink ${lane.name}`])]
    return [{ name: lane.name, severity, lines: [what.join("; ")], action: action.join("; ") }]
  })
  const { loadedAt, refusal } = status.config
  const since = `the last reload was refused; the config of ${new Date(loadedAt).toISOString()} stays in force`
  const ofConfig: StatusProblem = {
    name: "config",
    severity: "yellow",
    lines: [since, ...refusal.split("\n")],
    action: "relay validate, then relay reload",
  }
  return [
    ...(isJournalRed(status) ? [ofJournal] : []),
    ...ofLanes,
    ...(refusal === "" ? [] : [ofConfig]),
    ...refusalProblems(status),
  ]
}

export const render = (status: Status, style: Paint): string => {
  const { version, configFile, startedAt, now, draining, journal, lanes } = status
  const all = [...problems(status), ...secretProblems(status), ...certificates.certificateProblems(status)].toSorted(
    (a, b) => severities.indexOf(a.severity) - severities.indexOf(b.severity),
  )
  const shown = all.map(({ name, severity, lines, action }) => {
    const advice = action === "" ? "" : `\n  what to do: ${plain(action)}`
    return `${style(severity, name)}: ${lines.map(plain).join("\n  ")}${advice}`
  })
  const filling = journal.filling > 0 ? ` (${journal.filling} % full)` : ""
  return [
    ...shown.flatMap((problem) => [problem, ""]),
    `relay ${plain(version)} with ${plain(configFile)}, up ${span(now - startedAt)}${draining ? ", draining" : ""}`,
    `journal ${journal.health}: ${count(journal.head, "event")} so far, ${bytes(journal.usedBytes)} of ${bytes(journal.maxBytes)}${filling}`,
    ...status.work.map(({ what, share }) => `in progress: ${plain(what)}, ${Math.floor(share * 100)} %`),
    "",
    lanesTable(lanes, now),
    "",
    secretsTable(status),
    ...(status.certificates.length === 0 ? [] : ["", certificates.certificatesTable(status)]),
  ].join("\n")
}
