/** Peers that never end their first line, or a message: what they say is neither collected nor printed. */
import { afterEach, expect, spyOn } from "bun:test"
import { once } from "node:events"
import { type AddressInfo, createServer, type Socket } from "node:net"
import { Effect, Fiber } from "effect"
import { it } from "../../lib/effect.ts"
import { openNats } from "./natsSink.ts"

const chunk = Buffer.alloc(64 * 1_024, "A")
/** The limits, and what the system holds on both sides. */
const most = 16 * 1024 * 1024

const printed = spyOn(console, "log")
afterEach(() => {
  expect(printed).not.toHaveBeenCalled()
})

/** Writes for as long as anybody reads. */
const endlessly = (socket: Socket): void => {
  const write = (): void => {
    while (socket.write(chunk));
  }
  socket.on("drain", write)
  write()
}

/** A sink to a peer that speaks so, and the bytes that the peer has written once its first connection is over. */
const sinkTo = (speak: (socket: Socket) => void) =>
  Effect.gen(function* () {
    const said = Promise.withResolvers<number>()
    const server = createServer((socket) => {
      socket.on("error", () => {})
      socket.on("close", () => said.resolve(socket.bytesWritten))
      speak(socket)
    }).listen(0, "127.0.0.1")
    yield* Effect.promise(() => once(server, "listening"))
    yield* Effect.addFinalizer(() => Effect.sync(() => server.close()))
    const { port } = server.address() as AddressInfo
    const sink = yield* openNats(() => ({ servers: [`127.0.0.1:${port}`], subject: "s" }))
    return { sink, said: Effect.promise(() => said.promise) }
  })

/** Lets the relay in, and then says this. */
const afterLogin = (then: (socket: Socket) => void) => (socket: Socket) => {
  socket.write('INFO {"server_id":"x","version":"2.10.0","proto":1,"max_payload":1048576,"headers":true}\r\n')
  socket.once("data", () => {
    socket.write("PONG\r\n")
    socket.once("data", () => then(socket))
  })
}

it.live("a greeting without an end is cut off, and the sink says that this is no NATS server", () =>
  Effect.gen(function* () {
    const { sink, said } = yield* sinkTo(endlessly)
    expect((yield* Effect.flip(sink.check)).message).toContain("no NATS server")
    expect(yield* said).toBeLessThan(most)
  }),
)

const messages = {
  "of 2 GB": "MSG a 1 2147483647\r\n",
  "of 60 MB": "MSG a 1 62914560\r\n",
  "in a line without an end": "INFO ",
  "without a size": "MSG a 1 -1\r\n",
  "of no kind": "HELLO\r\n",
  "that is no JSON": "INFO {\r\n",
  "of a version that is none": 'INFO {"version":"99"}\r\n',
}

for (const [what, line] of Object.entries(messages)) {
  it.live(
    `a message ${what} ends its connection, and nothing is printed`,
    () =>
      Effect.gen(function* () {
        const speak = (socket: Socket) => {
          socket.write(line)
          endlessly(socket)
        }
        const { sink, said } = yield* sinkTo(afterLogin(speak))
        const asking = yield* Effect.forkChild(Effect.ignore(sink.check))
        expect(yield* said).toBeLessThan(most)
        yield* Fiber.interrupt(asking)
      }),
    // The client reads a line byte by byte.
    60_000,
  )
}
