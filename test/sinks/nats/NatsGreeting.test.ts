/** Peers that never end their first line or a message. The relay neither buffers nor prints their bytes. */
import { afterEach, expect, spyOn } from "bun:test"
import { once } from "node:events"
import { type AddressInfo, createServer, type Socket } from "node:net"
import { Effect, Fiber } from "effect"
import { it } from "../../lib/effect.ts"
import { reasonOf } from "../samples.ts"
import { openNats } from "./natsSink.ts"

const chunk = Buffer.alloc(64 * 1_024, "A")
/** An upper bound for the relay's limits plus the system's socket buffers on both sides. */
const most = 16 * 1024 * 1024

const printed = spyOn(console, "log")
afterEach(() => {
  expect(printed).not.toHaveBeenCalled()
})

/** Writes until the peer stops reading. */
const endlessly = (socket: Socket): void => {
  const write = (): void => {
    while (socket.write(chunk));
  }
  socket.on("drain", write)
  write()
}

/** A peer that behaves like this, and the number of bytes it has written when its first connection closes. */
const startPeer = Effect.fnUntraced(function* (speak: (socket: Socket) => void) {
  const said = Promise.withResolvers<number>()
  const server = createServer((socket) => {
    socket.on("error", () => {})
    socket.on("close", () => said.resolve(socket.bytesWritten))
    speak(socket)
  }).listen(0, "127.0.0.1")
  yield* Effect.promise(() => once(server, "listening"))
  yield* Effect.addFinalizer(() => Effect.sync(() => server.close()))
  const { port } = server.address() as AddressInfo
  return { address: `127.0.0.1:${port}`, said: Effect.promise(() => said.promise) }
})

const sinkTo = Effect.fnUntraced(function* (speak: (socket: Socket) => void, more: object = {}) {
  const { address, said } = yield* startPeer(speak)
  return { sink: yield* openNats(() => ({ servers: [address], subject: "s", ...more })), said }
})

/** Completes the login, then calls `then`. */
const afterLogin = (then: (socket: Socket) => void) => (socket: Socket) => {
  socket.write('INFO {"server_id":"x","version":"2.10.0","proto":1,"max_payload":1048576,"headers":true}\r\n')
  socket.once("data", () => {
    socket.write("PONG\r\n")
    socket.once("data", () => then(socket))
  })
}

it.live("a greeting without an end is cut off, and the sink reports that this isn't a NATS server", function* () {
  const { sink, said } = yield* sinkTo(endlessly)
  expect((yield* Effect.flip(sink.check)).message).toContain("no NATS server")
  expect(yield* said).toBeLessThan(most)
})

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
    function* () {
      const speak = (socket: Socket) => {
        socket.write(line)
        endlessly(socket)
      }
      const { sink, said } = yield* sinkTo(afterLogin(speak))
      const asking = yield* Effect.forkChild(Effect.ignore(sink.check))
      expect(yield* said).toBeLessThan(most)
      yield* Fiber.interrupt(asking)
    },
    // The client reads a line byte by byte.
    60_000,
  )
}

const full = "-ERR 'maximum connections exceeded'\r\n"
const greeting = (more: object = {}) => `INFO ${JSON.stringify({ server_id: "x", version: "2.10.0", ...more })}\r\n`
const inTls = greeting({ tls_required: true })
const own = "maximum connections exceeded"

/** Calls `rest` 50 ms after the greeting. */
const later = (first: string, rest: (socket: Socket) => void) => (socket: Socket) => {
  socket.write(first)
  setTimeout(() => rest(socket), 50)
}

/** Orders of the greeting, the refusal and the end of the connection, each with the reported words. */
const refusals: ReadonlyArray<[when: string, speak: (socket: Socket) => void, words: string, more?: object]> = [
  ["with its greeting, and closes", (socket) => socket.end(greeting() + full), own],
  [
    "with its greeting, and resets the connection",
    (socket) => socket.write(greeting() + full, () => socket.resetAndDestroy()),
    own,
  ],
  ["after its greeting, and closes", later(greeting(), (socket) => socket.end(full)), own],
  [
    "after its greeting, and resets the connection",
    later(greeting(), (socket) => socket.write(full, () => socket.resetAndDestroy())),
    own,
  ],
  ["with its greeting, before TLS", (socket) => socket.end(inTls + full), own, { tls: {} }],
  [
    "during the handshake of TLS",
    later(inTls, (socket) => socket.end(full)),
    "without TLS, as a server does that takes no more connections",
    { tls: {} },
  ],
]

for (const [when, speak, words, more] of refusals) {
  it.live(`a server that refuses the relay ${when} is reported as refusing it`, function* () {
    const { sink } = yield* sinkTo(speak, more)
    expect(yield* reasonOf(sink.check)).toMatchObject({
      _tag: "SinkUnavailable",
      message: expect.stringContaining(`turns the relay away (${words})`),
    })
  })
}

it.live("the relay asks the next server if one takes no more connections", function* () {
  const asked = [0, 0]
  const [one, other] = yield* Effect.all(
    [0, 1].map((index) =>
      startPeer((socket) => {
        asked[index] = (asked[index] ?? 0) + 1
        socket.end(greeting() + full)
      }),
    ),
  )
  const sink = yield* openNats(() => ({ servers: [one?.address, other?.address], subject: "s" }))
  yield* Effect.flip(sink.check)
  expect(asked).toEqual([1, 1])
})
