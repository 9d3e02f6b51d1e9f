/**
 * `relay restart` of a real relay. Some clients keep their connections, others open a connection for each delivery.
 * With RELAY_PARTS=1 it restarts ten times.
 */
import { afterAll, afterEach, beforeAll, expect, test } from "bun:test"
import * as http from "node:http"
import * as https from "node:https"
import { join } from "node:path"
import { lacking as lacksOpenssl, makeAuthority } from "../lib/authority.ts"
import { suiteUnless } from "../lib/lacking.ts"
import { failing, relay, slow, startRelay } from "../lib/relay.ts"
import { temporaryDirectory } from "../lib/temporaryRoot.ts"
import { makePostgres, reasonToSkip } from "../parts/Postgres.ts"
import { envelope, headers, startTarget, type Target, type TargetOptions } from "./http/fixture.ts"
import { keepsAll, startRestartable } from "./restarting.ts"

const isLong = process.env.RELAY_PARTS === "1"
const restarts = isLong ? 10 : 1

const atEnd: Array<() => unknown> = []
afterEach(async () => {
  for (const end of atEnd.splice(0).reverse()) await end()
})

const start = async (options?: TargetOptions) => {
  const started = await startRestartable(options)
  atEnd.push(started.stop)
  return started
}

/** The client for a relay's address. It trusts any certificate. */
const clientOf = (target: Target) => {
  const { request, Agent } = target.url().startsWith("https") ? https : http
  return {
    request,
    makeAgent: (keepAlive: boolean) => new Agent({ keepAlive, maxSockets: 16, rejectUnauthorized: false }),
  }
}

const deliver = (target: Target, body: string, agent = clientOf(target).makeAgent(false)): Promise<number | string> =>
  new Promise((resolve) => {
    const length = { "content-length": String(Buffer.byteLength(body)) }
    const sent = clientOf(target).request(
      target.url(),
      { method: "POST", agent, headers: { ...headers(body), ...length } },
      (response) => response.resume().on("end", () => resolve(response.statusCode ?? 0)),
    )
    sent.on("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message))
    sent.end(body)
  })

/**
 * Sends 300 deliveries a second until it is stopped. Returns the accepted bodies, and the number of each status or
 * error.
 */
const load = (target: Target) => {
  const { makeAgent } = clientOf(target)
  const agents = [makeAgent(true), makeAgent(false)]
  const counts = new Map<number | string, number>()
  const open = new Set<Promise<void>>()
  const accepted: Array<string> = []
  const send = async (agent: http.Agent) => {
    const body = envelope()
    const status = await deliver(target, body, agent)
    counts.set(status, (counts.get(status) ?? 0) + 1)
    if (status === 202) accepted.push(body)
  }
  const timer = setInterval(() => {
    for (const agent of [...agents, ...agents.slice(0, 1)]) {
      const sending = send(agent).finally(() => open.delete(sending))
      open.add(sending)
    }
  }, 10)
  return async () => {
    clearInterval(timer)
    await Promise.all(open)
    for (const agent of agents) agent.destroy()
    return { counts, accepted }
  }
}

/** Restarts a relay under load. No delivery fails, and none is lost. */
const restartsUnderLoad = async (restarts: number, options?: TargetOptions) => {
  const { target, restart, pid } = await start(options)
  const stop = load(target)
  for (let count = 0; count < restarts; count++) {
    const before = pid()
    expect(await restart()).toMatchObject({ code: 0, stderr: "" })
    expect(pid()).not.toBe(before)
  }
  const { counts, accepted } = await stop()
  expect([...counts.keys()]).toEqual([202])
  await keepsAll(target, accepted)
}

/**
 * Restarts a relay whose second process fails. The first continues, and no accepted event is lost. Returns the result
 * of `relay restart`.
 */
const survives = async (when: string, options?: TargetOptions) => {
  const { target, restart } = await start({ ...options, env: failing(when) })
  const stop = load(target)
  const ended = await restart()
  const body = envelope()
  expect(await deliver(target, body)).toBe(202)
  const { accepted } = await stop()
  await keepsAll(target, [...accepted, body])
  return ended
}

const times = (count: number) => (count === 1 ? "once" : `${count} times`)
/** TLS changes only the handshake, so fewer restarts show as much. */
const restartsWithTls = Math.ceil(restarts / 3)
const limit = 120_000
const killed = { code: 1, stderr: expect.stringContaining("the second process was ended by SIGKILL") }

test(
  `a restart under 300 deliveries a second, ${times(restarts)}, fails no delivery and loses none`,
  () => restartsUnderLoad(restarts),
  limit,
)

suiteUnless(isLong ? lacksOpenssl : "RELAY_PARTS=1 bun test waits for it", "with TLS", () => {
  test(
    `a restart under 300 deliveries a second, ${times(restartsWithTls)}, fails no delivery and loses none`,
    async () => {
      const { certificate, key } = makeAuthority(temporaryDirectory("restart-")).issue("relay", "IP:127.0.0.1")
      await restartsUnderLoad(restartsWithTls, { tls: { certificate, key } })
    },
    limit,
  )
})

test("the first process continues if the second one is killed while it opens the journal", async () => {
  expect(await survives("opening")).toMatchObject(killed)
}, 30_000)

suiteUnless(
  isLong ? undefined : "RELAY_PARTS=1 bun test waits for it",
  "the first process goes on if the second one",
  () => {
    test(
      "is killed before the journal is free",
      async () => {
        expect(await survives("before")).toMatchObject(killed)
      },
      limit,
    )
    test(
      "is killed once the journal is open",
      async () => {
        expect(await survives("opened")).toMatchObject(killed)
      },
      limit,
    )
    test(
      "doesn't say within five seconds that the journal is open",
      async () => {
        const stderr = expect.stringContaining("didn't open the journal within 5s")
        expect(await survives("silent")).toMatchObject({ code: 1, stderr })
      },
      limit,
    )
  },
)

suiteUnless(isLong ? undefined : "RELAY_PARTS=1 bun test waits for it", "a relay that takes long to start", () => {
  test(
    "stops, and `relay restart` waits until the service manager has started it again",
    async () => {
      const target = await startTarget({ env: { ...slow, NOTIFY_SOCKET: "/tmp/no-service-manager-reads-this" } })
      atEnd.push(target.stop)
      const cwd = target.directory
      const file = join(cwd, "relay.config.json")
      const restarting = relay(["restart", "-c", file], { cwd })
      expect(await target.relay.exited).toBe(75)
      const next = await startRelay(file, { cwd })
      atEnd.push(next.kill)
      expect(await restarting).toMatchObject({
        code: 0,
        stdout: expect.stringMatching(new RegExp(`^process ${next.pid}, relay \\S+, started\n$`)),
        stderr: expect.stringContaining("it stops, and the service manager starts it again"),
      })
      expect(await deliver(target, envelope())).toBe(202)
    },
    limit,
  )
})

suiteUnless(reasonToSkip(), "with a journal on PostgreSQL", () => {
  let database: Awaited<ReturnType<typeof makePostgres>>
  const journal = () => ({ type: "postgres", url: database.url, name: "relay-1" })
  beforeAll(async () => {
    database = await makePostgres()
  }, limit)
  afterAll(() => database.stop(), limit)

  test(
    "three restarts under 300 deliveries a second fail no delivery and lose none",
    () => restartsUnderLoad(3, { journal: journal() }),
    limit,
  )
  test(
    "the first process goes on if the second one is killed once the journal is open",
    async () => {
      expect(await survives("opened", { journal: journal() })).toMatchObject(killed)
    },
    limit,
  )
})

test("a config with another address is refused, and the relay continues", async () => {
  const { target, restart, pid } = await start()
  const file = join(target.directory, "relay.config.json")
  const text = await Bun.file(file).text()
  await Bun.write(file, text.replace(`127.0.0.1:${target.port}`, "127.0.0.1:1"))
  const { code, stderr } = await restart()
  expect([code, pid()]).toEqual([1, target.relay.pid])
  expect(stderr).toContain(`"listen" of the config is http://127.0.0.1:1, and the relay listens at ${target.url("")}`)
  expect(await deliver(target, envelope())).toBe(202)
})
