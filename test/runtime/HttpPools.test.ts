/** Connection pools whose connections a NAT or a firewall has silently dropped. */
import { describe, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import type { Socket } from "node:net"
import { Effect } from "effect"
import * as HttpTransport from "../../src/runtime/HttpTransport.ts"
import { lacking, makeAuthority } from "../lib/authority.ts"
import { it } from "../lib/effect.ts"
import { suiteUnless } from "../lib/lacking.ts"
import { temporaryDirectory } from "../lib/temporaryRoot.ts"
import { serveTls } from "../sinks/receiver.ts"

describe("the pool of a request", () => {
  const made = () => {
    let now = 0
    const pools = HttpTransport.makePools(() => now)
    const after = (millis: number) => {
      now += millis
      return pools.next()
    }
    return { pools, after }
  }

  test("is left after 15 idle seconds, and the default one is used again once it must be empty", () => {
    const { after } = made()
    expect([after(60_000), after(15_000), after(15_001), after(1_000)]).toEqual([0, 0, 1, 1])
    for (let at = 0; at < 320_000; at += 10_000) expect(after(10_000)).toBe(1)
    expect(after(10_000)).toBe(0)
  })

  test("is left after ten minutes of use, since the name may lead elsewhere by then", () => {
    const { after } = made()
    for (const round of [1, 2, 3]) {
      for (let at = 0; at <= 600_000; at += 10_000) expect([at, after(10_000)]).toEqual([at, 0])
      for (let at = 0; at <= 330_000; at += 10_000) expect([at, after(10_000)]).toEqual([at, round])
    }
  })

  test("is left once for requests that were silent together", () => {
    const { pools, after } = made()
    for (const pool of [after(1), after(1), after(1)]) pools.silent(pool)
    expect(after(1)).toBe(1)
    pools.silent(1)
    expect(after(1)).toBe(2)
  })

  test("is left when the service may have moved, and not again within half a minute", () => {
    const { pools, after } = made()
    for (const status of [200, 202, 400, 401, 429]) pools.answered(after(1), status)
    expect(after(1)).toBe(0)
    for (let at = 0; at < 10; at++) pools.answered(after(1_000), 503)
    expect(after(1)).toBe(1)
    after(10_000)
    after(10_000)
    pools.answered(after(10_000), 410)
    expect(after(1)).toBe(2)
  })
})

suiteUnless(lacking, "a request after one without an answer", () => {
  const directory = temporaryDirectory("pools-")

  it.live("has a new connection, however many the pool held", function* () {
    const { ca, issue } = makeAuthority(directory)
    const dropped = new Set<Socket>()
    const used = new Set<Socket>()
    const waiting: Array<() => void> = []
    let held = 4
    let heard = () => {}
    const { pem } = issue("server", "DNS:localhost,IP:127.0.0.1")
    const { url } = yield* serveTls(pem, (_, response, { socket }) => {
      heard()
      if (dropped.has(socket)) return
      used.add(socket)
      waiting.push(() => response.end("taken"))
      // The first requests are answered together, so that each opens a connection.
      if (waiting.length >= held) for (const answer of waiting.splice(0)) answer()
    })
    const request = yield* HttpTransport.make({ ca: readFileSync(ca, "utf8") })
    const ask = (signal?: AbortSignal) =>
      Effect.promise(async () => (await request(url, signal === undefined ? {} : { signal })).text())
    yield* Effect.forEach([1, 2, 3, 4], () => ask(), { concurrency: "unbounded" })
    expect(used.size).toBe(4)
    for (const socket of used) dropped.add(socket)
    held = 1
    const giveUp = new AbortController()
    heard = () => giveUp.abort()
    yield* Effect.ignoreCause(ask(giveUp.signal))
    heard = () => {}
    expect(yield* ask()).toBe("taken")
    expect(used.size).toBe(5)
  })
})
