/** Certificates in use that have expired or are about to, and what to do. */
import { isExpiring } from "../config/Expiry.ts"
import { fromNow } from "../formats/Amounts.ts"
import type { Status } from "./Api.ts"
import type { StatusProblem } from "./StatusProblem.ts"

export const certificateProblems = ({ certificates, now }: Status): ReadonlyArray<StatusProblem> =>
  certificates
    .filter((one) => isExpiring(one, now))
    .map((one): StatusProblem => {
      const isOver = one.notAfter <= now
      const line = `the certificate of ${one.subject} ${isOver ? "expired" : "expires"} ${fromNow(one.notAfter, now)}`
      return {
        state: isOver ? "certificate-expired" : "certificate-expiring",
        name: one.key,
        lines: [line],
        action: "renew it, then relay reload",
      }
    })
