/** Certificates in use that have expired or are about to, and what to do. */

import { noticeOf } from "../config/Config.ts"
import { span } from "../formats/Amounts.ts"
import type { Status } from "./Api.ts"
import type { StatusProblem } from "./StatusProblem.ts"

type Certificate = Status["certificates"][number]

const hasExpired = ({ notAfter }: Certificate, now: number): boolean => notAfter <= now

export const expiry = ({ notAfter }: Certificate, now: number): string =>
  notAfter <= now ? `${span(now - notAfter)} ago` : `in ${span(notAfter - now)}`

export const certificateProblems = ({ certificates, now }: Status): ReadonlyArray<StatusProblem> =>
  certificates
    .filter((one) => one.notAfter - now <= noticeOf(one))
    .map((one): StatusProblem => {
      const isOver = hasExpired(one, now)
      const line = `the certificate of ${one.subject} ${isOver ? "expired" : "expires"} ${expiry(one, now)}`
      return {
        state: isOver ? "certificate-expired" : "certificate-expiring",
        name: one.key,
        lines: [line],
        action: "renew it, then relay reload",
      }
    })
