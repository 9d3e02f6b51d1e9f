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

/** The successor: a secret of the same webhook that lasts longer. */
const successorOf = ({ expires = 0 }: Secret, { secrets }: Webhook): Secret | undefined =>
  secrets.find((other) => other.expires === undefined || other.expires > expires)

const ofSecret = (secret: Secret, webhook: Webhook, now: number): ReadonlyArray<StatusProblem> => {
  if (expiresWithin(secret, 0, now)) {
    const line = `the secret ${secret.name} has expired and verifies nothing`
    return [problem("secret-expired", webhook.name, line, "remove it from the config")]
  }
  const successor = successorOf(secret, webhook)
  // The sender has changed over, and the old one may expire.
  if (successor !== undefined && successor.lastUsed > secret.lastUsed) return []
  const line = `the secret ${secret.name} expires ${expiry(secret, now)}; it signed ${lastSigned(secret, now)}`
  const action =
    successor === undefined
      ? "add its successor to the config, then have the sender sign with that"
      : `have the sender sign with its successor, ${successor.name}`
  return [problem("secret-expiring", webhook.name, line, action)]
}

export const secretProblems = ({ webhooks, now }: Status): ReadonlyArray<StatusProblem> =>
  webhooks.flatMap((webhook): ReadonlyArray<StatusProblem> => {
    if (!hasExpired(webhook, now)) {
      return webhook.secrets
        .filter((secret) => expiresWithin(secret, noticeOfExpiry, now))
        .flatMap((secret) => ofSecret(secret, webhook, now))
    }
    const line = "every secret has expired, so every delivery is refused"
    return [problem("no-valid-secret", webhook.name, line, "add the current signing secret to the config")]
  })
