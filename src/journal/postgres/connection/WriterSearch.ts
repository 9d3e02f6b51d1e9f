/**
 * The search for the server that takes writes among several, as libpq's
 * `target_session_attrs=read-write` finds it.
 *
 * The one that wrote before is asked first; the others as soon as it fails, or
 * keeps the relay waiting. Where two take writes, one of them was promoted while
 * the other was away: the later timeline is the cluster's, and the relay never
 * goes back to an earlier one. Timelines of two systems can't be compared: a server
 * that was upgraded by `pg_upgrade`, or a logical replica, is another system. The
 * relay does not go back to a system that it has left.
 */
import { Connection, type ConnectionOptions } from "./Connection.ts"
import { type DatabaseError, databaseError, errorAt, readOnly } from "./DatabaseError.ts"
import type { Host } from "./DatabaseUrl.ts"

/** Milliseconds that the one that wrote before has for itself. */
const headStart = 500
/** Milliseconds that the others have to answer, once one takes writes. */
const patience = 500

/** Whether two systems differ, as far as their servers say which they are. */
const isAnother = (one: string, other: string): boolean => one !== "" && other !== "" && one !== other

/** The knowledge of the servers, from connection to connection. */
export class Cluster {
  /** The one that took writes last. */
  writer: string | undefined
  #timeline = 0
  #system = ""
  /** Systems that the relay has left for another. */
  readonly #left = new Set<string>()
  /** Called when another server takes the writes. If `isOld` is true of a connection, it is of no more use. */
  onChanged: (isOld: (connection: Connection) => boolean) => void = () => {}

  note({ server, timeline, system }: Connection): void {
    this.writer = server.name
    const isOther = isAnother(system, this.#system)
    if (!isOther && timeline <= this.#timeline) return
    const isFirst = this.#timeline === 0
    if (isOther) this.#left.add(this.#system)
    this.#timeline = timeline
    this.#system = system
    if (!isFirst) this.onChanged((one) => isAnother(one.system, system) || one.timeline < timeline)
  }

  /** Whether a server takes writes on a later timeline of the same system. */
  isBehind({ isReadOnly, timeline, system }: Connection): boolean {
    return !isReadOnly && timeline > this.#timeline && !isAnother(system, this.#system)
  }

  /** Why the relay does not go back to a server that takes writes, or `undefined` if it may. */
  left({ timeline, system }: Connection): string | undefined {
    if (this.#left.has(system)) return "it takes writes, but the relay has found another server since, with other data"
    if (timeline === 0 || timeline >= this.#timeline || isAnother(system, this.#system)) return undefined
    return `it takes writes, but another server was promoted since (timeline ${timeline}, and ${this.#timeline} was seen)`
  }
}

const refusal = (connection: Connection, cluster: Cluster): DatabaseError | undefined => {
  const { server, isReadOnly } = connection
  if (isReadOnly) return errorAt(server.name, "unavailable", "it is a standby, or read-only", { code: readOnly })
  const why = cluster.left(connection)
  return why === undefined ? why : errorAt(server.name, "misconfigured", `${why}: stop it, or make it a standby`)
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

/**
 * The servers that the relay does not write to. One of them may have been promoted
 * while the relay's own still answers: after both stood still, for instance.
 */
export class OtherServers {
  readonly #cluster: Cluster
  readonly #open = new Map<string, Connection>()
  #isClosed = false

  constructor(cluster: Cluster) {
    this.#cluster = cluster
  }

  /** Asks each of them, on a connection that stays open. If a server does not answer, the next look asks it again. */
  async look(options: ConnectionOptions): Promise<void> {
    const { writer } = this.#cluster
    if (writer === undefined) return
    await Promise.allSettled(
      options.url.hosts.filter(({ name }) => name !== writer).map((host) => this.#ask(options, host)),
    )
  }

  async #ask(options: ConnectionOptions, host: Host): Promise<void> {
    const open = this.#open.get(host.name)
    const isKept = open?.isOpen === true
    const connection = isKept ? open : await Connection.open(options, host)
    if (this.#isClosed) return connection.close()
    this.#open.set(host.name, connection)
    if (isKept) await connection.look(options.connectTimeout)
    if (this.#cluster.isBehind(connection)) this.#cluster.note(connection)
  }

  close(): void {
    this.#isClosed = true
    for (const connection of this.#open.values()) connection.close()
  }
}
