/**
 * Counts connections that ended because the runtime could not read a request:
 * neither Bun nor Deno reports them.
 *
 * For a minute, Linux remembers each connection that this side closed first
 * (TIME_WAIT). If the port has had no request for longer than a connection may be
 * idle, each of these ended without one. So a proxy that speaks something else is
 * seen within a few minutes. It costs nothing per request, and counts nothing while
 * requests come.
 */
import { readFile } from "node:fs/promises"
import { Duration, Effect } from "effect"
import { rounds } from "../event/Rounds.ts"

/** How long Linux remembers a connection. */
const remembered = Duration.minutes(1)
/** The runtime closes idle connections this much late. */
const margin = Duration.seconds(5)

const tableOf = (name: string): Promise<string> => readFile(`/proc/self/net/${name}`, "utf8").catch(() => "")

/** Counts the connections of a port that this side closed first in the last minute. Without `/proc` there are none. */
export const closedAt = async (port: number): Promise<number> => {
  const hex = port.toString(16).toUpperCase().padStart(4, "0")
  const line = new RegExp(`^ *\\d+: [0-9A-F]+:${hex} \\S+ 06 `, "gm")
  const tables = await Promise.all([tableOf("tcp"), tableOf("tcp6")])
  return tables.reduce((sum, table) => sum + (table.match(line)?.length ?? 0), 0)
}

export interface Watched {
  readonly port: number
  /** The number of requests since the start, of any kind. */
  readonly requests: () => number
  readonly idleTimeout: Duration.Duration
  readonly closed?: (port: number) => Promise<number>
}

/** Calls `note` after each minute in which connections ended without a request. */
export const watch = (
  { port, requests, idleTimeout, closed = closedAt }: Watched,
  note: (count: number) => void,
): Effect.Effect<never> => {
  const needed = Duration.sum(Duration.sum(idleTimeout, margin), remembered)
  let seen = requests()
  let quiet = Duration.zero
  const look = Effect.gen(function* () {
    const now = requests()
    quiet = now === seen ? Duration.sum(quiet, remembered) : Duration.zero
    seen = now
    if (Duration.isLessThan(quiet, needed)) return
    const count = yield* Effect.promise(() => closed(port))
    if (count > 0 && requests() === seen) note(count)
  })
  return Effect.delay(rounds("looking for unreadable requests", look, remembered), remembered)
}
