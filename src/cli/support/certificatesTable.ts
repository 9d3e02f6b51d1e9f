/** The certificates in use as `relay status` shows them: whose each is, and when it expires. */
import type { Status } from "../../admin/Api.ts"
import { expiry } from "../../admin/CertificateProblems.ts"
import { table } from "./output.ts"

export const certificatesTable = ({ certificates, now }: Status): string =>
  table([["CERTIFICATE", "SUBJECT", "EXPIRES"], ...certificates.map((one) => [one.key, one.subject, expiry(one, now)])])
