/** Checks which signing secrets have expired, are about to, or can't be secrets. */
import type { Webhook } from "../../../config/Config.ts"
import { expiresWithin, haveExpired, noticeOfExpiry, successorOf } from "../../../config/Expiry.ts"
import { mistakenSecrets } from "../../../config/rules/SecretText.ts"
import type { EpochMillis } from "../../../event/Quantities.ts"
import { count, span } from "../output.ts"
import { type Findings, finder } from "./Finding.ts"

export const secrets = (webhooks: ReadonlyArray<Webhook>, now: EpochMillis): Findings =>
  webhooks.flatMap(({ name, secrets }) => {
    const at = finder("secret", name)
    if (haveExpired(secrets, now)) {
      return [at("wrong", "every secret has expired, so every delivery is refused: add the current one")]
    }
    const mistaken = mistakenSecrets(secrets, now).map(({ name: secret, message, hint }) =>
      finder("secret", `${name}/${secret}`)("warning", `${message}: ${hint}`),
    )
    const expiring = secrets.filter((secret) => expiresWithin(secret, noticeOfExpiry, now))
    if (mistaken.length + expiring.length === 0) {
      return [at("ok", `${count(secrets.length, "secret")}, none about to expire`)]
    }
    const soon = expiring.map((secret) => {
      const { expires = now } = secret
      const hasSuccessor = successorOf(secret, secrets) !== undefined
      const advice = hasSuccessor ? "the sender must sign with another by then" : "add its successor to the config"
      const message =
        expires <= now ? "has expired and verifies nothing: remove it" : `expires in ${span(expires - now)}: ${advice}`
      return finder("secret", `${name}/${secret.name}`)("warning", message)
    })
    return [...mistaken, ...soon]
  })
