/** Strangers who hold bodies of nearly 1 MiB and renew each that is cut off, beside a signed sender. */
import { afterAll, expect, test } from "bun:test"
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmdirSync, rmSync, writeFileSync } from "node:fs"
import { connect } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { memory } from "../../bench/Usage.ts"
import { suiteUnless } from "../../lib/lacking.ts"
import { relayBinary } from "../../lib/programs.ts"
import { command } from "../../lib/relay.ts"
import { chunk, envelope, headers, startTarget, type Target } from "./fixture.ts"

const lacking = () => {
  if (process.platform !== "linux") return "memory is read from /proc"
  return process.env.RELAY_PARTS === "1" ? undefined : "RELAY_PARTS=1 bun test sends 1 GiB"
}

const size = 1_048_000
const connections = 128
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

/** Runs a flood of this many bodies beside signed deliveries. Returns the statuses of their responses. */
const withstand = async (
  target: Target,
  flood: (typeof floods)[keyof typeof floods],
  bodies: number,
): Promise<ReadonlySet<number>> => {
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
  const statuses = new Set<number>()
  for (let count = 0; !isOver; count += 1) {
    const body = envelope("appointment.created", { note: "n".repeat(count % 2 === 0 ? 10 : 100_000) })
    const response = await fetch(target.url(), { method: "POST", body, headers: headers(body) })
    statuses.add(response.status)
  }
  await Promise.all(strangers)
  return statuses
}

suiteUnless(lacking(), "a flood of bodies from strangers", () => {
  test.each(Object.entries(floods))(
    `%s takes at most ${bound} MiB, and signed deliveries are accepted`,
    async (_, flood) => {
      const target = await startTarget()
      try {
        const idle = memory(target.relay.pid).now
        expect(await withstand(target, flood, 500)).toEqual(new Set([202]))
        expect(memory(target.relay.pid).peak - idle).toBeLessThan(bound)
      } finally {
        await target.stop()
      }
    },
    120_000,
  )
})

/** A new memory cgroup with a limit, or why there is none. */
const limitedGroup = (limit: number): { readonly path: string } | string => {
  const version1 = "/sys/fs/cgroup/memory"
  const [root, file] = existsSync(version1) ? [version1, "memory.limit_in_bytes"] : ["/sys/fs/cgroup", "memory.max"]
  const path = join(root, `relay-test-${process.pid}`)
  try {
    mkdirSync(path)
    writeFileSync(join(path, file), String(limit))
    return { path }
  } catch (error) {
    if (existsSync(path)) rmdirSync(path)
    return `no memory cgroup can be made: ${error instanceof Error ? error.message : error}`
  }
}

const withoutParts = lacking()
const group = withoutParts ?? limitedGroup(384 * 1024 * 1024)

suiteUnless(typeof group === "string" ? group : undefined, "in a memory cgroup of 384 MiB", () => {
  const path = typeof group === "string" ? "" : group.path
  const directory = mkdtempSync(join(tmpdir(), "relay-cgroup-"))
  afterAll(() => {
    rmdirSync(path)
    rmSync(directory, { recursive: true })
  })

  test("the relay withstands a flood of 3,000 bodies", async () => {
    const script = join(directory, "relay")
    writeFileSync(script, `#!/bin/sh\necho $$ > ${path}/cgroup.procs && exec ${command(relayBinary())[0]} "$@"\n`, {
      mode: 0o755,
    })
    const target = await startTarget({ binary: script })
    try {
      expect(readFileSync(join(path, "cgroup.procs"), "utf8").trim().split("\n")).toContain(String(target.relay.pid))
      for (const flood of Object.values(floods)) expect(await withstand(target, flood, 1_500)).toEqual(new Set([202]))
    } finally {
      await target.stop()
    }
  }, 300_000)
})
