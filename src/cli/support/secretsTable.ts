/** The signing secrets as `relay status` shows them: when each last signed, when it expires, and what to do. */
import type { Status, Webhook } from "../../admin/Api.ts"
import { noticeOfExpiry } from "../../config/Config.ts"
import type { Trouble } from "../commands/status.ts"
import { span, table } from "./output.ts"

type Secret = Webhook["secrets"][number]

const expiresWithin = ({ expires }: Secret, millis: number, now: number): boolean =>
  expires !== undefined && expires - now <= millis

/** Whether no secret verifies any more. */
export const isShut = ({ secrets }: Webhook, now: number): boolean =>
  secrets.every((secret) => expiresWithin(secret, 0, now))

const lastSigned = ({ lastUsed }: Secret, now: number): string =>
  lastUsed === 0 ? "not since the start" : `${span(now - lastUsed)} ago`

const expiry = ({ expires }: Secret, now: number): string => {
  if (expires === undefined) return "-"
  return expires <= now ? `${span(now - expires)} ago` : `in ${span(expires - now)}`
}

export const secretsTable = ({ webhooks, now }: Status): string =>
  table([
    ["WEBHOOK", "SECRET", "LAST SIGNED", "EXPIRES"],
    ...webhooks.flatMap(({ name, secrets }) =>
      secrets.map((secret) => [name, secret.name, lastSigned(secret, now), expiry(secret, now)]),
    ),
  ])

const ofSecret = (webhook: string, secret: Secret, now: number): Trouble =>
  expiresWithin(secret, 0, now)
    ? {
        name: webhook,
        severity: "yellow",
        lines: [`the secret ${secret.name} has expired and verifies nothing`],
        todo: "take it out of the config",
      }
    : {
        name: webhook,
        severity: "yellow",
        lines: [`the secret ${secret.name} expires ${expiry(secret, now)}; it signed ${lastSigned(secret, now)}`],
        todo: "add its successor beside it, and let the sender sign with that",
      }

/** What a person should see to. */
export const secretTroubles = ({ webhooks, now }: Status): ReadonlyArray<Trouble> =>
  webhooks.flatMap((webhook): ReadonlyArray<Trouble> => {
    if (!isShut(webhook, now)) {
      return webhook.secrets
        .filter((secret) => expiresWithin(secret, noticeOfExpiry, now))
        .map((secret) => ofSecret(webhook.name, secret, now))
    }
    const lines = ["every secret has expired, so every delivery is refused"]
    return [{ name: webhook.name, severity: "red", lines, todo: "add the current signing secret to the config" }]
  })
