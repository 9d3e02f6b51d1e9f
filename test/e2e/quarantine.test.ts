/** Quarantined deliveries leave the quarantine of a running relay once its config accepts them. */
import { expect, test } from "bun:test"
import { deliver, envelope, secret, writeConfig } from "../lib/kit.ts"
import { relay, startRelay } from "../lib/relay.ts"
import { temporaryDirectory } from "../lib/temporaryRoot.ts"

const cwd = temporaryDirectory("quarantine-")

test("a quarantined delivery is delivered once by `dlq replay` or by a repeated delivery, as the same event", async () => {
  const received: Array<{ readonly key: string | null; readonly body: string }> = []
  const sink = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: async (request) => {
      received.push({ key: request.headers.get("idempotency-key"), body: await request.text() })
      return new Response(null, { status: 204 })
    },
  })
  const keys = (unknownTypes: string) => ({
    webhooks: { scheduling: { path: "/hooks", secrets: [{ name: "main", value: secret }], unknownTypes } },
  })
  const sinks = { receiver: { type: "http", url: `http://127.0.0.1:${sink.port}/` } }
  const { url, write } = await writeConfig(cwd, sinks, keys("quarantine"), "relay.json")
  const send = (body: string) => deliver(url, body)
  const bodyOf = (id: string, object: object = {}) => envelope(id, { type: "made.up", object })
  const bodies = [bodyOf("evt_1"), bodyOf("evt_2"), "no envelope", bodyOf("evt_1", { other: true })]
  const ask = (...words: ReadonlyArray<string>) => relay([...words, "-c", "relay.json"], { cwd })
  const replay = () => ask("dlq", "replay", "--sink", "_quarantine")
  const waiting = async (): Promise<ReadonlyArray<unknown>> => JSON.parse((await ask("dlq", "list", "--json")).stdout)

  const running = await startRelay("relay.json", { cwd })
  try {
    for (const body of bodies) expect(await send(body)).toBe(202)
    while ((await waiting()).length < bodies.length) await Bun.sleep(10)
    expect((await replay()).stdout).toContain(
      "3 dead letters still in quarantine: the event type is not in the catalogue",
    )
    write(sinks, keys("route"))
    expect((await ask("reload")).code).toBe(0)

    // The sender repeats evt_2, and the others are replayed. The dead letter of evt_2 is removed without a second
    // delivery.
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
    // Two events have the same id and different bytes. Both arrive, and the journal decides their order.
    expect([...by(/^evt_1$/), ...by(/^evt_1:altered:[0-9a-f]{32}$/)].toSorted()).toEqual(
      [bodyOf("evt_1"), bodyOf("evt_1", { other: true })].toSorted(),
    )
  } finally {
    await running.kill()
    await sink.stop(true)
  }
})

test("a flood of signed bodies that aren't JSON delays no other delivery, and the status names its webhook", async () => {
  const webhook = (path: string) => ({ path, secrets: [{ name: "main", value: secret }] })
  const { url } = await writeConfig(
    cwd,
    { file: { type: "file", path: "flood.ndjson" } },
    {
      journal: { path: "flood.db", maxSize: "24 MiB", minFree: "1 MiB" },
      webhooks: { scheduling: webhook("/hooks"), flooded: webhook("/flooded") },
    },
    "flood.json",
  )
  const send = (path: string, body: string) => deliver(`${new URL(url).origin}${path}`, body)
  const event = (id: number) => envelope(`evt_${id}`)
  const running = await startRelay("flood.json", { cwd })
  try {
    const [flood, others] = [new Map<number, number>(), new Map<number, number>()]
    for (let turn = 0; turn < 60; turn++) {
      const garbage = Array.from({ length: 10 }, (_, index) => `${turn} ${index} ${"x".repeat(100_000)}`)
      const statuses = await Promise.all([
        ...garbage.map((body) => send("/flooded", body)),
        send("/hooks", event(turn)),
      ])
      const [other = 0] = statuses.splice(-1)
      others.set(other, (others.get(other) ?? 0) + 1)
      for (const status of statuses) flood.set(status, (flood.get(status) ?? 0) + 1)
    }
    expect([...others]).toEqual([[202, 60]])
    expect(flood.get(202)).toBeGreaterThan(5)
    expect(flood.get(503)).toBeGreaterThan(500)
    const { stdout } = await relay(["status", "-c", "flood.json"], { cwd })
    expect(stdout).toContain("refused with 503 since the start")
    expect(stdout).toContain("it can't be routed, and the quarantine has no space for more of this webhook")
    expect(stdout).not.toContain("journal: full")
    expect(stdout.match(/The webhook flooded has its share of the \d+ KiB that _quarantine may have/g)).toHaveLength(1)
    // This webhook's share leaves space for deliveries of others that can't be routed.
    expect(await send("/hooks", "no JSON either")).toBe(202)
    // Only a settled dead letter can be dropped.
    while ((await relay(["events", "--outcome", "pending", "-c", "flood.json"], { cwd })).stdout !== "")
      await Bun.sleep(10)
    // An operator frees space, and the webhook can use it immediately.
    expect((await relay(["dlq", "drop", "--sink", "_quarantine", "-c", "flood.json"], { cwd })).code).toBe(0)
    expect(await send("/flooded", "one more")).toBe(202)
  } finally {
    await running.kill()
  }
}, 60_000)
