/**
 * The addresses whose last large delivery was verified. While strangers flood the
 * relay with bodies, those of such a sender are cut off last.
 *
 * It is a preference and no protection: behind a proxy whose header the config
 * doesn't trust, all senders have one address.
 */

/** Addresses that are remembered. */
const most = 4096

export interface VerifiedSenders {
  readonly has: (address: string) => boolean
  readonly note: (address: string, isVerified: boolean) => void
}

/** Remembers none yet. */
export const make = (): VerifiedSenders => {
  /** The one noted longest ago first. */
  const known = new Set<string>()
  return {
    has: (address) => known.has(address),
    note: (address, isVerified) => {
      known.delete(address)
      if (!isVerified || address === "") return
      known.add(address)
      const [oldest] = known
      if (known.size > most && oldest !== undefined) known.delete(oldest)
    },
  }
}
