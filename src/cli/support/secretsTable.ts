/** The signing secrets as `relay status` shows them: when each last signed, and when it expires. */
import type { Status } from "../../admin/Api.ts"
import { expiry, lastSigned } from "../../admin/SecretProblems.ts"
import { table } from "./output.ts"

export const secretsTable = ({ webhooks, now }: Status): string =>
  table([
    ["WEBHOOK", "SECRET", "LAST SIGNED", "EXPIRES"],
    ...webhooks.flatMap(({ name, secrets }) =>
      secrets.map((secret) => [name, secret.name, lastSigned(secret, now), expiry(secret, now)]),
    ),
  ])
