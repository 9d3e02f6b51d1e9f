/**
 * The search for the server that takes writes among several, as libpq's
 * `target_session_attrs=read-write` finds it.
 *
 * The one that wrote before is asked first; the others as soon as it fails, or
 * keeps the relay waiting. Where two take writes, one of them was promoted while
 * the other was away: the later timeline is the cluster's, and the relay never
 * goes back to an earlier one.
 */
import { Connection, type ConnectionOptions } from "./Connection.ts"
import { type DatabaseError, databaseError, errorAt, readOnly } from "./DatabaseError.ts"
import type { Host } from "./DatabaseUrl.ts"

/** Milliseconds that the one that wrote before has for itself. */
const headStart = 500
/** Milliseconds that the others have to answer, once one takes writes. */
const patience = 500

/** The knowledge of the servers, from connection to connection. */
export class Cluster {
  /** The one that took writes last. */
  writer: string | undefined
  #timeline = 0
  /** Called where another server was promoted: connections of an earlier timeline are of no more use. */
  onPromoted: (timeline: number) => void = () => {}

  get timeline(): number {
    return this.#timeline
  }

  note({ server, timeline }: Connection): void {
    this.writer = server.name
    if (timeline <= this.#timeline) return
    const isFirst = this.#timeline === 0
    this.#timeline = timeline
    if (!isFirst) this.onPromoted(timeline)
  }
}

const refusal = (connection: Connection, cluster: Cluster): DatabaseError | undefined => {
  const { server, isReadOnly, timeline } = connection
  if (isReadOnly) return errorAt(server.name, "unavailable", "it is a standby, or read-only", { code: readOnly })
  if (timeline === 0 || timeline >= cluster.timeline) return undefined
  const why = `it takes writes, but another server was promoted since (timeline ${timeline}, and ${cluster.timeline} was seen)`
  return errorAt(server.name, "misconfigured", `${why}: stop it, or make it a standby`)
}

/** The message about several servers: a person must act only where no server is merely away. */
const together = (errors: ReadonlyArray<DatabaseError>): DatabaseError => {
  const [first] = errors
  if (errors.length === 1 && first !== undefined) return first
  const reason = errors.every((error) => error.reason === "misconfigured") ? "misconfigured" : "unavailable"
  return databaseError(reason, `no server takes writes: ${errors.map(({ message }) => message).join("; ")}`)
}

/** A connection to the server that writes. Rejects with a {@link DatabaseError} alone. */
export const connectWriter = (options: ConnectionOptions, cluster: Cluster): Promise<Connection> => {
  const { hosts } = options.url
  const first = hosts.find(({ name }) => name === cluster.writer)
  const others = hosts.filter((host) => host !== first)
  return new Promise((resolve, reject) => {
    const failures: Array<DatabaseError> = []
    const writers: Array<Connection> = []
    let open = 0
    let isSettled = false
    let startOthers = () => {}

    const settle = () => {
      if (isSettled) return
      isSettled = true
      clearTimeout(timer)
      const [best, ...rest] = writers.toSorted((a, b) => b.timeline - a.timeline)
      for (const connection of rest) connection.close()
      if (best === undefined) return reject(together(failures))
      cluster.note(best)
      resolve(best)
    }
    let timer: ReturnType<typeof setTimeout> | undefined

    const came = (connection: Connection, host: Host) => {
      const refused = refusal(connection, cluster)
      if (isSettled || refused !== undefined) connection.close()
      if (refused !== undefined) failures.push(refused)
      else if (!isSettled) {
        writers.push(connection)
        if (host === first) return settle()
        timer ??= setTimeout(settle, patience)
      }
    }

    const ask = async (host: Host) => {
      open += 1
      try {
        came(await Connection.open(options, host), host)
      } catch (error) {
        failures.push(error as DatabaseError)
      }
      open -= 1
      startOthers()
      if (open === 0) settle()
    }

    startOthers = () => {
      startOthers = () => {}
      if (isSettled) return
      clearTimeout(waiting)
      for (const host of others) void ask(host)
    }
    const waiting = first === undefined ? undefined : setTimeout(() => startOthers(), headStart)
    if (first === undefined) startOthers()
    else void ask(first)
  })
}
