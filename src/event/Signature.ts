/**
 * The signature of a delivery (webhook interface, section 5.1): HMAC-SHA256 over the
 * raw body, as `sha256=` and 64 uppercase hexadecimal characters.
 *
 * Any secret that has not expired may verify, so a secret can be rotated without a
 * gap. The header is decoded with a table of uppercase digits only. A lowercase
 * digest, another length or a bad digit is refused before anything is computed.
 * (`Buffer.from(text, "hex")` would silently stop at the first bad digit.) The
 * comparison takes constant time and always compares 32 bytes.
 */
import { createHmac, timingSafeEqual } from "node:crypto"
import type { EpochMillis } from "./Quantities.ts"

/** Computes the 32 bytes of an HMAC-SHA256 with one key. Made once for each secret. */
export type Hmac = (body: Uint8Array) => Uint8Array

/** Makes an {@link Hmac} from the secret's UTF-8 bytes. A runtime may provide a faster one. */
export type HmacFactory = (secret: string) => Hmac

export const hmacSha256: HmacFactory = (secret) => {
  const key = Buffer.from(secret, "utf8")
  return (body) => createHmac("sha256", key).update(body).digest()
}

/** One signing secret of a webhook, ready to verify with. */
export interface SigningSecret {
  readonly name: string
  /** The secret no longer verifies from this time on. */
  readonly expiresAt?: EpochMillis
  readonly hmac: Hmac
}

/** Why a signature was refused. It is safe to log and to use as a label. */
export type SignatureRefusal =
  | "missing"
  | "doubled"
  | "several"
  | "malformed"
  | "lowercase"
  | "mismatch"
  | "expired"
  // Only other senders sign a time.
  | "untimely"

export type Verification =
  | { readonly ok: true; readonly secret: string }
  | { readonly ok: false; readonly reason: SignatureRefusal }

const prefix = "sha256="
const digestLength = 32
const headerLength = prefix.length + 2 * digestLength

/** The value of each uppercase hexadecimal digit, by character code; −1 for all other characters. */
const digitValues = new Int8Array(128).fill(-1)
for (const [value, digit] of [..."0123456789ABCDEF"].entries()) digitValues[digit.charCodeAt(0)] = value
const digitAt = (text: string, index: number): number => digitValues[text.charCodeAt(index)] ?? -1

/** Reused by every verification, because nothing is awaited between filling and comparing it. */
const claimed = new Uint8Array(digestLength)

/** Decodes the header into `claimed`. Returns false unless it is the prefix and 64 uppercase digits. */
const readClaim = (header: string): boolean => {
  if (header.length !== headerLength || !header.startsWith(prefix)) return false
  for (let byte = 0, at = prefix.length; byte < digestLength; byte++, at += 2) {
    const high = digitAt(header, at)
    const low = digitAt(header, at + 1)
    if (high < 0 || low < 0) return false
    claimed[byte] = (high << 4) | low
  }
  return true
}

const lowercased = /^sha256=[0-9A-Fa-f]{64}$/

/** Repeated headers arrive joined by a comma, like a list in one header. Only the values distinguish them. */
const whySeveral = (values: ReadonlyArray<string>): SignatureRefusal => {
  if (!values.some((value) => lowercased.test(value))) return "malformed"
  return values.every((value) => value === values[0]) ? "doubled" : "several"
}

const whyUnreadable = (header: string | null): SignatureRefusal => {
  if (header === null || header === "") return "missing"
  if (header.includes(",")) return whySeveral(header.split(",").map((value) => value.trim()))
  return lowercased.test(header) ? "lowercase" : "malformed"
}

/** Returns the header value with which the sender signs `body`. */
export const sign = (hmac: Hmac, body: Uint8Array): string =>
  `${prefix}${Buffer.from(hmac(body)).toString("hex").toUpperCase()}`

/**
 * Verifies `header` over the raw `body`, in constant time for each secret.
 *
 * `now` decides which secrets have expired. If only an expired secret matches, the
 * reason is `expired`, which helps an operator who rotated too early.
 */
export const verify = (
  secrets: ReadonlyArray<SigningSecret>,
  header: string | null,
  body: Uint8Array,
  now: EpochMillis,
): Verification => {
  if (header === null || !readClaim(header)) return { ok: false, reason: whyUnreadable(header) }
  let expired = false
  for (const secret of secrets) {
    if (!timingSafeEqual(secret.hmac(body), claimed)) continue
    if (secret.expiresAt === undefined || now < secret.expiresAt) return { ok: true, secret: secret.name }
    expired = true
  }
  return { ok: false, reason: expired ? "expired" : "mismatch" }
}
