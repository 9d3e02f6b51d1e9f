/** The signing secrets as `relay status` shows them: when each last signed, and when it expires. */
import type { Status } from "../../admin/Api.ts"
import { lastSigned } from "../../admin/SecretProblems.ts"
import { fromNow, table } from "./output.ts"

export const secretsTable = ({ webhooks, now }: Status): string =>
  table([
    ["WEBHOOK", "SECRET", "LAST SIGNED", "EXPIRES"],
    ...webhooks.flatMap(({ name, secrets }) =>
      secrets.map((secret) => {
        const { expires } = secret
        return [name, secret.name, lastSigned(secret, now), expires === undefined ? "-" : fromNow(expires, now)]
      }),
    ),
  ])
