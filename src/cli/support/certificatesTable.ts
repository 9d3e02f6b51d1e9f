/** The certificates in use as `relay status` shows them: whose each is, and when it expires. */
import type { Status } from "../../admin/Api.ts"
import { fromNow, table } from "./output.ts"

export const certificatesTable = ({ certificates, now }: Status): string =>
  table([
    ["CERTIFICATE", "SUBJECT", "EXPIRES"],
    ...certificates.map(({ key, subject, notAfter }) => [key, subject, fromNow(notAfter, now)]),
  ])
