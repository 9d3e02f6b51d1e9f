/**
 * A TCP proxy that delivers each byte some milliseconds after it came, in both
 * directions: as if the server stood farther away. It keeps their order, and
 * takes as much as comes: only the way is longer, not narrower.
 */
import { once } from "node:events"
import { type AddressInfo, connect, createServer, type Socket } from "node:net"

export interface DelayProxy {
  readonly port: number
  /** How often one side has waited for the other: round trips so far, over all connections. */
  readonly roundTrips: () => number
  readonly close: () => Promise<void>
}

/** Passes on what comes from one side to the other, and its end. */
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

/** Listens on loopback, and leads to a port of loopback that is so many milliseconds away, each way. */
export const makeDelayProxy = async (target: number, millis: number): Promise<DelayProxy> => {
  const open = new Set<Socket>()
  let roundTrips = 0
  const server = createServer({ noDelay: true, allowHalfOpen: true }, (client) => {
    const upstream = connect({ port: target, host: "127.0.0.1", noDelay: true, allowHalfOpen: true })
    for (const socket of [client, upstream]) {
      open.add(socket)
      socket.on("close", () => open.delete(socket))
    }
    // What is sent before the answer to the last has come is of the same round trip.
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
