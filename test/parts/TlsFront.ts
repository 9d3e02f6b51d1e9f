/** A server that terminates TLS in front of a service without TLS. Tests can change its certificates. */
import { once } from "node:events"
import { type AddressInfo, connect, type Socket } from "node:net"
import { createServer, type Server, type TlsOptions } from "node:tls"

export interface TlsFront {
  readonly port: number
  /** Ends all connections. New connections get these options. */
  readonly present: (options: TlsOptions) => Promise<void>
  readonly close: () => Promise<void>
}

/** Starts a server in front of a port of 127.0.0.1 (default: on a free port). */
export const makeTlsFront = async (target: number, options: TlsOptions, at = 0): Promise<TlsFront> => {
  const open = new Set<Socket>()
  const hold = (socket: Socket, other: Socket): void => {
    open.add(socket)
    socket.on("error", () => other.destroy())
    socket.on("close", () => {
      open.delete(socket)
      other.end()
    })
  }
  const listen = async (options: TlsOptions, port: number): Promise<Server> => {
    const server = createServer(options, (client) => {
      const upstream = connect({ port: target, host: "127.0.0.1", noDelay: true })
      hold(client, upstream)
      hold(upstream, client)
      client.pipe(upstream)
      upstream.pipe(client)
    })
    server.on("tlsClientError", () => {})
    server.listen(port, "127.0.0.1")
    await once(server, "listening")
    return server
  }
  let server = await listen(options, at)
  const { port } = server.address() as AddressInfo
  const close = async (): Promise<void> => {
    for (const socket of open) socket.destroy()
    if (!server.listening) return
    server.close()
    await once(server, "close")
  }
  return {
    port,
    present: async (options) => {
      await close()
      server = await listen(options, port)
    },
    close,
  }
}
