/** The signing secrets: which has expired, and which soon will. */
import { noticeOfExpiry, type Webhook } from "../../../config/Config.ts"
import { count, span } from "../output.ts"
import { type Findings, finder } from "./Finding.ts"

/** `now` is in epoch milliseconds. */
export const secrets = (webhooks: ReadonlyArray<Webhook>, now: number): Findings =>
  webhooks.flatMap(({ name, secrets }) => {
    const left = secrets.flatMap(({ name, expires }) => (expires === undefined ? [] : [{ name, left: expires - now }]))
    const gone = left.filter(({ left }) => left <= 0)
    if (gone.length === secrets.length) {
      return [finder("secret", name)("wrong", "every secret has expired: no delivery verifies; add the current one")]
    }
    const told = left
      .filter(({ left }) => left <= noticeOfExpiry)
      .map((secret) =>
        finder("secret", `${name}/${secret.name}`)(
          "warning",
          secret.left <= 0
            ? "has expired and verifies nothing: take it out"
            : `expires in ${span(secret.left)}: add its successor beside it`,
        ),
      )
    const well = finder("secret", name)("ok", `${count(secrets.length, "secret")}, none expires soon`)
    return told.length > 0 ? told : [well]
  })
