/** Ten thousand connections with half a request header each, next to a signed sender. */
import { expect, test } from "bun:test"
import { connect, type Socket } from "node:net"
import { memory } from "../../bench/Usage.ts"
import { suiteUnless } from "../../lib/lacking.ts"
import { envelope, headers, startTarget, type Target } from "./fixture.ts"

const connections = 10_000

const limitOf = async (): Promise<number> => {
  const limits = await Bun.file("/proc/self/limits").text()
  return Number(/^Max open files +(\d+)/m.exec(limits)?.[1])
}

const lacking = async (): Promise<string | undefined> => {
  if (process.platform !== "linux") return "memory is read from /proc"
  if (process.env.RELAY_UNDER === "deno") return "Deno closes no such connection"
  if ((await limitOf()) < 2 * connections)
    return `it needs ${2 * connections} file descriptors: ulimit -n ${2 * connections}`
  return process.env.RELAY_PARTS === "1" ? undefined : "RELAY_PARTS=1 bun test opens 10,000 connections"
}

/** The part of a request that is sent, and the maximum memory of all connections in MiB. */
const halves = {
  "a few bytes": { text: "POST /hooks/scheduling HTTP/1.1\r\nHost: relay\r\nX-Half: ", bound: 32 },
  "nearly 16 KiB": {
    text: `POST /hooks/scheduling HTTP/1.1\r\nHost: relay\r\nX-Half: ${"x".repeat(16_000)}`,
    bound: 320,
  },
}

const open = (port: number, text: string): Promise<Socket> =>
  new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1", () => socket.write(text, () => resolve(socket)))
    socket.on("error", reject)
    socket.resume()
  })

/** Sends signed deliveries one after the other. Returns the statuses and durations of the responses. */
const deliver = async (target: Target) => {
  const count = 300
  const statuses = new Set<number>()
  const millis: Array<number> = []
  for (let sent = 0; sent < count; sent++) {
    const body = envelope()
    const start = performance.now()
    statuses.add((await fetch(target.url(), { method: "POST", body, headers: headers(body) })).status)
    millis.push(performance.now() - start)
  }
  millis.sort((a, b) => a - b)
  const at = (share: number) => (millis[Math.floor(millis.length * share)] ?? 0).toFixed(1)
  return { statuses, figures: `median ${at(0.5)} ms, 99 % ${at(0.99)} ms, slowest ${at(1 - 1 / count)} ms` }
}

suiteUnless(await lacking(), "connections with half a header", () => {
  test.each(Object.entries(halves))(
    "of %s are closed by the relay, and signed deliveries are accepted beside 10,000",
    async (name, { text, bound }) => {
      const target = await startTarget()
      const sockets: Array<Socket> = []
      // A connection that continues to send bytes is closed all the same.
      const more = setInterval(() => {
        for (const socket of sockets) socket.write("x")
      }, 3_000)
      try {
        const before = await deliver(target)
        const idle = memory(target.relay.pid).now
        while (sockets.length < connections) {
          sockets.push(...(await Promise.all(Array.from({ length: 100 }, () => open(target.port, text)))))
        }
        const closed = Promise.all(sockets.map((socket) => new Promise((resolve) => socket.once("close", resolve))))
        const beside = await deliver(target)
        const grown = memory(target.relay.pid).peak - idle
        console.info(
          `${connections} with ${name}: ${beside.figures}; without them ${before.figures}; ${grown.toFixed(0)} MiB more`,
        )
        await closed
        const after = await deliver(target)
        for (const { statuses } of [before, beside, after]) expect(statuses).toEqual(new Set([202]))
        expect(grown).toBeLessThan(bound)
      } finally {
        clearInterval(more)
        for (const socket of sockets) socket.destroy()
        await target.stop()
      }
    },
    120_000,
  )
})
