/**
 * The addresses whose last large delivery was verified. While strangers flood the
 * relay with bodies, a body from such an address is cut off last.
 *
 * It is a preference and no protection: behind a proxy whose header the config
 * doesn't trust, all senders have one address.
 */

/** The largest number of addresses that are remembered. */
export const most = 4096

export interface VerifiedSenders {
  readonly has: (address: string) => boolean
  /** Called for each large delivery. An empty address is unknown. */
  readonly note: (address: string, isVerified: boolean) => void
}

/** Remembers none yet. */
export const make = (): VerifiedSenders => {
  /** The one noted longest ago first. */
  const known = new Set<string>()
  return {
    has: (address) => known.has(address),
    note: (address, isVerified) => {
      if (address === "") return
      known.delete(address)
      if (isVerified) known.add(address)
      const [oldest] = known
      if (known.size > most && oldest !== undefined) known.delete(oldest)
    },
  }
}
