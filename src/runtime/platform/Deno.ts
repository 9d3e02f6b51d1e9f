/**
 * The platform on Deno. Nothing here runs on Bun.
 *
 * Deno has neither a body limit nor timeouts, so ingest counts each body while it
 * arrives and sets a deadline for it.
 *
 * **Gotcha.** Deno can't close connections. A connection without a request stays
 * open, and after `connection: close` the client must close.
 */
import { hmacSha256 } from "../../event/Signature.ts"
import * as Problem from "../Problem.ts"
import type { Libc, Listener, ListenOptions, Platform } from "./Platform.ts"

interface From {
  readonly remoteAddr: { readonly hostname?: string }
}

const peers = new WeakMap<Request, From>()

/** The parts of Deno's API that this file uses. */
declare const Deno: {
  readonly version: { readonly deno: string }
  readonly build: { readonly standalone?: boolean }
  readonly dlopen: (
    library: string,
    symbols: Readonly<Record<keyof Libc, { readonly parameters: ReadonlyArray<string>; readonly result: string }>>,
  ) => { readonly symbols: Libc }
  readonly serve: (
    options: {
      readonly hostname?: string
      readonly port?: number
      readonly path?: string
      readonly cert?: string
      readonly key?: string
      readonly reusePort: boolean
      readonly signal: AbortSignal
      readonly onListen: () => void
      readonly onError: (error: unknown) => Response
    },
    handler: (request: Request, from: From) => ReturnType<ListenOptions["handler"]>,
  ) => {
    readonly addr: { readonly port?: number }
    readonly finished: Promise<void>
    readonly shutdown: () => Promise<void>
  }
}

const listen = (options: ListenOptions): Listener => {
  const abort = new AbortController()
  const { host, port, unix } = options.address
  const server = Deno.serve(
    {
      ...(unix === undefined ? { hostname: host, port } : { path: unix }),
      ...(options.tls === undefined ? {} : { cert: options.tls.certificate, key: options.tls.key }),
      reusePort: options.sharesPort,
      signal: abort.signal,
      onListen: () => {},
      onError: () => Problem.toResponse(Problem.bug),
    },
    (received, from) => {
      // On a Unix socket, the URL of a request begins with http+unix:
      const request = unix === undefined ? received : new Request(received.url.replace("http+unix:", "http:"), received)
      peers.set(request, from)
      return options.handler(request)
    },
  )
  // Rejects when no descriptors are left for accepting. Uncaught, this would end the process.
  server.finished.catch(options.onEnd)
  let closing = false
  return {
    address: { ...options.address, port: server.addr.port ?? port },
    close: (force) => {
      // An abort after a shutdown ends the process with an error that can't be caught.
      if (!closing) {
        closing = true
        if (force) abort.abort()
        else void server.shutdown()
      }
      return server.finished.catch(() => {})
    },
  }
}

const libc = (): Libc =>
  Deno.dlopen("libc.so.6", {
    socket: { parameters: ["i32", "i32", "i32"], result: "i32" },
    sendto: { parameters: ["i32", "buffer", "usize", "i32", "buffer", "u32"], result: "isize" },
    close: { parameters: ["i32"], result: "i32" },
    poll: { parameters: ["buffer", "usize", "i32"], result: "i32" },
    setsockopt: { parameters: ["i32", "i32", "i32", "buffer", "u32"], result: "i32" },
    getsockopt: { parameters: ["i32", "i32", "i32", "buffer", "buffer"], result: "i32" },
    getsockname: { parameters: ["i32", "buffer", "buffer"], result: "i32" },
    fcntl: { parameters: ["i32", "i32", "buffer"], result: "i32" },
    memcpy: { parameters: ["buffer", "buffer", "usize"], result: "usize" },
    clock_gettime: { parameters: ["i32", "buffer"], result: "i32" },
  }).symbols

export const make = (): Platform => ({
  name: "deno",
  version: Deno.version.deno,
  isCompiled: Deno.build.standalone === true,
  hmac: hmacSha256,
  readsTrailers: true,
  peerOf: (request) => peers.get(request)?.remoteAddr.hostname ?? "",
  listen,
  libc,
  // Deno can't collect garbage on request unless V8 is started with --expose-gc.
  collect: () => {},
  // Without the flag, sharing a port ends the process. The flag also adds `listenDatagram`, so its presence shows that
  // the flag is set.
  cantSharePort: "listenDatagram" in Deno ? undefined : "Deno was started without --unstable-net",
})
