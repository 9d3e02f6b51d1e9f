/**
 * Connections that are made when they are wanted, up to a bound, and kept for
 * the next. Who finds none free waits in line.
 *
 * **Guarantee.** Where no server can be reached, all who wait are told at once.
 */
import { Result } from "effect"
import type { Connection } from "./Connection.ts"
import { type DatabaseError, databaseError } from "./DatabaseError.ts"

type Taken = Result.Result<Connection, DatabaseError>

/** Milliseconds that a connection is kept which nobody wants. */
const idleTime = 60_000

export class ConnectionPool {
  readonly #connect: () => Promise<Connection>
  readonly #size: number
  readonly #idle: Array<Connection> = []
  readonly #expiring = new Map<Connection, ReturnType<typeof setTimeout>>()
  readonly #busy = new Set<Connection>()
  #connecting = 0
  #waiting: Array<(taken: Taken) => void> = []
  #isClosed = false

  constructor(connect: () => Promise<Connection>, size: number) {
    this.#connect = connect
    this.#size = size
  }

  /** A connection for the caller alone, until it is given back; waits so many milliseconds. */
  take(timeout: number): Promise<Taken> {
    if (this.#isClosed) return Promise.resolve(closed())
    const idle = this.#idle.pop()
    if (idle !== undefined) {
      this.#keep(idle)
      this.#busy.add(idle)
      return Promise.resolve(Result.succeed(idle))
    }
    return new Promise((resolve) => {
      const wait = (taken: Taken) => {
        clearTimeout(timer)
        resolve(taken)
      }
      const timer = setTimeout(() => {
        this.#waiting = this.#waiting.filter((one) => one !== wait)
        resolve(Result.fail(databaseError("unavailable", `PostgreSQL: no connection within ${timeout} milliseconds`)))
      }, timeout)
      this.#waiting.push(wait)
      this.#fill()
    })
  }

  give(connection: Connection): void {
    this.#busy.delete(connection)
    if (this.#isClosed || connection.isBusy) connection.destroy()
    const next = connection.isOpen ? this.#waiting.shift() : undefined
    if (next !== undefined) {
      this.#busy.add(connection)
      next(Result.succeed(connection))
    } else if (connection.isOpen) {
      this.#idle.push(connection)
      this.#expiring.set(
        connection,
        setTimeout(() => connection.close(), idleTime),
      )
    } else this.#fill()
  }

  /** Ends the connections that are not wanted any more, at once: those in use lose what is under way. */
  retire(isOld: (connection: Connection) => boolean): void {
    for (const connection of [...this.#idle, ...this.#busy]) if (isOld(connection)) connection.destroy()
  }

  close(): void {
    this.#isClosed = true
    const waiting = this.#waiting
    this.#waiting = []
    for (const wait of waiting) wait(closed())
    for (const connection of [...this.#idle, ...this.#busy]) connection.close()
  }

  #keep(connection: Connection): void {
    clearTimeout(this.#expiring.get(connection))
    this.#expiring.delete(connection)
  }

  /** Makes connections for those who wait. */
  #fill(): void {
    const room = this.#size - this.#busy.size - this.#idle.length - this.#connecting
    const wanted = Math.min(room, this.#waiting.length - this.#connecting)
    for (let made = 0; made < wanted; made++) void this.#make()
  }

  async #make(): Promise<void> {
    this.#connecting += 1
    try {
      const connection = await this.#connect()
      this.#connecting -= 1
      connection.onClosed = () => {
        this.#keep(connection)
        const at = this.#idle.indexOf(connection)
        if (at >= 0) this.#idle.splice(at, 1)
      }
      this.give(connection)
    } catch (error) {
      this.#connecting -= 1
      const waiting = this.#waiting
      this.#waiting = []
      for (const wait of waiting) wait(Result.fail(error as DatabaseError))
    }
  }
}

const closed = (): Taken => Result.fail(databaseError("unavailable", "PostgreSQL: the relay is ending"))
