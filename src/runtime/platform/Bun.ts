/**
 * The platform on Bun. Nothing here runs on Deno.
 *
 * **Gotcha.** A forced stop leaves connections open that never sent a byte. They
 * end with the process.
 */
import type { HmacFactory } from "../../event/Signature.ts"
import * as Problem from "../Problem.ts"
import type { Libc, Listener, ListenOptions, Platform } from "./Platform.ts"

/** Keyed once and copied for each body, which takes half the time of `createHmac`. */
const hmac: HmacFactory = (secret) => {
  const keyed = new Bun.CryptoHasher("sha256", Buffer.from(secret, "utf8"))
  return (body) => keyed.copy().update(body).digest()
}

/** Any of the servers, because each knows the addresses of all requests. */
let anyServer: Bun.Server<undefined> | undefined

const listen = (options: ListenOptions): Listener => {
  // `Bun.serve` has no such option. It uses this limit for all servers of the process.
  if (options.maxHeaders !== undefined) {
    Object.assign(process.getBuiltinModule("node:http"), { maxHeaderSize: options.maxHeaders })
  }
  const { host, port, unix } = options.address
  const server = Bun.serve({
    ...(unix === undefined ? { hostname: host, port } : { unix }),
    ...(options.tls === undefined ? {} : { tls: { cert: options.tls.certificate, key: options.tls.key } }),
    fetch: options.handler,
    maxRequestBodySize: options.maxBody,
    idleTimeout: options.idleTimeout,
    // Bun's default page shows the error's message.
    error: () => Problem.toResponse(Problem.bug),
    development: false,
    // By default not shared, because two relays on one port would each get some of the deliveries.
    reusePort: options.sharesPort,
    // The types have no idle timeout for a Unix socket, but Bun has it.
  } as Bun.Serve.Options<undefined>)
  anyServer = server
  return {
    address: { ...options.address, port: server.port ?? port },
    close: (force) => server.stop(force),
  }
}

const libc = (): Libc => {
  // Not imported, because Deno loads this module too.
  const { dlopen } = process.getBuiltinModule("bun:ffi") as typeof import("bun:ffi")
  const { symbols } = dlopen("libc.so.6", {
    socket: { args: ["i32", "i32", "i32"], returns: "i32" },
    sendto: { args: ["i32", "ptr", "usize", "i32", "ptr", "u32"], returns: "i64" },
    close: { args: ["i32"], returns: "i32" },
    poll: { args: ["ptr", "usize", "i32"], returns: "i32" },
    setsockopt: { args: ["i32", "i32", "i32", "ptr", "u32"], returns: "i32" },
    getsockopt: { args: ["i32", "i32", "i32", "ptr", "ptr"], returns: "i32" },
    getsockname: { args: ["i32", "ptr", "ptr"], returns: "i32" },
    fcntl: { args: ["i32", "i32", "ptr"], returns: "i32" },
    memcpy: { args: ["ptr", "ptr", "usize"], returns: "usize" },
    clock_gettime: { args: ["i32", "ptr"], returns: "i32" },
  })
  return symbols
}

export const make = (): Platform => ({
  name: "bun",
  version: Bun.version,
  isCompiled: Bun.main.startsWith("/$bunfs/") || Bun.main.startsWith("B:/~BUN/"),
  hmac,
  readsTrailers: false,
  peerOf: (request) => anyServer?.requestIP(request)?.address ?? "",
  listen,
  libc,
  collect: () => Bun.gc(true),
  cantSharePort: undefined,
})
