/** What is in quarantine comes out of a running relay once its config takes it. */
import { afterAll, expect, test } from "bun:test"
import { createHmac } from "node:crypto"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { freePort } from "../lib/port.ts"
import { relay, startRelay } from "../lib/relay.ts"

const cwd = mkdtempSync(join(tmpdir(), "relay-quarantine-"))
afterAll(() => rmSync(cwd, { recursive: true }))

const secret = "the-main-secret"

test("what was in quarantine is delivered by `dlq replay` or sent again, as the event that it is, once", async () => {
  const received: Array<{ readonly key: string | null; readonly body: string }> = []
  const sink = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: async (request) => {
      received.push({ key: request.headers.get("idempotency-key"), body: await request.text() })
      return new Response(null, { status: 204 })
    },
  })
  const [deliveries, admin] = [await freePort(), await freePort()]
  const write = (unknownTypes: string) =>
    writeFileSync(
      join(cwd, "relay.json"),
      JSON.stringify({
        listen: `127.0.0.1:${deliveries}`,
        admin: { listen: `127.0.0.1:${admin}` },
        journal: { path: "journal.db" },
        webhooks: { scheduling: { path: "/hooks", secrets: [{ name: "main", value: secret }], unknownTypes } },
        sinks: { receiver: { type: "http", url: `http://127.0.0.1:${sink.port}/` } },
        routes: [{ name: "everything", match: "**", to: "receiver" }],
      }),
    )
  const send = async (body: string) => {
    const signature = `sha256=${createHmac("sha256", secret).update(body).digest("hex").toUpperCase()}`
    const headers = { "content-type": "application/json", "x-service-signature": signature }
    return (await fetch(`http://127.0.0.1:${deliveries}/hooks`, { method: "POST", body, headers })).status
  }
  const bodyOf = (id: string, object: object = {}) =>
    JSON.stringify({
      id,
      account_id: "acct_1",
      version: "1",
      created_at: "2026-11-21T00:00:00Z",
      data: { type: "made.up", object },
    })
  const bodies = [bodyOf("evt_1"), bodyOf("evt_2"), "no envelope", bodyOf("evt_1", { other: true })]
  const ask = (...words: ReadonlyArray<string>) => relay([...words, "-c", "relay.json"], { cwd })
  const replay = () => ask("dlq", "replay", "--sink", "_quarantine")
  const waiting = async (): Promise<ReadonlyArray<unknown>> => JSON.parse((await ask("dlq", "list", "--json")).stdout)

  write("quarantine")
  const running = await startRelay("relay.json", { cwd })
  try {
    for (const body of bodies) expect(await send(body)).toBe(202)
    while ((await waiting()).length < bodies.length) await Bun.sleep(10)
    expect((await replay()).stdout).toContain(
      "3 dead letters still in quarantine: the event type is not in the catalogue",
    )
    write("route")
    expect((await ask("reload")).code).toBe(0)

    // One is sent again; the others are replayed, and its letter goes without being delivered twice.
    expect(await send(bodyOf("evt_2"))).toBe(202)
    const { code, stdout } = await replay()
    expect([code, stdout]).toEqual([
      0,
      "3 dead letters queued for delivery again\n1 dead letter still in quarantine: the body is not JSON\n",
    ])
    for (const body of bodies) expect(await send(body)).toBe(202)
    while (received.length < 3) await Bun.sleep(10)
    expect(await waiting()).toHaveLength(1)
    const by = (key: RegExp) => received.filter((one) => key.test(one.key ?? "")).map(({ body }) => body)
    expect(received).toHaveLength(3)
    expect(by(/^evt_2$/)).toEqual([bodyOf("evt_2")])
    // The same id with other bytes: which of the two comes first is the journal's matter, but both come.
    expect([...by(/^evt_1$/), ...by(/^evt_1:altered:[0-9a-f]{32}$/)].toSorted()).toEqual(
      [bodyOf("evt_1"), bodyOf("evt_1", { other: true })].toSorted(),
    )
  } finally {
    await running.kill()
    await sink.stop(true)
  }
}, 30_000)
