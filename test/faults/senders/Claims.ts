/**
 * Announced bodies that don't come, or come in part, all without a valid signature. They must not keep an honest sender
 * out, whatever they announce, and not for a moment.
 */
import { envelope, headers, startTarget, type Target } from "../../e2e/http/fixture.ts"
import * as Raw from "../../e2e/http/Raw.ts"
import type { Line, Options, Outcome } from "../Line.ts"
import type { Runtime } from "./Case.ts"
import { journaled } from "./Journaled.ts"

const max = 256 * 1024

/**
 * Requests of strangers: the number of connections, the bytes announced, and the bytes sent. Each wave would use up 64
 * MiB by one way to count.
 */
const waves = [
  { what: "announce 64 KiB and send nothing", connections: 1_100, announced: 64 * 1024, sent: 0 },
  { what: "announce 16 KiB and send a byte", connections: 900, announced: 16 * 1024, sent: 1 },
  { what: "send 250 KiB of 256 and stop", connections: 270, announced: max, sent: 250 * 1024 },
] as const

/** Honest deliveries: accepted or not, one after the other. */
const honest = async (target: Target) => {
  const accepted: Array<string> = []
  const refused: Array<number> = []
  for (let count = 0; count < 20; count++) {
    const body = envelope("appointment.created", { note: "n".repeat(count % 2 === 0 ? 10 : 100_000) })
    const response = await fetch(target.url(), { method: "POST", body, headers: headers(body) })
    if (response.status === 202) accepted.push(body)
    else refused.push(response.status)
  }
  return { accepted, refused }
}

const run = async (runtime: Runtime, { binary }: Options): Promise<Outcome> => {
  const target = await startTarget({ under: runtime, ...(binary === undefined ? {} : { binary }) })
  const broken: Array<string> = []
  const accepted: Array<string> = []
  try {
    for (const { what, connections, announced, sent } of waves) {
      const head = `POST /hooks/scheduling HTTP/1.1\r\nhost: relay\r\ncontent-type: application/json\r\ncontent-length: ${announced}\r\n\r\n`
      const bytes = Buffer.concat([Buffer.from(head), Buffer.alloc(sent, "x")])
      const strangers: Array<Raw.Connection> = []
      for (let count = 0; count < connections; count++) {
        const connection = await Raw.open(target.port)
        connection.write(bytes)
        strangers.push(connection)
      }
      const done = await honest(target)
      accepted.push(...done.accepted)
      if (done.refused.length > 0) {
        broken.push(`while ${connections} ${what}, honest deliveries are answered ${[...new Set(done.refused)]}`)
      }
      for (const connection of strangers) connection.destroy()
    }
    const code = await target.relay.kill()
    if (code !== 0) broken.push(`the relay ended with ${code}`)
    const kept = new Set((await journaled(target.directory)).map(({ body }) => Buffer.from(body).toString("utf8")))
    return {
      rounds: waves.length,
      acknowledged: accepted.length,
      lost: accepted.filter((body) => !kept.has(body)).length,
      duplicates: 0,
      broken,
    }
  } finally {
    await target.stop()
  }
}

const fault = "bodies that are announced and don't come"

export const lines: ReadonlyArray<Line> = [
  { name: "claims", fault: `${fault}, Bun or the binary`, run: (options) => run("bun", options) },
  { name: "claims-deno", fault: `${fault}, Deno`, run: ({ binary: _, ...options }) => run("deno", options) },
]
