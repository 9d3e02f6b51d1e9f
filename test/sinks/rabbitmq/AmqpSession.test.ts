/** The relay's introduction to a broker, which then closes the connection. */
import { expect } from "bun:test"
import { once } from "node:events"
import { type AddressInfo, createServer } from "node:net"
import { Effect } from "effect"
import { userAgent } from "../../../src/runtime/HttpTransport.ts"
import { it } from "../../lib/effect.ts"
import { openRabbitMq } from "./rabbitMqSink.ts"

const text = (value: string): Buffer => {
  const bytes = Buffer.from(`\0\0\0\0${value}`)
  bytes.writeInt32BE(value.length)
  return bytes
}
/** Connection.Start of AMQP 0-9-1, without properties. */
const method = Buffer.concat([Buffer.from([0, 10, 0, 10, 0, 9]), text(""), text("PLAIN"), text("en_US")])
const start = Buffer.concat([
  Buffer.from([1, 0, 0]),
  text(method.toString("latin1")).subarray(0, 4),
  method,
  Buffer.from([0xce]),
])

it.live("an AMQP connection names the relay, and no library or runtime", function* () {
  const said = Promise.withResolvers<string>()
  const server = createServer((socket) => {
    socket.on("error", () => {})
    socket.once("data", () => {
      socket.write(start)
      socket.once("data", (bytes: Buffer) => {
        said.resolve(bytes.toString("latin1"))
        socket.destroy()
      })
    })
  }).listen(0, "127.0.0.1")
  yield* Effect.promise(() => once(server, "listening"))
  yield* Effect.addFinalizer(() => Effect.sync(() => server.close()))
  const { port } = server.address() as AddressInfo
  const sink = yield* openRabbitMq(() => ({ url: `amqp://127.0.0.1:${port}`, routingKey: "q" }))
  yield* Effect.ignore(sink.check)
  const [product = "", version = ""] = userAgent.split("/")
  const properties = yield* Effect.promise(() => said.promise)
  expect(properties).toContain(`productS${text(product).toString("latin1")}`)
  expect(properties).toContain(`versionS${text(version).toString("latin1")}`)
  expect(properties).not.toMatch(/amqplib|node/i)
})
