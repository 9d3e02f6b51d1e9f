/**
 * The health of the running relay, defined once for `relay status`, its exit code,
 * `relay doctor` and the page. `/readyz` covers less: only whether a delivery can be
 * accepted now (`Probes.ts`), which the status includes.
 */
import { expiresWithin, haveExpired, isExpiring, noticeOfExpiry, successorOf } from "../../config/Config.ts"
import { quarantine } from "../../event/Event.ts"
import type { EpochMillis, Millis } from "../../event/Quantities.ts"
import { count, fromNow, instant, span } from "../../formats/Texts.ts"
import { takeoverAfter } from "../../journal/FleetStatus.ts"
import { replaced } from "../../reload/Difference.ts"
import type { Lane, Refusals, Status, Webhook } from "./Status.ts"

/**
 * The problem states of a running relay, and their levels.
 *
 * `critical`: deliveries are refused, events were lost, or a sink receives nothing
 * until an operator acts. `warning`: nothing is lost, and it can wait until morning.
 * `note`: worth knowing, but needs no action and does not count.
 */
export type Level = "critical" | "warning" | "note"

/** Each state has a runbook with the same name in docs/operations/runbooks.md. */
export const states = {
  "not-ready": "critical",
  "journal-full": "critical",
  "journal-broken": "critical",
  "journal-red": "critical",
  "journal-nearly-full": "critical",
  "journal-filling": "warning",
  "journal-warning": "warning",
  "sink-misconfigured": "critical",
  "sink-blocked": "critical",
  "sink-failed": "critical",
  "sink-stalled": "critical",
  "sink-orphaned": "critical",
  "sink-waiting": "warning",
  "sink-failing": "warning",
  "sink-paused": "warning",
  "dead-letters": "warning",
  quarantine: "warning",
  "no-valid-secret": "critical",
  "secret-expired": "warning",
  "secret-expiring": "warning",
  "certificate-expired": "critical",
  "certificate-incomplete": "critical",
  "certificate-expiring": "warning",
  "certificate-issuer-unknown": "note",
  "relay-silent": "warning",
  "configs-differ": "warning",
  "reload-refused": "warning",
  "signatures-fail": "critical",
  "sender-silent": "warning",
  "deliveries-refused": "warning",
  "stranger-refused": "note",
  "unknown-path": "note",
  stopping: "note",
} as const satisfies Record<string, Level>
export type State = keyof typeof states

/** A problem of a running relay, in words. */
export interface StatusProblem {
  readonly state: State
  /** The subject: `journal`, `config`, a sink or a webhook. */
  readonly name: string
  readonly lines: ReadonlyArray<string>
  /** The action to take; empty if the lines already say it. */
  readonly action: string
}

const levels: ReadonlyArray<Level> = ["critical", "warning", "note"]

export const levelOf = ({ state }: Pick<StatusProblem, "state">): Level => states[state]

/** Compares levels for sorting. Returns a negative number if `a` is worse. */
export const byLevel = (a: Level | undefined, b: Level | undefined): number => rank(a) - rank(b)
const rank = (level: Level | undefined): number => (level === undefined ? levels.length : levels.indexOf(level))

type Certificate = Status["certificates"][number]

const expiry = (certificate: Certificate, now: EpochMillis): ReadonlyArray<StatusProblem> => {
  if (!isExpiring(certificate, now)) return []
  const isOver = certificate.notAfter <= now
  const line = `the certificate of ${certificate.subject} ${isOver ? "expired" : "expires"} ${fromNow(certificate.notAfter, now)}`
  return [
    {
      state: isOver ? "certificate-expired" : "certificate-expiring",
      name: certificate.key,
      lines: [line],
      action: "renew it, then relay reload",
    },
  ]
}

const incomplete = ({ key, subject, chain }: Certificate): ReadonlyArray<StatusProblem> =>
  chain === undefined
    ? []
    : [
        {
          state: chain.isSure ? "certificate-incomplete" : "certificate-issuer-unknown",
          name: key,
          lines: [`the certificate of ${subject}: ${chain.message}`],
          action: `${chain.hint}; then relay reload`,
        },
      ]

/** Finds certificates in use that expire or have an incomplete chain, with advice. */
const certificateProblems = ({ certificates, now }: Status): ReadonlyArray<StatusProblem> =>
  certificates.flatMap((certificate) => [...expiry(certificate, now), ...incomplete(certificate)])

/** Details shown; `--json` has more. */
const shown = 3

/** `/hooks/schedulng (12), /wp-login.php (1), …` */
const detailsOf = ({ count, details }: Refusals): string => {
  const first = details.slice(0, shown)
  const rest = count - first.reduce((sum, { count }) => sum + count, 0)
  return [...first.map(({ detail, count }) => `${detail} (${count})`), ...(rest > 0 ? [`others (${rest})`] : [])].join(
    ", ",
  )
}

/** Reasons that the sender itself causes never or with every request. So a few of them are from strangers. */
const strangers: ReadonlySet<string> = new Set([
  "method",
  "contentType",
  "contentEncoding",
  "signatureMissing",
  "signatureMalformed",
  "badHost",
  "badLength",
  "trailer",
  "brokenOff",
  "tooSlow",
])
/** With this many refusals within an hour, they may be the sender's instead of a stranger's. */
const few = 10
/** Milliseconds without a verified delivery after which the sender's secret is probably wrong. */
const silence: Millis = 10 * 60_000

/**
 * Reports whether the sender itself is refused: it signs with an expired secret, or
 * no delivery has been verified for a while, such as with a wrong clock.
 */
const isSender = ({ webhook, reason, count, lastAt }: Refusals, { webhooks, now, startedAt }: Status): boolean => {
  if (reason === "signatureExpired") return true
  const isSigned = reason === "signatureMismatch" || reason === "signatureUntimely"
  if (!isSigned || count < few || now - lastAt > silence) return false
  const secrets = webhooks.find(({ name }) => name === webhook)?.secrets ?? []
  return now - Math.max(startedAt, ...secrets.map(({ lastUsed }) => lastUsed)) > silence
}

const stateOf = (refusals: Refusals, status: Status): State => {
  if (refusals.reason === "unreadable") return refusals.count < few ? "stranger-refused" : "deliveries-refused"
  // Scanners request many paths, which must not hide important problems.
  if (refusals.webhook === "") return "unknown-path"
  if (isSender(refusals, status)) return "signatures-fail"
  const isStranger = refusals.reason === "method" || (strangers.has(refusals.reason) && refusals.count < few)
  return isStranger ? "stranger-refused" : "deliveries-refused"
}

const hour = 3_600_000

/**
 * Refused requests of the last hour as `relay status` and `relay doctor` show them: their number, the reason and
 * what to do.
 */
const refusalProblems = (status: Status): ReadonlyArray<StatusProblem> =>
  status.refusals.map((refusals) => {
    const { now, startedAt } = status
    const { webhook, count, status: code, what, lastAt, lastFrom, advice, details } = refusals
    const last = `the last ${span(now - lastAt)} ago${lastFrom === "" ? "" : ` from ${lastFrom}`}`
    // A restart loses the earlier counts.
    const since = now - startedAt < hour ? `since the start ${span(now - startedAt)} ago` : "in the last hour"
    const line = `${count.toLocaleString("en-US")} refused with ${code} ${since}, ${last}: ${what}`
    return {
      state: stateOf(refusals, status),
      name: webhook === "" ? "no webhook" : webhook,
      lines: [details.length === 0 ? line : `${line}: ${detailsOf(refusals)}`],
      action: advice,
    }
  })

type Secret = Webhook["secrets"][number]

export const lastSigned = ({ lastUsed }: Secret, now: EpochMillis): string =>
  lastUsed === 0 ? "no recent delivery" : `${span(now - lastUsed)} ago`

const problem = (state: State, name: string, line: string, action: string): StatusProblem => ({
  state,
  name,
  lines: [line],
  action,
})

const ofSecret = (secret: Secret, webhook: Webhook, now: EpochMillis): ReadonlyArray<StatusProblem> => {
  if (expiresWithin(secret, 0, now)) {
    const line = `the secret ${secret.name} has expired and verifies nothing`
    return [problem("secret-expired", webhook.name, line, "remove it from the config")]
  }
  const successor = successorOf(secret, webhook.secrets)
  // The sender already uses the successor, so the old secret may expire.
  if (successor !== undefined && successor.lastUsed > secret.lastUsed) return []
  const when = fromNow(secret.expires ?? now, now)
  const line = `the secret ${secret.name} expires ${when}; it signed ${lastSigned(secret, now)}`
  const action =
    successor === undefined
      ? "add its successor to the config, then make the sender sign with that"
      : `make the sender sign with its successor, ${successor.name}`
  return [problem("secret-expiring", webhook.name, line, action)]
}

/** Finds signing secrets that have expired or soon expire, with advice. */
const secretProblems = ({ webhooks, now }: Status): ReadonlyArray<StatusProblem> =>
  webhooks.flatMap((webhook): ReadonlyArray<StatusProblem> => {
    if (!haveExpired(webhook.secrets, now)) {
      return webhook.secrets
        .filter((secret) => expiresWithin(secret, noticeOfExpiry, now))
        .flatMap((secret) => ofSecret(secret, webhook, now))
    }
    const line = "every secret has expired, so every delivery is refused"
    return [problem("no-valid-secret", webhook.name, line, "add the current signing secret to the config")]
  })

/** Reports whether a relay's last heartbeat is so old that the others deliver its events. */
export const isSilent = ({ age }: { readonly age: number }): boolean => age > takeoverAfter

/** The relay's level, which decides the exit code, and its problems. */
interface Health {
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
  const silent = fleet.relays.filter(isSilent)
  const live = fleet.relays.filter((relay) => !isSilent(relay) && relay.configHash !== "")
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
