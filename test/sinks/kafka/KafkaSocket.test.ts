/** Bytes from a peer that doesn't speak Kafka, or whose frames were lost, end the connection and use no memory. */
import { afterAll, describe, expect, test } from "bun:test"
import { once } from "node:events"
import { type AddressInfo, connect, createServer, type Socket } from "node:net"
import { NotKafka, watchSocket } from "../../../src/sinks/kafka/KafkaClient.ts"

let said: Buffer = Buffer.alloc(0)
const server = createServer((socket) => {
  socket.on("error", () => {})
  socket.write(said)
}).listen(0, "127.0.0.1")
afterAll(() => server.close())

/** A watched socket to a peer that sends these bytes. */
const watched = async (bytes: Buffer, listen: (socket: Socket) => void = () => {}): Promise<Socket> => {
  said = bytes
  if (!server.listening) await once(server, "listening")
  const socket = connect((server.address() as AddressInfo).port, "127.0.0.1")
  watchSocket(socket)
  listen(socket)
  return socket
}

const ended = (socket: Socket): Promise<unknown> =>
  new Promise((resolve) => {
    socket.on("close", () => resolve(socket.errored))
  })

const length = (value: number): Buffer => {
  const bytes = Buffer.alloc(4)
  bytes.writeInt32BE(value)
  return bytes
}

describe("a socket to a broker", () => {
  for (const [what, value] of [
    ["2 GB", 0x7fffffff],
    ["-1", -1],
    ["0", 0],
    ["what HTTP begins with", 0x48545450],
  ] as const) {
    test(`ends at an answer with a length of ${what}`, async () => {
      expect(await ended(await watched(length(value)))).toBeInstanceOf(NotKafka)
    })
  }

  test("finds the length of the next answer wherever the last one ends", async () => {
    const first = Buffer.concat([length(8), Buffer.alloc(8)])
    expect(await ended(await watched(Buffer.concat([first, first, length(-1)])))).toBeInstanceOf(NotKafka)
  })

  test("leaves a record of TLS to the client, which knows it", async () => {
    let seen = 0
    const socket = await watched(Buffer.from([0x15, 3, 3, 0, 2, 2, 40]), (socket) =>
      socket.on("data", (chunk) => {
        seen += chunk.length
        if (seen === 7) socket.destroy()
      }),
    )
    expect(await ended(socket)).toBeNull()
  })

  test("ends with the error of a listener for its data", async () => {
    const socket = await watched(length(8), (socket) =>
      socket.on("data", () => {
        throw new RangeError("out of bounds")
      }),
    )
    expect(await ended(socket)).toBeInstanceOf(RangeError)
  })
})
