/**
 * The health of the running relay, defined once for `relay status`, its exit code,
 * `relay doctor` and the page. `/readyz` covers less: only whether a delivery can be
 * accepted now (`Readiness.ts`), which the status includes.
 */
import { quarantine } from "../event/Event.ts"
import { count, instant, span } from "../formats/Amounts.ts"
import { takeoverAfter } from "../journal/FleetStatus.ts"
import { replaced } from "../reload/Replaced.ts"
import type { Lane, Status, Webhook } from "./Api.ts"
import { certificateProblems } from "./CertificateProblems.ts"
import { refusalProblems } from "./RefusalProblems.ts"
import { secretProblems } from "./SecretProblems.ts"
import { byLevel, type Level, levelOf, type State, type StatusProblem } from "./StatusProblem.ts"

/** Re-exported, because the page may import this module but not the journal. */
export { takeoverAfter }

/** The relay's level, which decides the exit code, and its problems. */
export interface Health {
  readonly level: "ok" | "warning" | "critical"
  /** Worst first. */
  readonly problems: ReadonlyArray<StatusProblem>
}

export const health = (status: Status): Health => {
  const problems = [
    ...journalProblems(status),
    ...readinessProblems(status),
    ...status.lanes.toSorted((a, b) => a.name.localeCompare(b.name)).flatMap(laneProblems),
    ...configProblems(status),
    ...fleetProblems(status),
    ...secretProblems(status),
    ...certificateProblems(status),
    ...status.webhooks.flatMap((webhook) => silenceProblems(webhook, status)),
    ...refusalProblems(status),
  ].toSorted((a, b) => byLevel(levelOf(a), levelOf(b)))
  const worst = problems[0] && levelOf(problems[0])
  return { level: worst === undefined || worst === "note" ? "ok" : worst, problems }
}

/** The level of the lane's worst problem; `undefined` if it has none. */
export const laneLevel = (lane: Lane): Level | undefined => laneProblems(lane).map(levelOf).toSorted(byLevel)[0]

const journalProblems = ({ journal: { health, message, filling } }: Status): ReadonlyArray<StatusProblem> => {
  const messageLines = message === "" ? [] : message.split("\n")
  const journal = (state: State, lines: ReadonlyArray<string>, action = "") => [
    { state, name: "journal", lines, action },
  ]
  if (health === "broken") return journal("journal-broken", [health, ...messageLines])
  if (health === "full") return journal("journal-full", [health, ...messageLines])
  if (health === "red") {
    return journal("journal-red", [health, ...messageLines], "relay journal check, then relay journal acknowledge")
  }
  const full = `${filling} % full; when it is full, deliveries get a 503`
  const room = "relay lanes list shows which sink's events fill it; raise journal.maxSize, or free disk space"
  return [
    ...(filling === 95 ? journal("journal-nearly-full", [full], room) : []),
    ...(filling === 80 ? journal("journal-filling", [full], room) : []),
    ...(health === "ok" && messageLines.length > 0 ? journal("journal-warning", messageLines) : []),
  ]
}

const readinessProblems = ({ draining, notReady, now, journal }: Status): ReadonlyArray<StatusProblem> => {
  const relay = { name: "relay", action: "" }
  if (draining)
    return [{ ...relay, state: "stopping", lines: ["it is stopping: it refuses deliveries, or will in a moment"] }]
  // The journal's own problem already has this message.
  if (notReady === "" || journal.health === "full" || journal.health === "broken") return []
  const { answeredAt } = journal
  const old = answeredAt === undefined ? [] : [`the figures shown are ${span(now - answeredAt)} old`]
  return [{ ...relay, state: "not-ready", lines: [`not accepting deliveries: ${notReady}`, ...old] }]
}

const ofCondition = {
  waiting: "sink-waiting",
  misconfigured: "sink-misconfigured",
  paused: "sink-paused",
  blocked: "sink-blocked",
  stalled: "sink-stalled",
  failed: "sink-failed",
  orphaned: "sink-orphaned",
} as const satisfies Partial<Record<Lane["condition"], State>>

/** Returns the action for a lane, or an empty string if the lane's message already says it. */
const actionFor = ({ name, condition }: Lane): string => {
  if (condition === "waiting") {
    return `nothing: the relay retries automatically; relay lanes resume ${name} retries immediately`
  }
  if (condition === "misconfigured") {
    return "fix the sink, and the lane resumes by itself; or fix its config, then relay reload"
  }
  if (condition === "stalled") return "fix the named cause; it continues by itself, or after a restart of that relay"
  return condition === "failed" ? "the log has the cause, please report it" : ""
}

/** Milliseconds after which a retried event needs attention. */
const longRetry = 60_000

/** Reports whether an attempt failed after the oldest event had waited for `longRetry`. */
const failsLong = ({ retrying, oldestAt, lastFailure }: Lane): boolean =>
  retrying > 0 && lastFailure !== undefined && lastFailure.at - oldestAt >= longRetry

const laneProblems = (lane: Lane): ReadonlyArray<StatusProblem> => {
  const { name, condition, message, backlog, retrying, deadLetters } = lane
  const problems: Array<StatusProblem> = []
  // An orphaned lane without a backlog is not a problem by itself, but its dead letters may be.
  const isEmpty = condition === "orphaned" && backlog === 0
  if (condition !== "running" && !isEmpty) {
    const line = message === "" ? condition : `${condition}; ${message}`
    problems.push({ state: ofCondition[condition], name, lines: [line], action: actionFor(lane) })
  } else if (message !== "" && backlog > 0) {
    // Too few failures to pause the lane, and no success since.
    const line = `${count(backlog, "event")} not delivered; the last attempt failed: ${message}`
    problems.push({ state: "sink-failing", name, lines: [line], action: "" })
  } else if (failsLong(lane)) {
    // Other events are delivered, so the lane runs.
    const line = `${count(retrying, "event")} not delivered, other events are; the last attempt that failed: ${lane.lastFailure?.message}`
    problems.push({ state: "sink-failing", name, lines: [line], action: "" })
  }
  if (deadLetters > 0) {
    const state = name === quarantine ? "quarantine" : "dead-letters"
    const action = `relay dlq list --sink ${name}`
    problems.push({ state, name, lines: [count(deadLetters, "dead letter")], action })
  }
  return problems
}

const fleetProblems = ({ fleet, journal: { answeredAt } }: Status): ReadonlyArray<StatusProblem> => {
  // Without the database, the other relays are unknown.
  if (fleet === undefined || answeredAt !== undefined) return []
  const silent = fleet.relays.filter(({ age }) => age > takeoverAfter)
  const live = fleet.relays.filter(({ age, configHash }) => age <= takeoverAfter && configHash !== "")
  const configs = Map.groupBy(live, ({ configHash }) => configHash)
  const byConfig = [...configs].map(([hash, relays]) => `${hash} of ${relays.map(({ name }) => name).join(", ")}`)
  return [
    ...silent.map(({ name, age }) => ({
      state: "relay-silent" as const,
      name,
      lines: [`no heartbeat for ${span(age)}; the others deliver what it had accepted`],
      action: "start it again, under its name",
    })),
    ...(configs.size > 1
      ? [
          {
            state: "configs-differ" as const,
            name: "config",
            lines: [`the relays have different configs: ${byConfig.join("; ")}`],
            action: "relay reload at each",
          },
        ]
      : []),
  ]
}

const silenceProblems = ({ name, silentSince }: Webhook, { now }: Status): ReadonlyArray<StatusProblem> => {
  if (silentSince === undefined) return []
  const line = `its sender is silent: no delivery for ${span(now - silentSince)}, since ${instant(silentSince)}`
  const action = "check in the sender's dashboard that the webhook is active and has this relay's URL"
  return [{ state: "sender-silent", name, lines: [line], action }]
}

const configProblems = ({ config, configFile }: Status): ReadonlyArray<StatusProblem> => {
  const { loadedAt, refusal, isReplaced } = config
  const problem = { state: "reload-refused" as const, name: "config" }
  const stays = `the config of ${new Date(loadedAt).toISOString()} remains active`
  if (isReplaced === true) {
    const { message, action } = replaced(configFile)
    return [{ ...problem, lines: [`${message}; ${stays}`], action }]
  }
  if (refusal === "") return []
  const lines = [`the last reload was refused; ${stays}`, ...refusal.split("\n")]
  return [{ ...problem, lines, action: "relay validate, then relay reload" }]
}
