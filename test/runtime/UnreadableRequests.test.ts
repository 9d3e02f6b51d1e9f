/** Connections that end without a request, counted in the kernel's list of closed connections. */
import { describe, expect } from "bun:test"
import { Duration, Effect } from "effect"
import { TestClock } from "effect/testing"
import { closedAt, watchUnreadable } from "../../src/runtime/RequestGuard.ts"
import * as Runtime from "../../src/runtime/Runtime.ts"
import * as Raw from "../e2e/http/Raw.ts"
import { it } from "../lib/effect.ts"

const unreadable = [
  "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
  `\x16\x03\x01\0\xc8\x01\0\0\xc4\x03\x03${"\0".repeat(194)}`,
  "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
  `GET / HTTP/1.1\r\nHost: a\r\nX: ${"x".repeat(20_000)}\r\n\r\n`,
]

const serve = Runtime.serve({ address: { host: "127.0.0.1", port: 0 }, handler: () => new Response(null) })

const refused = (port: number) =>
  Effect.promise(async () => {
    for (const text of unreadable) expect((await Raw.send(port, text)).statuses[0]).toBeGreaterThanOrEqual(400)
  })

describe("connections without a request", () => {
  it.live("are attributed by the kernel to the port that closed them", function* () {
    const { address, requests } = yield* serve
    yield* refused(address.port)
    // This client closes first, so the kernel remembers its connection at the client's port.
    yield* Effect.promise(async () => {
      const connection = await Raw.open(address.port)
      connection.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
      await connection.answers(1)
      connection.destroy()
    })
    expect(requests()).toBe(1)
    let closed = 0
    while (closed < unreadable.length) {
      closed = yield* Effect.promise(() => closedAt(address.port))
    }
    expect(closed).toBe(unreadable.length)
  })

  const watching = Effect.fnUntraced(function* (requests: () => number) {
    const noted: Array<number> = []
    const watched = { port: 1, requests, idleTimeout: Duration.seconds(60), closed: () => Promise.resolve(4) }
    yield* Effect.forkChild(watchUnreadable(watched, (count) => void noted.push(count)))
    yield* Effect.yieldNow
    return noted
  })
  /** Lets minutes pass one by one, because each reads its count asynchronously. */
  const pass = (minutes: number) =>
    Effect.forEach(Array(minutes).keys(), () =>
      Effect.andThen(
        TestClock.adjust("1 minute"),
        Effect.promise(() => new Promise<void>((resolve) => setImmediate(resolve))),
      ),
    )

  it.effect("are noted once a minute if no request has arrived for longer than a connection stays idle", function* () {
    const noted = yield* watching(() => 0)
    yield* pass(2)
    expect(noted).toEqual([])
    yield* pass(2)
    expect(noted).toEqual([4, 4])
  })

  it.effect("are not noted while requests arrive", function* () {
    let requests = 0
    const noted = yield* watching(() => requests)
    for (requests = 1; requests < 10; requests++) yield* pass(1)
    expect(noted).toEqual([])
    yield* pass(4)
    expect(noted).toEqual([4])
  })
})
