/** The running relay's status as text: problems first, worst on top, then the journal, the lanes, the signing secrets and the certificates. */
import type { Lane, Status } from "../../admin/Api.ts"
import { health, laneLevel } from "../../admin/Health.ts"
import { byLevel, type Level, levelOf, type StatusProblem } from "../../admin/StatusProblem.ts"
import { quarantine } from "../../event/Event.ts"
import { bytes, count, headedTable, type Paint, plain, span } from "./output.ts"
import { certificatesTable, fleetTable, secretsTable } from "./statusTables.ts"

/** Worst first, then by name; the quarantine shows when it holds something. */
const ordered = (lanes: ReadonlyArray<Lane>): ReadonlyArray<Lane> =>
  lanes
    .filter((lane) => lane.name !== quarantine || lane.deadLetters + lane.backlog > 0)
    .toSorted((a, b) => byLevel(laneLevel(a), laneLevel(b)) || a.name.localeCompare(b.name))

const age = ({ oldestAt }: Lane, now: number): string => (oldestAt === 0 ? "-" : span(now - oldestAt))

/** The columns that a narrow terminal goes without, the first one first. */
const spare = ["TYPE", "OLDEST", "RETRYING"]

export const lanesTable = (lanes: ReadonlyArray<Lane>, now: number, width: number): string =>
  headedTable(
    width,
    [
      ["SINK", "TYPE", "STATE", "BACKLOG", "OLDEST", "RETRYING", "DEAD LETTERS"],
      ...ordered(lanes).map((lane) => [
        lane.name,
        lane.type || "-",
        lane.condition,
        String(lane.backlog),
        age(lane, now),
        String(lane.retrying),
        String(lane.deadLetters),
      ]),
    ],
    spare,
  )

/** Says from when on it counts, where that is less than the hour. */
const hourLine = ({ hour, now, fleet }: Status): string => {
  const { since, received, delivered, refused, failed } = hour
  const when = now - since < 3_600_000 ? `since ${new Date(since).toISOString().slice(11, 16)} UTC` : "in the last hour"
  const whose = fleet === undefined ? "" : " by this relay"
  return `${when}${whose}: ${received} received, ${delivered} delivered, ${refused} refused, ${count(failed, "failed attempt")}`
}

const styles = { critical: "red", warning: "yellow", note: "dim" } as const satisfies Record<Level, string>

const shown = (problem: StatusProblem, style: Paint): string => {
  const { name, lines, action, state } = problem
  const level = levelOf(problem)
  return [
    `${style(styles[level], level)}  ${style("bold", plain(name))}: ${lines.map(plain).join("\n  ")}`,
    ...(action === "" ? [] : [`  what to do: ${plain(action)}`]),
    style("dim", `  more: relay runbook ${state}`),
  ].join("\n")
}

export const render = (status: Status, style: Paint, width: number): string => {
  const { version, configFile, startedAt, now, draining, journal, lanes } = status
  const asOf = journal.answeredAt === undefined ? "" : `, as of ${span(now - journal.answeredAt)} ago`
  const filling = journal.filling > 0 ? ` (${journal.filling} % full)` : ""
  return [
    ...health(status).problems.flatMap((problem) => [shown(problem, style), ""]),
    `relay ${plain(version)} with ${plain(configFile)}, up ${span(now - startedAt)}${draining ? ", draining" : ""}`,
    `journal ${journal.health}: ${count(journal.head, "entry")} so far, ${bytes(journal.usedBytes)} of ${bytes(journal.maxBytes)}${filling}${asOf}`,
    hourLine(status),
    ...status.work.map(({ what, share }) => `in progress: ${plain(what)}, ${Math.floor(share * 100)} %`),
    "",
    lanesTable(lanes, now, width),
    ...(status.fleet === undefined ? [] : ["", fleetTable(status.fleet, width)]),
    "",
    secretsTable(status, width),
    ...(status.certificates.length === 0 ? [] : ["", certificatesTable(status, width)]),
  ].join("\n")
}
