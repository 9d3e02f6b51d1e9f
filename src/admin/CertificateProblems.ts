/** Finds certificates in use that expire or have an incomplete chain, with advice. */
import { isExpiring } from "../config/Expiry.ts"
import type { EpochMillis } from "../event/Quantities.ts"
import { fromNow } from "../formats/Amounts.ts"
import type { Status } from "./Api.ts"
import type { StatusProblem } from "./StatusProblem.ts"

type Certificate = Status["certificates"][number]

const expiry = (one: Certificate, now: EpochMillis): ReadonlyArray<StatusProblem> => {
  if (!isExpiring(one, now)) return []
  const isOver = one.notAfter <= now
  const line = `the certificate of ${one.subject} ${isOver ? "expired" : "expires"} ${fromNow(one.notAfter, now)}`
  return [
    {
      state: isOver ? "certificate-expired" : "certificate-expiring",
      name: one.key,
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

export const certificateProblems = ({ certificates, now }: Status): ReadonlyArray<StatusProblem> =>
  certificates.flatMap((one) => [...expiry(one, now), ...incomplete(one)])
