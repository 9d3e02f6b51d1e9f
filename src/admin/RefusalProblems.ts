/**
 * Refused requests of the last hour as `relay status` and `relay doctor` show them:
 * their number, the reason and what to do.
 */

import type { Millis } from "../event/Quantities.ts"
import { span } from "../formats/Amounts.ts"
import type { Status } from "./Api.ts"
import type { Refusals } from "./RefusedRequest.ts"
import type { State, StatusProblem } from "./StatusProblem.ts"

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
 * no delivery has been verified for a while.
 */
const isSender = ({ webhook, reason, count, lastAt }: Refusals, { webhooks, now, startedAt }: Status): boolean => {
  if (reason === "signatureExpired") return true
  if (reason !== "signatureMismatch" || count < few || now - lastAt > silence) return false
  const secrets = webhooks.find(({ name }) => name === webhook)?.secrets ?? []
  return now - Math.max(startedAt, ...secrets.map(({ lastUsed }) => lastUsed)) > silence
}

const stateOf = (one: Refusals, status: Status): State => {
  if (one.reason === "unreadable") return one.count < few ? "stranger-refused" : "deliveries-refused"
  // Scanners request many paths, which must not hide important problems.
  if (one.webhook === "") return "unknown-path"
  if (isSender(one, status)) return "signatures-fail"
  const isStranger = one.reason === "method" || (strangers.has(one.reason) && one.count < few)
  return isStranger ? "stranger-refused" : "deliveries-refused"
}

const hour = 3_600_000

export const refusalProblems = (status: Status): ReadonlyArray<StatusProblem> =>
  status.refusals.map((one) => {
    const { now, startedAt } = status
    const { webhook, count, status: code, what, lastAt, lastFrom, advice, details } = one
    const last = `the last ${span(now - lastAt)} ago${lastFrom === "" ? "" : ` from ${lastFrom}`}`
    // A restart loses the earlier counts.
    const since = now - startedAt < hour ? `since the start ${span(now - startedAt)} ago` : "in the last hour"
    const line = `${count.toLocaleString("en-US")} refused with ${code} ${since}, ${last}: ${what}`
    return {
      state: stateOf(one, status),
      name: webhook === "" ? "no webhook" : webhook,
      lines: [details.length === 0 ? line : `${line}: ${detailsOf(one)}`],
      action: advice,
    }
  })
