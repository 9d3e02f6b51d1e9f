/**
 * A bug in a client library, planted by a preloaded module, which only Bun and its binaries support. It stops the sink,
 * not the process. A bug that belongs to no sink ends the process like a signal.
 */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { once } from "node:events"
import { existsSync, readFileSync, rmSync } from "node:fs"
import { type AddressInfo, createServer } from "node:net"
import { join } from "node:path"
import type { Status } from "../../src/admin/status/Status.ts"
import { bodies, deliver, until, writeConfig } from "../lib/kit.ts"
import { suiteUnless } from "../lib/lacking.ts"
import { freePort } from "../lib/port.ts"
import { planted, relay, startRelay } from "../lib/relay.ts"
import { temporaryDirectory } from "../lib/temporaryRoot.ts"
import { sample } from "../lib/tries.ts"

const cwd = temporaryDirectory("containment-")
// The server accepts connections and never answers.
const server = createServer((socket) => socket.on("error", () => {}))
let port = 0
let closed = 0
beforeAll(async () => {
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  port = (server.address() as AddressInfo).port
  closed = await freePort()
})
afterAll(() => {
  server.close()
})

const linesOf = (file: string): number =>
  existsSync(join(cwd, file)) ? readFileSync(join(cwd, file), "utf8").split("\n").length - 1 : 0

const write = () =>
  writeConfig(cwd, {
    buggy: { type: "kafka", brokers: [`127.0.0.1:${port}`], topic: "t", requestTimeout: "1 second" },
    neighbour: { type: "rabbitmq", url: `amqp://127.0.0.1:${closed}`, routingKey: "q" },
    other: { type: "file", path: `${port}.ndjson` },
  })

suiteUnless(
  process.env.RELAY_UNDER === "deno" ? "Deno preloads no module" : undefined,
  "a bug in a client library",
  () => {
    for (const kind of sample(["exception", "rejection", "error"] as const)) {
      test(`stops its sink, not the process: ${kind}`, async () => {
        rmSync(join(cwd, `${port}.ndjson`), { force: true })
        const { config, url, admin } = await write()
        const running = await startRelay(config, { cwd, env: planted(port, kind), args: ["--log-format", "json"] })
        for (const one of bodies(3)) expect(await deliver(url, one)).toBe(202)
        await until(() => linesOf(`${port}.ndjson`) === 3)
        const lanes = async () => (JSON.parse(await (await fetch(`${admin}/api/v1/status`)).text()) as Status).lanes
        const buggy = async () => (await lanes()).find(({ name }) => name === "buggy")
        await until(async () => (await buggy())?.lastFailure?.message.includes("a bug in its client library") === true)
        // The relay opened the sink again, and the bug recurs.
        const bugs = async () =>
          new Map(
            [
              ...(await (await fetch(`${admin}/metrics`)).text()).matchAll(
                /^relay_sink_bugs_total\{sink="(\w+)"\} (\d+)/gm,
              ),
            ].map(([, sink, count]) => [sink, Number(count)]),
          )
        await until(async () => ((await bugs()).get("buggy") ?? 0) >= 2)
        expect(await bugs()).toMatchObject(
          new Map([
            ["other", 0],
            ["neighbour", 0],
          ]),
        )
        expect(await buggy()).toMatchObject({ backlog: 3, deadLetters: 0 })
        const logged = running
          .stderr()
          .split("\n")
          .filter((line) => line.includes("a bug in its client library"))
        expect(JSON.parse(logged[0] ?? "{}")).toMatchObject({
          level: "ERROR",
          sink: "buggy",
          cause: expect.stringContaining("a planted bug"),
        })
        expect(await running.kill()).toBe(0)
      })

      test(`is reported by validate for the sink: ${kind}`, async () => {
        const { config } = await write()
        const { code, stdout } = await relay(["validate", "-c", config], { cwd, env: planted(port, kind) })
        expect(code).toBe(1)
        expect(stdout).toMatch(/buggy +NOT REACHED +a bug in its client library/)
        expect(stdout).toMatch(/neighbour +NOT REACHED +.*nothing listens there/)
        expect(stdout).toMatch(/other +reached/)
      })
    }

    test("that belongs to no sink's library ends the process with 70, after a drain", async () => {
      rmSync(join(cwd, `${port}.ndjson`), { force: true })
      const { config, url } = await write()
      const running = await startRelay(config, { cwd, env: planted(1, "error") })
      for (const one of bodies(3)) expect(await deliver(url, one)).toBe(202)
      running.signal("SIGUSR2")
      expect(await running.exited).toBe(70)
      expect(running.stderr()).toContain("internal error (")
      // A journal that was closed leaves no WAL file.
      expect(existsSync(join(cwd, config.replace(".json", ".db-wal")))).toBe(false)
      const again = await startRelay(config, { cwd })
      await until(() => linesOf(`${port}.ndjson`) === 3)
      expect(await again.kill()).toBe(0)
    })
  },
)
