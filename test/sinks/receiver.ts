/**
 * A local HTTP server that runs until its scope closes. It uses `node:http`, so that the same server runs under Bun and
 * Deno.
 */
import { once } from "node:events"
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from "node:http"
import { createServer as createTlsServer, type ServerOptions } from "node:https"
import type { Server, Socket } from "node:net"
import { Effect, type Scope } from "effect"

export interface Received {
  readonly method: string
  readonly url: string
  readonly headers: IncomingMessage["headers"]
  readonly body: Uint8Array
}

export interface Listening {
  readonly url: string
  readonly port: number
  /** Sockets that are open now. */
  readonly sockets: ReadonlySet<Socket>
  /** Connections since the start. */
  readonly connections: () => number
}

/** Listens on a free port. Closing the scope cuts every connection. */
export const listening = (server: Server, scheme = "http"): Effect.Effect<Listening, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const sockets = new Set<Socket>()
      let connections = 0
      server.on("connection", (socket: Socket) => {
        connections += 1
        sockets.add(socket)
        socket.on("error", () => {})
        socket.on("close", () => sockets.delete(socket))
      })
      server.listen(0, "127.0.0.1")
      await once(server, "listening")
      const address = server.address()
      const port = address === null || typeof address === "string" ? 0 : address.port
      return { url: `${scheme}://127.0.0.1:${port}`, port, sockets, connections: () => connections }
    }),
    ({ sockets }) =>
      Effect.sync(() => {
        server.close()
        for (const socket of sockets) socket.destroy()
      }),
  )

export type Handler = (request: Received, response: ServerResponse, raw: IncomingMessage) => void

/** Passes on a request once it is complete. */
const whole =
  (handler: Handler): RequestListener =>
  (request, response) => {
    const chunks: Array<Uint8Array> = []
    request.on("data", (chunk: Uint8Array) => chunks.push(chunk))
    request.on("error", () => {})
    response.on("error", () => {})
    request.on("end", () =>
      handler(
        {
          method: request.method ?? "",
          url: request.url ?? "",
          headers: request.headers,
          body: Buffer.concat(chunks),
        },
        response,
        request,
      ),
    )
  }

export const serve = (handler: Handler): Effect.Effect<Listening, never, Scope.Scope> =>
  Effect.suspend(() => listening(createServer(whole(handler))))

export const serveTls = (options: ServerOptions, handler: Handler): Effect.Effect<Listening, never, Scope.Scope> =>
  Effect.suspend(() => listening(createTlsServer(options, whole(handler)), "https"))
