/** A TCP proxy that can stall and cut what runs through it, as a network does. */
import { once } from "node:events"
import { type AddressInfo, connect, createServer, type Socket } from "node:net"

export interface Proxy {
  readonly port: number
  /** Bytes stop in both directions, and connections stay: as in a network that drops all packets. */
  readonly stall: () => void
  readonly flow: () => void
  /** Resets the connections that there are; new ones are taken. */
  readonly cut: () => void
  /** Where new connections go from now on. */
  readonly pointTo: (port: number) => void
  /** How many have been taken in all. */
  readonly taken: () => number
  readonly close: () => Promise<void>
}

/** Listens on loopback, and passes on to a port of loopback. */
export const makeProxy = async (target: number): Promise<Proxy> => {
  let port = target
  let stalled = false
  let taken = 0
  const open = new Set<Socket>()

  const join = (from: Socket, to: Socket): void => {
    open.add(from)
    from.on("error", () => to.destroy())
    from.on("close", () => {
      open.delete(from)
      // A network that drops packets drops the last one too.
      if (!stalled) to.end()
    })
    from.on("data", (chunk) => {
      if (!to.write(chunk)) from.pause()
    })
    to.on("drain", () => {
      if (!stalled) from.resume()
    })
    if (stalled) from.pause()
  }

  const server = createServer({ noDelay: true }, (client) => {
    taken += 1
    const upstream = connect({ port, host: "127.0.0.1", noDelay: true })
    join(client, upstream)
    join(upstream, client)
  })
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  const all = (act: (socket: Socket) => void) => {
    for (const socket of open) act(socket)
  }
  return {
    port: (server.address() as AddressInfo).port,
    stall: () => {
      stalled = true
      all((socket) => socket.pause())
    },
    flow: () => {
      stalled = false
      all((socket) => socket.resume())
    },
    cut: () => all((socket) => socket.resetAndDestroy()),
    pointTo: (next) => {
      port = next
    },
    taken: () => taken,
    close: async () => {
      all((socket) => socket.destroy())
      server.close()
      await once(server, "close")
    },
  }
}
