/** Signing secrets that have expired or are about to, and what to do. */

import { noticeOfExpiry } from "../config/Config.ts"
import { span } from "../formats/Amounts.ts"
import type { Status, Webhook } from "./Api.ts"
import type { State, StatusProblem } from "./StatusProblem.ts"

type Secret = Webhook["secrets"][number]

const expiresWithin = ({ expires }: Secret, millis: number, now: number): boolean =>
  expires !== undefined && expires - now <= millis

/** Whether every secret of the webhook has expired, so that no delivery verifies. */
const hasExpired = ({ secrets }: Webhook, now: number): boolean =>
  secrets.every((secret) => expiresWithin(secret, 0, now))

export const lastSigned = ({ lastUsed }: Secret, now: number): string =>
  lastUsed === 0 ? "not since the start" : `${span(now - lastUsed)} ago`

export const expiry = ({ expires }: Secret, now: number): string => {
  if (expires === undefined) return "-"
  return expires <= now ? `${span(now - expires)} ago` : `in ${span(expires - now)}`
}

const problem = (state: State, name: string, line: string, action: string): StatusProblem => ({
  state,
  name,
  lines: [line],
  action,
})

const ofSecret = (webhook: string, secret: Secret, now: number): StatusProblem => {
  if (expiresWithin(secret, 0, now)) {
    const line = `the secret ${secret.name} has expired and verifies nothing`
    return problem("secret-expired", webhook, line, "remove it from the config")
  }
  const line = `the secret ${secret.name} expires ${expiry(secret, now)}; it signed ${lastSigned(secret, now)}`
  return problem(
    "secret-expiring",
    webhook,
    line,
    "add its successor to the config, then have the sender sign with that",
  )
}

export const secretProblems = ({ webhooks, now }: Status): ReadonlyArray<StatusProblem> =>
  webhooks.flatMap((webhook): ReadonlyArray<StatusProblem> => {
    if (!hasExpired(webhook, now)) {
      return webhook.secrets
        .filter((secret) => expiresWithin(secret, noticeOfExpiry, now))
        .map((secret) => ofSecret(webhook.name, secret, now))
    }
    const line = "every secret has expired, so every delivery is refused"
    return [problem("no-valid-secret", webhook.name, line, "add the current signing secret to the config")]
  })
