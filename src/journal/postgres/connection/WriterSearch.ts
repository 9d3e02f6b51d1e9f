/**
 * Searches several servers for the one that takes writes, like libpq's `target_session_attrs=read-write`.
 *
 * It asks the last writer first, and the others as soon as the last writer fails, or doesn't answer soon. If two
 * servers take writes, one was promoted while the other was unavailable. The later timeline is the cluster's,
 * and the relay never returns to an earlier one. Timelines of two systems can't be compared: a server upgraded
 * by `pg_upgrade`, or a logical replica, is another system. The relay doesn't return to a system that it has
 * left.
 */
import { Connection, type ConnectionOptions } from "./Connection.ts"
import { type DatabaseError, databaseError, errorAt, readOnly } from "./DatabaseError.ts"
import type { Host } from "./DatabaseUrl.ts"

/** Milliseconds that the last writer has before the search asks the others. */
const headStart = 500
/** Milliseconds that the others have to answer after one takes writes. */
const patience = 500

/** Reports whether two systems differ. It is false if a server doesn't report its system. */
const isAnother = (one: string, other: string): boolean => one !== "" && other !== "" && one !== other

/** Knowledge about the servers that is kept between connections. */
export class Cluster {
  /** The last server that took writes. */
  writer: string | undefined
  #timeline = 0
  #system = ""
  /** Systems that the relay has left for another system. */
  readonly #left = new Set<string>()
  /** Called when another server takes the writes. Connections for which `isOld` is true must not be used any more. */
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

  /** Reports whether a server takes writes on a later timeline of the same system. */
  isBehind({ isReadOnly, timeline, system }: Connection): boolean {
    return !isReadOnly && timeline > this.#timeline && !isAnother(system, this.#system)
  }

  /** Returns why the relay doesn't return to a server that takes writes, or `undefined` if it may. */
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

/** Combines the errors of several servers. An operator must act only if no server is merely unavailable. */
const together = (errors: ReadonlyArray<DatabaseError>): DatabaseError => {
  const [first] = errors
  if (errors.length === 1 && first !== undefined) return first
  const reason = errors.every((error) => error.reason === "misconfigured") ? "misconfigured" : "unavailable"
  return databaseError(reason, `no server takes writes: ${errors.map(({ message }) => message).join("; ")}`)
}

/** Connects to the server that takes writes. Rejects only with a {@link DatabaseError}. */
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
 * The servers that the relay doesn't write to. One of them may be promoted while the relay's own still answers,
 * for instance after both froze.
 */
export class OtherServers {
  readonly #cluster: Cluster
  readonly #open = new Map<string, Connection>()
  #isClosed = false

  constructor(cluster: Cluster) {
    this.#cluster = cluster
  }

  /** Checks each of them over a connection that stays open. A server that doesn't answer is checked again next time. */
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
