/** A stop of `relay run` as a load balancer and a sender see it. RELAY_UNDER selects the runtime, or the binary. */
import { describe, expect, test } from "bun:test"
import { join } from "node:path"
import { type Relay, startRelay } from "../lib/relay.ts"
import { envelope, headers, startTarget, type Target } from "./http/fixture.ts"

const deliver = async (target: Target): Promise<Response> => {
  const body = envelope()
  return await fetch(target.url(), { method: "POST", body, headers: headers(body), keepalive: false })
}

const isReady = async ({ admin }: Target): Promise<boolean> =>
  (await fetch(`http://127.0.0.1:${admin}/readyz`, { keepalive: false })).ok

const accepting = /not ready, and still accepting deliveries for/
const refusing = /refusing deliveries for/
const forever = { delay: "1 hour", refuse: "1 hour" }

describe("a stop by SIGTERM", () => {
  test("first fails /readyz while it accepts, then refuses, then closes the port", async () => {
    const target = await startTarget({ drain: { delay: "3 seconds", refuse: "2 seconds" } })
    expect(await isReady(target)).toBe(true)
    target.relay.signal("SIGTERM")
    await target.relay.prints(/SIGTERM: draining/)
    expect(await isReady(target)).toBe(false)
    const accepted = await deliver(target)
    expect([accepted.status, accepted.headers.get("connection")]).toEqual([202, "close"])
    expect(target.relay.stderr()).not.toMatch(refusing)
    await target.relay.prints(refusing)
    const refused = await deliver(target)
    expect([refused.status, refused.headers.get("connection")]).toEqual([503, "close"])
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0)
    expect(await isReady(target)).toBe(false)
    expect(await target.relay.exited).toBe(0)
    expect(await deliver(target).catch(({ code }) => code)).toBe("ECONNREFUSED")
    expect(target.kept()).toHaveLength(1)
    await target.stop()
  })

  test("has a deadline of both waits and the drain, and ends immediately at a second signal", async () => {
    const target = await startTarget({ drain: forever })
    const before = Date.now()
    target.relay.signal("SIGTERM")
    await target.relay.prints(accepting)
    const until = Date.parse(/draining, until (\S+) at the latest/.exec(target.relay.stderr())?.[1] ?? "")
    const deadline = (2 * 3_600 + 24) * 1_000
    expect(until - deadline).toBeWithin(before, Date.now() + 1)
    expect(await target.relay.kill("SIGTERM")).toBe(143)
    expect(target.relay.stderr()).toContain("SIGTERM again: exiting immediately")
    await target.stop()
  })

  test("waits as the active config says, after a reload", async () => {
    const target = await startTarget({ drain: forever })
    const file = join(target.directory, "relay.config.json")
    await Bun.write(file, JSON.stringify({ ...(await Bun.file(file).json()), drain: { delay: "0 seconds" } }))
    target.relay.signal("SIGHUP")
    await target.relay.prints("~ listener drain: delay, refuse")
    expect(await target.relay.kill("SIGTERM")).toBe(0)
    await target.stop()
  })
})

test("a stop by SIGINT has no waits", async () => {
  const target = await startTarget({ drain: forever })
  expect(await target.relay.kill("SIGINT")).toBe(0)
  await target.stop()
})

/**
 * Deliveries that a load balancer still sends to a relay after its `/readyz` has failed. A load balancer polls each
 * second, for example, and needs several failures.
 */
const late = 200

test("two relays that are restarted in turn refuse nothing, though their load balancer notices each stop late", async () => {
  const targets = await Promise.all(
    [0, 1].map(() => startTarget({ drain: { delay: "4 seconds", refuse: "100 millis" } })),
  )
  const relays: Array<Relay> = targets.map(({ relay }) => relay)
  const statuses = new Map<number | string, number>()
  const send = async (target: Target) => {
    const status = await deliver(target).then(
      (response) => response.status,
      ({ code }) => String(code),
    )
    statuses.set(status, (statuses.get(status) ?? 0) + 1)
  }
  for (const [index, target] of targets.entries()) {
    const other = targets[1 - index] ?? target
    relays[index]?.signal("SIGTERM")
    while (await isReady(target)) await send(target)
    for (let sent = 0; sent < late; sent++) await send(target)
    // From now on the load balancer sends everything to the other relay.
    for (let ended = false; !ended; ) {
      await send(other)
      ended = await Promise.race([relays[index]?.exited.then(() => true) ?? true, Bun.sleep(5).then(() => false)])
    }
    const { directory: cwd } = target
    relays[index] = await startRelay(join(cwd, "relay.config.json"), { cwd })
  }
  expect([...statuses.keys()]).toEqual([202])
  expect(statuses.get(202)).toBeGreaterThan(2 * late)
  await Promise.all(relays.map((relay) => relay.kill()))
  await Promise.all(targets.map((target) => target.stop()))
})
