/**
 * Decides when a secret or a certificate is about to expire, for the relay's own
 * events, `relay status`, `relay doctor` and the page.
 */
import type { EpochMillis, Millis } from "../event/Quantities.ts"

/** The time before a secret's expiry at which it is announced. */
export const noticeOfExpiry: Millis = 14 * 86_400_000

type Period = { readonly notBefore: EpochMillis; readonly notAfter: EpochMillis }

/** Returns the notice for a certificate: at most a third of its lifetime, because short certificates are renewed late. */
export const noticeOf = ({ notBefore, notAfter }: Period): Millis =>
  Math.min(noticeOfExpiry, Math.floor((notAfter - notBefore) / 3))

export const isExpiring = (certificate: Period, now: EpochMillis): boolean =>
  certificate.notAfter - now <= noticeOf(certificate)

interface Expiring {
  readonly expires?: EpochMillis
}

/** Reports whether a secret expires within this time. With 0, reports whether it has expired. */
export const expiresWithin = ({ expires }: Expiring, time: Millis, now: EpochMillis): boolean =>
  expires !== undefined && expires - now <= time

/** Reports whether every secret of a webhook has expired, so that no delivery can be verified. */
export const haveExpired = (secrets: ReadonlyArray<Expiring>, now: EpochMillis): boolean =>
  secrets.every((secret) => expiresWithin(secret, 0, now))

/** Returns the successor of a secret: another secret of the same webhook that expires later. */
export const successorOf = <S extends Expiring>({ expires = 0 }: S, secrets: ReadonlyArray<S>): S | undefined =>
  secrets.find((other) => other.expires === undefined || other.expires > expires)
