/**
 * The signature of a delivery (webhook interface, section 5.1): HMAC-SHA256
 * over the raw body, as `sha256=` and 64 uppercase hexadecimal characters.
 *
 * Any secret that has not expired verifies, so a secret is rotated without a
 * gap. The header's shape is checked before anything is computed: a lowercase
 * digest does not match, and `Buffer.from(text, "hex")` would silently stop at
 * the first bad digit.
 */
import { createHmac, timingSafeEqual } from "node:crypto"

/** Computes the 32 bytes of HMAC-SHA256 under one key. Made once a secret. */
export type Hmac = (body: Uint8Array) => Uint8Array

/** Makes an {@link Hmac} from the secret's UTF-8 bytes. A runtime may bring a faster one. */
export type HmacFactory = (secret: string) => Hmac

export const hmacSha256: HmacFactory = (secret) => {
  const key = Buffer.from(secret, "utf8")
  return (body) => createHmac("sha256", key).update(body).digest()
}

/** One signing secret of a webhook, ready to verify with. */
export interface SigningSecret {
  readonly name: string
  /** Epoch milliseconds from which it no longer verifies. */
  readonly expiresAt?: number
  readonly hmac: Hmac
}

/** Why a signature was refused: safe to log and to count by. */
export type SignatureRefusal = "missing" | "malformed" | "lowercase" | "mismatch" | "expired"

export type Verification =
  | { readonly ok: true; readonly secret: string }
  | { readonly ok: false; readonly reason: SignatureRefusal }

const wellFormed = /^sha256=[0-9A-F]{64}$/
const lowercased = /^sha256=[0-9A-Fa-f]{64}$/
const prefixLength = "sha256=".length

/** The header value that the sender puts on `body`. */
export const sign = (hmac: Hmac, body: Uint8Array): string =>
  `sha256=${Buffer.from(hmac(body)).toString("hex").toUpperCase()}`

/**
 * Verifies `header` over the raw `body`, in constant time a secret.
 *
 * `now` is in epoch milliseconds and decides which secrets have expired. A
 * header that only an expired secret matches is refused as `expired`: that is
 * what an operator who rotated too early needs to read.
 */
export const verify = (
  secrets: ReadonlyArray<SigningSecret>,
  header: string | null,
  body: Uint8Array,
  now: number,
): Verification => {
  if (header === null || header === "") return { ok: false, reason: "missing" }
  if (!wellFormed.test(header)) {
    return { ok: false, reason: lowercased.test(header) ? "lowercase" : "malformed" }
  }
  const given = Buffer.from(header.slice(prefixLength), "hex")
  let expired = false
  for (const secret of secrets) {
    if (!timingSafeEqual(secret.hmac(body), given)) continue
    if (secret.expiresAt === undefined || now < secret.expiresAt) return { ok: true, secret: secret.name }
    expired = true
  }
  return { ok: false, reason: expired ? "expired" : "mismatch" }
}
