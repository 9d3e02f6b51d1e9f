/** A TCP proxy that can stall and cut its connections, as a network does. */
import { once } from "node:events"
import { type AddressInfo, connect, createServer, type Socket } from "node:net"

export interface Proxy {
  readonly port: number
  /** Bytes stop in both directions and connections stay, as on a network that drops all packets. */
  readonly stall: () => void
  /** Bytes from servers stop, and bytes from clients pass: requests arrive, and their answers are held. */
  readonly mute: () => void
  readonly flow: () => void
  /** Bytes of existing connections stop for good, as behind a NAT that has forgotten them. New ones pass. */
  readonly forget: () => void
  /** Resets the existing connections. New ones are accepted. */
  readonly cut: () => void
  /**
   * Ends one connection within an answer: the connection that reaches the server from port `from`, after this many more
   * bytes from the server.
   */
  readonly cutWithin: (from: number, bytes: number) => void
  /** Number of connections ended within an answer. */
  readonly cutsWithin: () => number
  /** Connects new connections to this port. */
  readonly pointTo: (port: number) => void
  /** Number of connections accepted in total. */
  readonly taken: () => number
  readonly close: () => Promise<void>
}

/** The address to listen on (default: a free port of 127.0.0.1). */
interface Place {
  readonly port?: number
  readonly host?: string
}

/** Makes a proxy to a port of 127.0.0.1. */
export const makeProxy = async (target: number, { port: own = 0, host = "127.0.0.1" }: Place = {}): Promise<Proxy> => {
  let port = target
  let stalled = false
  let muted = false
  let taken = 0
  let cutsWithin = 0
  /** Number of bytes that servers may still send before their connection ends. */
  const left = new Map<Socket, number>()
  const open = new Set<Socket>()
  const servers = new WeakSet<Socket>()
  const forgotten = new WeakSet<Socket>()
  const isHeld = (socket: Socket) => stalled || forgotten.has(socket) || (muted && servers.has(socket))

  const join = (from: Socket, to: Socket): void => {
    open.add(from)
    from.on("error", () => to.destroy())
    from.on("close", () => {
      open.delete(from)
      // A network that drops packets also drops the end of a connection.
      if (!stalled && !forgotten.has(from)) to.end()
    })
    from.on("data", (chunk: Buffer) => {
      const rest = left.get(from)
      if (rest !== undefined) {
        left.set(from, rest - chunk.length)
        if (chunk.length >= rest) {
          left.delete(from)
          cutsWithin += 1
          to.end(chunk.subarray(0, rest))
          from.destroy()
          return
        }
      }
      if (!to.write(chunk)) from.pause()
    })
    to.on("drain", () => {
      if (!isHeld(from)) from.resume()
    })
    if (isHeld(from)) from.pause()
  }

  const server = createServer({ noDelay: true }, (client) => {
    taken += 1
    const upstream = connect({ port, host: "127.0.0.1", noDelay: true })
    servers.add(upstream)
    join(client, upstream)
    join(upstream, client)
  })
  server.listen(own, host)
  await once(server, "listening")
  const all = (act: (socket: Socket) => void) => {
    for (const socket of open) act(socket)
  }
  const hold = () => all((socket) => isHeld(socket) && socket.pause())
  return {
    port: (server.address() as AddressInfo).port,
    stall: () => {
      stalled = true
      hold()
    },
    mute: () => {
      muted = true
      hold()
    },
    flow: () => {
      stalled = false
      muted = false
      all((socket) => isHeld(socket) || socket.resume())
    },
    forget: () => {
      all((socket) => forgotten.add(socket))
      hold()
    },
    cut: () => all((socket) => socket.resetAndDestroy()),
    cutWithin: (from, bytes) =>
      all((socket) => servers.has(socket) && socket.localPort === from && left.set(socket, bytes)),
    cutsWithin: () => cutsWithin,
    pointTo: (next) => {
      port = next
    },
    taken: () => taken,
    close: async () => {
      all((socket) => socket.destroy())
      if (!server.listening) return
      server.close()
      await once(server, "close")
    },
  }
}
