/**
 * Load that measures the cost of an event: a fixed number a second, however slow the server is. Latency counts from the
 * moment a delivery was due, so a stall shows. A connection has one request in flight. Request n goes over connection n
 * mod 64, so deliveries of one account arrive in order. At N a second below 64 there are N connections, because a
 * server closes a connection that is idle for long.
 */
import { Effect } from "effect"
import { BenchError } from "./BenchError.ts"
import { connections, type Load } from "./Load.ts"
import * as Requests from "./Requests.ts"

export interface Pace {
  readonly rate: number
  readonly seconds: number
  /** Makes the request with this number (default: a new delivery of the scheduling service). */
  readonly request?: (number: number) => string
}

/** A keep-alive connection with one request in flight. Requests that are due meanwhile wait for their turn. */
class Connection {
  #socket: Bun.Socket | undefined
  #received = ""
  readonly #waiting: Array<{ readonly text: string; readonly due: number }> = []
  #inFlight: number | undefined

  readonly #answered: (status: number, due: number) => void
  #broke: (why: string) => void

  constructor(answered: (status: number, due: number) => void, broke: (why: string) => void) {
    this.#answered = answered
    this.#broke = broke
  }

  async open(port: number): Promise<void> {
    this.#socket = await Bun.connect({
      hostname: "127.0.0.1",
      port,
      socket: {
        data: (_, bytes) => this.#receive(bytes),
        close: () => this.#broke("the server closed a connection"),
        error: (_, error) => this.#broke(error.message),
      },
    })
  }

  send(text: string, due: number): void {
    if (this.#inFlight !== undefined) {
      this.#waiting.push({ text, due })
      return
    }
    this.#inFlight = due
    if (this.#socket?.write(text) !== text.length) this.#broke("the server takes no more bytes")
  }

  close(): void {
    this.#broke = () => {}
    this.#socket?.end()
  }

  #receive(bytes: Buffer): void {
    this.#received += bytes.toString("latin1")
    const end = this.#received.indexOf("\r\n\r\n")
    if (end === -1) return
    const length = Number(/content-length: *(\d+)/i.exec(this.#received)?.[1] ?? 0)
    if (this.#received.length < end + 4 + length) return
    const status = Number(this.#received.slice(9, 12))
    const due = this.#inFlight ?? 0
    this.#received = ""
    this.#inFlight = undefined
    const next = this.#waiting.shift()
    if (next !== undefined) this.send(next.text, next.due)
    this.#answered(status, due)
  }
}

/**
 * Sends `rate` deliveries a second, over the connections in turn, and waits until all are answered. With several ports
 * the connections are spread over them, as a load balancer does.
 */
export const paced = (
  port: number,
  { rate, seconds, request }: Pace,
  others: ReadonlyArray<number> = [],
): Effect.Effect<Load, BenchError> =>
  Effect.callback<Load, BenchError>((resume) => {
    const total = rate * seconds
    const latencies = new Float64Array(total)
    const run = Requests.newRun()
    const requestOf = request ?? ((number) => Requests.request(run, { number, sentAt: Date.now() }))
    let sent = 0
    let answered = 0
    let refused = 0
    let began = 0
    let timer: Timer | undefined

    const stop = () => {
      clearTimeout(timer)
      for (const connection of pool) connection.close()
    }
    const finish = (exit: Effect.Effect<Load, BenchError>) => {
      stop()
      resume(exit)
    }
    const broke = (why: string) =>
      finish(Effect.fail(new BenchError({ message: `port ${[port, ...others].join(", ")}: ${why}` })))
    const onAnswer = (status: number, due: number) => {
      latencies[answered++] = performance.now() - due
      if (status < 200 || status > 299) refused += 1
      if (answered < total) return
      latencies.sort()
      const at = (share: number) => latencies[Math.floor(share * (total - 1))] ?? 0
      const took = (performance.now() - began) / 1000
      finish(Effect.succeed({ requests: total, rate: total / took, p50: at(0.5), p99: at(0.99), refused }))
    }
    const senders = Math.min(connections, Math.ceil(rate))
    const pool = Array.from({ length: senders }, () => new Connection(onAnswer, broke))

    const tick = () => {
      const now = performance.now()
      for (const due = Math.min(total, ((now - began) / 1000) * rate); sent < due; sent++) {
        pool[sent % senders]?.send(requestOf(sent), now)
      }
      if (sent < total) timer = setTimeout(tick, 1)
    }
    const ports = [port, ...others]
    const portOf = (index: number) => ports[index % ports.length] ?? port
    Promise.all(pool.map((connection, index) => connection.open(portOf(index)))).then(
      () => {
        began = performance.now()
        tick()
      },
      () => broke("nothing listens there"),
    )
    return Effect.sync(stop)
  })
