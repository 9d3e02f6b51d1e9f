/** Checks which signing secrets have expired or are about to. */
import { noticeOfExpiry, type Webhook } from "../../../config/Config.ts"
import { count, span } from "../output.ts"
import { type Findings, finder } from "./Finding.ts"

/** `now` is in epoch milliseconds. */
export const secrets = (webhooks: ReadonlyArray<Webhook>, now: number): Findings =>
  webhooks.flatMap(({ name, secrets }) => {
    const left = secrets.flatMap(({ name, expires }) => (expires === undefined ? [] : [{ name, left: expires - now }]))
    const hasSuccessor = (than: number) => left.length < secrets.length || left.some(({ left }) => left > than)
    const expired = left.filter(({ left }) => left <= 0)
    if (expired.length === secrets.length) {
      return [
        finder("secret", name)("wrong", "every secret has expired, so every delivery is refused: add the current one"),
      ]
    }
    const warnings = left
      .filter(({ left }) => left <= noticeOfExpiry)
      .map((secret) =>
        finder("secret", `${name}/${secret.name}`)(
          "warning",
          secret.left <= 0
            ? "has expired and verifies nothing: remove it"
            : `expires in ${span(secret.left)}: ${hasSuccessor(secret.left) ? "the sender must sign with another by then" : "add its successor to the config"}`,
        ),
      )
    const fine = finder("secret", name)("ok", `${count(secrets.length, "secret")}, none about to expire`)
    return warnings.length > 0 ? warnings : [fine]
  })
