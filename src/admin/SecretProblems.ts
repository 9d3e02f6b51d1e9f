/** Finds signing secrets that have expired or soon expire, with advice. */
import { expiresWithin, haveExpired, noticeOfExpiry, successorOf } from "../config/Expiry.ts"
import type { EpochMillis } from "../event/Quantities.ts"
import { fromNow, span } from "../formats/Amounts.ts"
import type { Status, Webhook } from "./Api.ts"
import type { State, StatusProblem } from "./StatusProblem.ts"

type Secret = Webhook["secrets"][number]

export const lastSigned = ({ lastUsed }: Secret, now: EpochMillis): string =>
  lastUsed === 0 ? "no recent delivery" : `${span(now - lastUsed)} ago`

const problem = (state: State, name: string, line: string, action: string): StatusProblem => ({
  state,
  name,
  lines: [line],
  action,
})

const ofSecret = (secret: Secret, webhook: Webhook, now: EpochMillis): ReadonlyArray<StatusProblem> => {
  if (expiresWithin(secret, 0, now)) {
    const line = `the secret ${secret.name} has expired and verifies nothing`
    return [problem("secret-expired", webhook.name, line, "remove it from the config")]
  }
  const successor = successorOf(secret, webhook.secrets)
  // The sender already uses the successor, so the old secret may expire.
  if (successor !== undefined && successor.lastUsed > secret.lastUsed) return []
  const when = fromNow(secret.expires ?? now, now)
  const line = `the secret ${secret.name} expires ${when}; it signed ${lastSigned(secret, now)}`
  const action =
    successor === undefined
      ? "add its successor to the config, then make the sender sign with that"
      : `make the sender sign with its successor, ${successor.name}`
  return [problem("secret-expiring", webhook.name, line, action)]
}

export const secretProblems = ({ webhooks, now }: Status): ReadonlyArray<StatusProblem> =>
  webhooks.flatMap((webhook): ReadonlyArray<StatusProblem> => {
    if (!haveExpired(webhook.secrets, now)) {
      return webhook.secrets
        .filter((secret) => expiresWithin(secret, noticeOfExpiry, now))
        .flatMap((secret) => ofSecret(secret, webhook, now))
    }
    const line = "every secret has expired, so every delivery is refused"
    return [problem("no-valid-secret", webhook.name, line, "add the current signing secret to the config")]
  })
