/**
 * When a secret or a certificate is about to expire: one answer for the relay's
 * own events, `relay status`, `relay doctor` and the page.
 */
import type { EpochMillis, Millis } from "../event/Quantities.ts"

/** How long before a secret's expiry it is announced. */
export const noticeOfExpiry: Millis = 14 * 86_400_000

type Period = { readonly notBefore: EpochMillis; readonly notAfter: EpochMillis }

/** The notice before a certificate expires: a third of its time if that is less, because it is renewed late in it. */
export const noticeOf = ({ notBefore, notAfter }: Period): Millis =>
  Math.min(noticeOfExpiry, Math.floor((notAfter - notBefore) / 3))

export const isExpiring = (certificate: Period, now: EpochMillis): boolean =>
  certificate.notAfter - now <= noticeOf(certificate)

interface Expiring {
  readonly expires?: EpochMillis
}

/** Whether a secret expires within this time; with 0, whether it has expired. */
export const expiresWithin = ({ expires }: Expiring, time: Millis, now: EpochMillis): boolean =>
  expires !== undefined && expires - now <= time

/** Whether every secret of a webhook has expired, so that no delivery verifies. */
export const haveExpired = (secrets: ReadonlyArray<Expiring>, now: EpochMillis): boolean =>
  secrets.every((secret) => expiresWithin(secret, 0, now))

/** The successor of a secret: another secret of the same webhook that lasts longer. */
export const successorOf = <S extends Expiring>({ expires = 0 }: S, secrets: ReadonlyArray<S>): S | undefined =>
  secrets.find((other) => other.expires === undefined || other.expires > expires)
