/**
 * The whole program with NATS sinks, as a process: RELAY_UNDER chooses the
 * runtime, or the binary, which must find the client inside itself.
 */
import { afterAll, expect, test } from "bun:test"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { freePort } from "../../lib/port.ts"
import { relay, startRelay } from "../../lib/relay.ts"
import { startNats } from "../../parts/Nats.ts"
import { makeOperator } from "../../parts/natsOperator.ts"
import { makeStream, type Stream } from "../../parts/Streams.ts"
import { bodies, deliver, writeConfig } from "../program.ts"
import { withNats } from "./natsSink.ts"

withNats("relay run with NATS sinks", (shared) => {
  const cwd = mkdtempSync(join(tmpdir(), "relay-nats-run-"))
  afterAll(() => rmSync(cwd, { recursive: true }))

  const nats = (server: string, more: object) => ({ type: "nats", servers: [server], ...more })
  const bodiesOf = async (stream: Stream, count: number): Promise<ReadonlyArray<string>> =>
    (await stream.received(count)).map(({ body }) => Buffer.from(body).toString())

  test("validates, logs in by a credentials file, delivers, and shows no secret", async () => {
    const operator = makeOperator()
    const own = await startNats(operator.config)
    const credentials = operator.credentials()
    writeFileSync(join(cwd, "relay.creds"), credentials)
    const login = async () => {
      const { credsAuthenticator } = await import("@nats-io/transport-node")
      return { authenticator: credsAuthenticator(new TextEncoder().encode(credentials)) }
    }
    const stream = await makeStream(own.server, {}, await login())
    const auth = { credentials: "file:relay.creds" }
    const { config, url } = await writeConfig(cwd, {
      stream: nats(own.server, { subject: `${stream.name}.{{type}}`, order: "key", auth }),
    })
    const validated = await relay(["validate", "-c", config], { cwd })
    expect([validated.code, validated.stderr]).toEqual([0, expect.stringContaining("raise max_payload")])
    const running = await startRelay(config, { cwd })
    const sent = bodies(20)
    for (const one of sent) expect(await deliver(url, one)).toBe(202)
    expect(await bodiesOf(stream, 20)).toEqual([...sent])
    expect(await running.kill()).toBe(0)
    const [, jwt = ""] = credentials.split("\n")
    for (const secret of [jwt, /^SU.*$/m.exec(credentials)?.[0] ?? ""]) {
      expect(running.stdout() + running.stderr() + validated.stdout + validated.stderr).not.toContain(secret)
    }
    await own.stop()
  }, 60_000)

  test("starts while its server is away, delivers when it comes; validate says so, and which subject has no stream", async () => {
    const late = await startNats()
    const stream = await makeStream(late.server)
    await late.kill()
    const delivery = { retry: { initial: "200 millis", max: "1 second" } }
    const { config, url } = await writeConfig(cwd, {
      late: nats(late.server, { subject: `${stream.name}.events`, delivery }),
      nowhere: nats(shared().server, { subject: "nowhere.at.all", delivery }),
    })
    const { code, stdout } = await relay(["validate", "-c", config], { cwd })
    expect(code).toBe(1)
    expect(stdout).toContain(`NATS ${late.server} can't be reached: nothing listens there`)
    expect(stdout).toContain("subject nowhere.at.all: no stream takes this subject: make one")
    const running = await startRelay(config, { cwd })
    const sent = bodies(20)
    for (const one of sent) expect(await deliver(url, one)).toBe(202)
    await running.prints(`sink late does not deliver: NATS ${late.server} can't be reached`)
    await late.start()
    await running.prints("sink late is resumed")
    expect((await bodiesOf(stream, 20)).toSorted()).toEqual(sent.toSorted())
    expect(await running.kill()).toBe(0)
    await late.stop()
  }, 60_000)

  test("config/examples/nats.json sends everything, and bookings as CloudEvents, as it is but for its addresses", async () => {
    const all = await makeStream(shared().server, { subjects: ["scheduling.>"] })
    const bookings = await makeStream(shared().server, { subjects: ["bookings"] })
    const example = readFileSync(join(import.meta.dir, "../../../config/examples/nats.json"), "utf8")
    const [deliveries, admin] = [await freePort(), await freePort()]
    const listens = `"listen": "127.0.0.1:${deliveries}", "admin": { "listen": "127.0.0.1:${admin}" },`
    writeFileSync(join(cwd, "example.json"), example.replace(/^\{/m, `{ ${listens}`))
    const env = { NATS_SERVER: shared().server }
    const running = await startRelay("example.json", { cwd, env })
    for (const type of ["client.updated", "appointment.created"]) {
      expect((await relay(["trigger", type, "-c", "example.json"], { cwd, env })).code).toBe(0)
    }
    expect((await all.received(2)).map(({ subject }) => subject)).toEqual([
      "scheduling.client.updated",
      "scheduling.appointment.created",
    ])
    expect((await bookings.received(1)).map(({ headers }) => headers["ce-type"])).toEqual(["appointment.created"])
    expect(await running.kill()).toBe(0)
  }, 60_000)
})
