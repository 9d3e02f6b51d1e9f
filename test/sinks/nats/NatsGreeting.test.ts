/** Peers that never end their first line, or a message: what they say is not collected. */
import { expect } from "bun:test"
import { once } from "node:events"
import { type AddressInfo, createServer } from "node:net"
import { Effect } from "effect"
import { it } from "../../lib/effect.ts"
import { openNats } from "./natsSink.ts"

const chunk = Buffer.alloc(64 * 1_024, "A")

it.live("a greeting without an end is cut off, and the sink says that this is no NATS server", () =>
  Effect.gen(function* () {
    let ended = (_: number): void => {}
    const said = new Promise<number>((resolve) => {
      ended = resolve
    })
    const server = createServer((socket) => {
      const write = (): void => {
        while (socket.write(chunk));
      }
      socket.on("error", () => {})
      socket.on("drain", write)
      socket.on("close", () => ended(socket.bytesWritten))
      write()
    }).listen(0, "127.0.0.1")
    yield* Effect.promise(() => once(server, "listening"))
    yield* Effect.addFinalizer(() => Effect.sync(() => server.close()))
    const { port } = server.address() as AddressInfo
    const failure = yield* Effect.flip(
      Effect.flatMap(
        openNats(() => ({ servers: [`127.0.0.1:${port}`], subject: "s" })),
        ({ check }) => check,
      ),
    )
    expect(failure.message).toContain("no NATS server")
    // The limit, and what the system holds on both sides.
    expect(yield* Effect.promise(() => said)).toBeLessThan(16 * 1024 * 1024)
  }),
)

it.live("a message of 2 GB is not understood, and its connection ends", () =>
  Effect.gen(function* () {
    const closed = Promise.withResolvers<void>()
    const server = createServer((socket) => {
      socket.on("error", () => {})
      socket.on("close", closed.resolve)
      socket.write('INFO {"server_id":"x","version":"2.10.0","proto":1,"max_payload":1048576,"headers":true}\r\n')
      socket.once("data", () => {
        socket.write("PONG\r\n")
        socket.once("data", () => socket.write("MSG a 1 2147483647\r\n"))
      })
    }).listen(0, "127.0.0.1")
    yield* Effect.promise(() => once(server, "listening"))
    yield* Effect.addFinalizer(() => Effect.sync(() => server.close()))
    const { port } = server.address() as AddressInfo
    const sink = yield* openNats(() => ({ servers: [`127.0.0.1:${port}`], subject: "s" }))
    yield* Effect.forkChild(Effect.ignore(sink.check))
    yield* Effect.promise(() => closed.promise)
  }),
)
