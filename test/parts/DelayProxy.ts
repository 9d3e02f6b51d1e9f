/**
 * A TCP proxy that delays each byte by some milliseconds in both directions, as if the server were farther away. It
 * keeps the order, and doesn't limit the rate.
 */
import { once } from "node:events"
import { type AddressInfo, connect, createServer, type Socket } from "node:net"

export interface DelayProxy {
  readonly port: number
  /** Number of round trips over all connections. */
  readonly roundTrips: () => number
  readonly close: () => Promise<void>
}

/** Passes on the bytes of one side to the other, and their end. */
const delayed = (from: Socket, to: Socket, millis: number): void => {
  const waiting: Array<{ readonly due: number; readonly act: () => void }> = []
  const deliver = () => {
    for (let [next] = waiting; next !== undefined; [next] = waiting) {
      const left = next.due - performance.now()
      if (left > 0) {
        setTimeout(deliver, left)
        return
      }
      next.act()
      waiting.shift()
    }
  }
  const later = (act: () => void) => {
    if (waiting.push({ due: performance.now() + millis, act }) === 1) setTimeout(deliver, millis)
  }
  from.on("data", (chunk) => later(() => to.write(chunk)))
  from.on("end", () => later(() => to.end()))
  from.on("error", () => later(() => to.destroy()))
  from.on("close", () => later(() => to.destroy()))
}

/** Listens on loopback. Connects to another port on loopback, as if it were `millis` away in each direction. */
export const makeDelayProxy = async (target: number, millis: number): Promise<DelayProxy> => {
  const open = new Set<Socket>()
  let roundTrips = 0
  const server = createServer({ noDelay: true, allowHalfOpen: true }, (client) => {
    const upstream = connect({ port: target, host: "127.0.0.1", noDelay: true, allowHalfOpen: true })
    for (const socket of [client, upstream]) {
      open.add(socket)
      socket.on("close", () => open.delete(socket))
    }
    // Data sent before the last answer arrived belong to the same round trip.
    let isAnswered = true
    client.on("data", () => {
      if (isAnswered) roundTrips += 1
      isAnswered = false
    })
    upstream.on("data", () => {
      isAnswered = true
    })
    delayed(client, upstream, millis)
    delayed(upstream, client, millis)
  })
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  return {
    port: (server.address() as AddressInfo).port,
    roundTrips: () => roundTrips,
    close: async () => {
      for (const socket of open) socket.destroy()
      server.close()
      await once(server, "close")
    },
  }
}
