/** Strangers who hold bodies of nearly 1 MiB and renew each that is cut off, beside a signed sender. */
import { expect, test } from "bun:test"
import { connect } from "node:net"
import { memory } from "../../bench/Usage.ts"
import { suiteUnless } from "../../lib/lacking.ts"
import { chunk, envelope, headers, startTarget } from "./fixture.ts"

const lacking = () => {
  if (process.platform !== "linux") return "memory is read from /proc"
  return process.env.RELAY_PARTS === "1" ? undefined : "RELAY_PARTS=1 bun test sends 1 GiB"
}

const size = 1_048_000
const connections = 128
const bodies = 500
/** MiB above the idle figure, as SECURITY.md says. */
const bound = 128

const head = (framing: string) =>
  `POST /hooks/picky HTTP/1.1\r\nhost: relay\r\ncontent-type: application/json\r\nx-service-signature: sha256=${"A".repeat(64)}\r\n${framing}\r\n\r\n`
const piece = "x".repeat(32_000)

const floods = {
  "with a length": { head: head(`content-length: ${size + 100}`), piece },
  chunked: { head: head("transfer-encoding: chunked"), piece: chunk(piece) },
}

/** Sends nearly all of a body and waits until the relay ends the connection, or the flood is over. */
const hold = (port: number, flood: (typeof floods)[keyof typeof floods], over: Promise<unknown>): Promise<unknown> => {
  const socket = connect(port, "127.0.0.1")
  socket.on("error", () => {})
  socket.resume()
  socket.write(flood.head)
  for (let sent = 0; sent + piece.length < size; sent += piece.length) socket.write(flood.piece)
  over.then(() => socket.destroy())
  return new Promise((resolve) => socket.on("close", resolve))
}

suiteUnless(lacking(), "a flood of bodies from strangers", () => {
  test.each(Object.entries(floods))(
    `%s takes at most ${bound} MiB, and signed deliveries are accepted`,
    async (_, flood) => {
      const target = await startTarget()
      try {
        const idle = memory(target.relay.pid).now
        let begun = 0
        let isOver = false
        const { promise: over, resolve: end } = Promise.withResolvers<void>()
        const stranger = async () => {
          while (begun < bodies) {
            begun += 1
            await hold(target.port, flood, over)
          }
          isOver = true
          end()
        }
        const strangers = Array.from({ length: connections }, stranger)
        const statuses: Array<number> = []
        while (!isOver) {
          const body = envelope("appointment.created", { note: "n".repeat(statuses.length % 2 === 0 ? 10 : 100_000) })
          const response = await fetch(target.url(), { method: "POST", body, headers: headers(body) })
          statuses.push(response.status)
        }
        await Promise.all(strangers)
        expect(new Set(statuses)).toEqual(new Set([202]))
        expect(memory(target.relay.pid).peak - idle).toBeLessThan(bound)
      } finally {
        await target.stop()
      }
    },
    120_000,
  )
})
