/** The certificates in use as `relay status` shows them: whose each is, when it expires, and what to do. */
import type { Status } from "../../admin/Api.ts"
import { noticeOf } from "../../config/Config.ts"
import { span, table } from "./output.ts"
import type { StatusProblem } from "./StatusProblem.ts"

type Certificate = Status["certificates"][number]

const hasExpired = ({ notAfter }: Certificate, now: number): boolean => notAfter <= now

const expiry = ({ notAfter }: Certificate, now: number): string =>
  notAfter <= now ? `${span(now - notAfter)} ago` : `in ${span(notAfter - now)}`

export const certificatesTable = ({ certificates, now }: Status): string =>
  table([["CERTIFICATE", "SUBJECT", "EXPIRES"], ...certificates.map((one) => [one.key, one.subject, expiry(one, now)])])

/** Those that have expired or are about to. */
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
