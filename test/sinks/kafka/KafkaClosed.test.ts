/**
 * The whole program with Kafka sinks whose peer closes the connection early, by both clients: a close during the login
 * once ended the process. The process lives, the other sink gets everything, and each sink reports its problem.
 */
import { afterAll, expect, test } from "bun:test"
import { once } from "node:events"
import { existsSync, readFileSync } from "node:fs"
import { type AddressInfo, createServer, type Server, type Socket } from "node:net"
import { join } from "node:path"
import { createServer as createTlsServer } from "node:tls"
import type { Status } from "../../../src/admin/status/Status.ts"
import { lacking, makeAuthority } from "../../lib/authority.ts"
import { bodies, deliver, until, writeConfig } from "../../lib/kit.ts"
import { suiteUnless } from "../../lib/lacking.ts"
import { relay, startRelay } from "../../lib/relay.ts"
import { temporaryDirectory } from "../../lib/temporaryRoot.ts"
import { clients, withBroker } from "./kafkaSink.ts"

const cwd = temporaryDirectory("kafka-closed-")
const servers: Array<Server> = []
afterAll(() => {
  for (const server of servers) server.close()
})

const sasl = { mechanism: "PLAIN", username: "relay", password: "a-password-that-is-never-shown" }
const delivery = { retry: { initial: "100 millis", max: "200 millis" } }

const listening = async (server: Server): Promise<string> => {
  servers.push(server)
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  return `127.0.0.1:${(server.address() as AddressInfo).port}`
}

const peers: Readonly<Record<string, (socket: Socket) => void>> = {
  "closes-at-once": (socket) => socket.destroy(),
  "resets-at-once": (socket) => socket.resetAndDestroy(),
  "closes-in-login": (socket) => socket.once("data", () => socket.destroy()),
  "resets-in-login": (socket) => socket.once("data", () => socket.resetAndDestroy()),
}

const heard = (act: (socket: Socket) => void) => (socket: Socket) => act(socket.on("error", () => {}))

/** A sink for each pair of client and peer. */
const closing = async (): Promise<Readonly<Record<string, object>>> => {
  const authority = makeAuthority(cwd)
  const { pem } = authority.issue("server", "IP:127.0.0.1")
  const places = await Promise.all(
    Object.entries(peers).map(async ([name, act]) => [name, await listening(createServer(heard(act))), {}] as const),
  )
  const encrypted = await listening(
    createTlsServer(
      pem,
      heard((socket) => socket.destroy()),
    ),
  )
  return Object.fromEntries(
    [...places, ["closes-after-tls", encrypted, { tls: { ca: authority.ca } }] as const].flatMap(
      ([name, broker, more]) =>
        clients.map((client) => [
          `${name}-${client}`,
          {
            type: "kafka",
            client,
            brokers: [broker],
            topic: "t",
            sasl,
            requestTimeout: "2 seconds",
            delivery,
            ...more,
          },
        ]),
    ),
  )
}

const why = /closed the connection|ECONNRESET|EPIPE/

const linesOf = (file: string): number =>
  existsSync(join(cwd, file)) ? readFileSync(join(cwd, file), "utf8").split("\n").length - 1 : 0

/** Runs the relay twice with sinks that can't deliver. The other sink gets everything each time. */
const lives = async (sinks: Readonly<Record<string, object>>, why: RegExp): Promise<void> => {
  const names = Object.keys(sinks)
  const validated = async (): Promise<string> => {
    const { code, stdout, stderr } = await relay(["validate", "-c", config], { cwd })
    expect([code, stderr]).toEqual([1, expect.stringContaining("these sinks can't be reached")])
    return stdout
  }
  const { config, url, admin } = await writeConfig(cwd, { ...sinks, other: { type: "file", path: "other.ndjson" } })
  // On a busy machine a connection may take longer than `requestTimeout`, and `validate` reports that. So this repeats
  // it until each sink reports its cause.
  await until(async () => {
    const lines = (await validated()).split("\n")
    return names.every((name) => why.test(lines.find((line) => line.includes(` ${name} `)) ?? ""))
  })
  const sent = [...bodies(10)]
  const before = linesOf("other.ndjson")
  for (const round of [1, 2]) {
    const running = await startRelay(config, { cwd })
    for (const one of sent.splice(0, 5)) expect(await deliver(url, one)).toBe(202)
    await until(() => linesOf("other.ndjson") === before + 5 * round)
    // Waits until each sink has failed.
    const failures = async (): Promise<ReadonlyMap<string, string>> => {
      const { lanes } = JSON.parse(await (await fetch(`${admin}/api/v1/status`)).text()) as Status
      return new Map(lanes.map(({ name, lastFailure }) => [name, lastFailure?.message ?? ""]))
    }
    await until(async () => {
      const found = await failures()
      return names.every((name) => why.test(found.get(name) ?? ""))
    })
    expect(await (await fetch(`${admin}/metrics`)).text()).not.toMatch(/^relay_sink_bugs_total\{.*\} [1-9]/m)
    expect(await running.kill()).toBe(0)
    expect(running.stdout() + running.stderr()).not.toContain(sasl.password)
  }
}

suiteUnless(lacking, "Kafka sinks whose peer closes the connection early", () => {
  test("are unreachable; the process lives, and again after a restart with their events waiting", async () => {
    await lives(await closing(), why)
  }, 60_000)
})

withBroker("Kafka sinks whose broker demands a client certificate", (broker) => {
  test("report it, and the process lives, also after a restart with pending events", async () => {
    const { mutual, certificates } = broker()
    const sinks = clients.map((client) => [
      `mutual-${client}`,
      {
        type: "kafka",
        client,
        brokers: [mutual],
        topic: "t",
        sasl,
        tls: { ca: certificates.ca },
        requestTimeout: "2 seconds",
        delivery,
      },
    ])
    await lives(Object.fromEntries(sinks), /certificate/)
  }, 60_000)
})
