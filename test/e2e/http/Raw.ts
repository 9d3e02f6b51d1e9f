/** HTTP as bytes on a socket, for requests that no client would send. */
import { connect } from "node:net"

export interface Exchange {
  /** All bytes received. */
  readonly text: string
  /** The status of every answer, in order. */
  readonly statuses: ReadonlyArray<number>
  /** Whether the server ended the connection. */
  readonly closed: boolean
}

export interface Connection {
  readonly write: (text: string | Uint8Array) => void
  /** Waits for `count` answers or the end of the connection, at most five seconds. */
  readonly answers: (count: number) => Promise<Exchange>
  /** Waits for the server to end the connection, at most five seconds. */
  readonly ended: () => Promise<Exchange>
  /** Ends this side of the connection, and continues to read. */
  readonly end: () => void
  readonly destroy: () => void
}

const timeout = 5_000

export const open = async (port: number): Promise<Connection> => {
  const socket = connect(port, "127.0.0.1")
  let text = ""
  let closed = false
  const wake: Array<() => void> = []
  const changed = () => {
    for (const waiter of wake.splice(0)) waiter()
  }
  socket.on("data", (chunk) => {
    text += chunk.toString("latin1")
    changed()
  })
  socket.on("error", () => {})
  socket.on("close", () => {
    closed = true
    changed()
  })
  await new Promise((resolve) => socket.once("connect", resolve))

  const exchange = (): Exchange => ({
    text,
    statuses: [...text.matchAll(/HTTP\/1\.[01] ([0-9]{3}) /g)].map((_) => Number(_[1])).filter((_) => _ >= 200),
    closed,
  })
  const until = async (done: () => boolean): Promise<Exchange> => {
    const deadline = Date.now() + timeout
    while (!done() && Date.now() < deadline) {
      const timer = setTimeout(changed, deadline - Date.now())
      await new Promise<void>((resolve) => wake.push(resolve))
      clearTimeout(timer)
    }
    return exchange()
  }
  return {
    write: (bytes) => void socket.write(bytes),
    answers: (count) => until(() => closed || (exchange().statuses.length >= count && text.endsWith("\n"))),
    ended: () => until(() => closed),
    end: () => void socket.end(),
    destroy: () => socket.destroy(),
  }
}

/** Sends the bytes, and waits for `count` answers. */
export const send = async (port: number, bytes: string, count = 1): Promise<Exchange> => {
  const connection = await open(port)
  connection.write(bytes)
  const exchange = await connection.answers(count)
  connection.destroy()
  return exchange
}
