/**
 * Chooses the pool of connections for a request under Bun.
 *
 * A NAT or a firewall may drop an idle connection without a word, and each one
 * then costs a time-out. A service may have moved to another address while the
 * server at the old one goes on answering. Bun closes no pooled connection on
 * request. Requests with different TLS options have different pools, also over
 * plain `http://`, so an option that changes nothing for a client names the pool.
 */

/** Milliseconds. Firewalls drop connections after half a minute of silence and more. */
const longestIdle = 15_000
/** Milliseconds. A server at an address that the name has left may go on accepting events. */
const maxAge = 600_000
/** Milliseconds, longer than Bun keeps an idle connection. After that a pool that was left is empty. */
const emptyAfter = 330_000
/** Milliseconds between two pools that are left because of an answer: a service that is down answers so each time. */
const betweenMoves = 30_000
/** Answers of a server that the name may no longer lead to. */
const mayHaveMoved = (status: number): boolean => status >= 500 || status === 404 || status === 410 || status === 421
/** The number of pools beside the default one, which costs least. They are used in turn. */
const pools = 32

export interface HttpPools {
  /** Returns the pool for the next request; 0 is the default pool. */
  readonly next: () => number
  /** A request by this pool had no answer in time: the pool is left. */
  readonly silent: (pool: number) => void
  /** A request by this pool was answered with this status. */
  readonly answered: (pool: number, status: number) => void
}

/** Makes the pools of a sink; `now` is in monotonic milliseconds. */
export const make = (now: () => number = () => performance.now()): HttpPools => {
  let pool = 0
  let leftAt = Number.NEGATIVE_INFINITY
  let usedAt: number | undefined
  /** When the default pool is first used since it was left. */
  let defaultSince: number | undefined
  const current = (): number => (now() - leftAt > emptyAfter ? 0 : pool)
  const leave = (): void => {
    pool = (pool % pools) + 1
    leftAt = now()
    defaultSince = undefined
  }
  const isStale = (): boolean =>
    (usedAt !== undefined && now() - usedAt > longestIdle) ||
    (defaultSince !== undefined && now() - defaultSince > maxAge)
  return {
    next: () => {
      if (isStale()) leave()
      usedAt = now()
      const chosen = current()
      if (chosen === 0) defaultSince ??= usedAt
      return chosen
    },
    silent: (used) => {
      // Requests that were in flight together are silent together.
      if (used === current()) leave()
    },
    answered: (used, status) => {
      if (used === current() && mayHaveMoved(status) && now() - leftAt > betweenMoves) leave()
    },
  }
}

/** TLS options that name a pool: how many seconds a server's renegotiations count, which is 600 by default. */
export const optionsOf = (pool: number): object => (pool === 0 ? {} : { clientRenegotiationWindow: 600 + pool })
