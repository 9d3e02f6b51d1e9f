import { expect } from "bun:test"
import { once } from "node:events"
import { type AddressInfo, createServer } from "node:net"
import { Effect } from "effect"
import { it } from "../../../lib/effect.ts"
import { openDatabase } from "../database.ts"

/** A peer that answers all that it is sent with these bytes. */
const peer = (answer: Buffer) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const server = createServer((socket) => {
        socket.on("error", () => {})
        socket.on("data", () => socket.write(answer))
      })
      server.listen(0, "127.0.0.1")
      await once(server, "listening")
      return server
    }),
    (server) => Effect.sync(() => server.close()),
  )

const answers = {
  "a way to log in that nobody knows": Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 99]),
  "a row of -1 columns": Buffer.from([0x44, 0, 0, 0, 6, 0xff, 0xff]),
}

for (const [what, answer] of Object.entries(answers)) {
  it.live(`fails to connect if the answer is ${what}`, function* () {
    const server = yield* peer(answer)
    const { port } = server.address() as AddressInfo
    const database = yield* openDatabase(`postgres://relay:p@127.0.0.1:${port}/relay?sslmode=disable`)
    const failure = yield* Effect.flip(database.query("SELECT 1", []))
    expect(failure.message).toMatch(/its answer is not PostgreSQL's protocol/)
  })
}
