/** Refused requests as `relay status` and `relay doctor` show them: how many in the last hour, why, and what to do. */

import { span } from "../formats/Amounts.ts"
import type { Status } from "./Api.ts"
import type { Refusals } from "./RefusedRequest.ts"
import type { StatusProblem } from "./StatusProblem.ts"

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

export const refusalProblems = ({ refusals, now }: Status): ReadonlyArray<StatusProblem> =>
  refusals.map((one) => {
    const { webhook, count, status, what, lastAt, advice, details } = one
    const last = `the last ${span(now - lastAt)} ago`
    const line = `${count.toLocaleString("en-US")} refused with ${status} in the last hour, ${last}: ${what}`
    return {
      // Whoever scans the internet asks for paths: that must not hide what matters.
      state: webhook === "" ? "unknown-path" : "deliveries-refused",
      name: webhook === "" ? "no webhook" : webhook,
      lines: [details.length === 0 ? line : `${line}: ${detailsOf(one)}`],
      action: advice,
    }
  })
