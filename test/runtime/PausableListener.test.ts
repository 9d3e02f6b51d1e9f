import { expect } from "bun:test"
import { Duration, Effect, Exit } from "effect"
import type { Address } from "../../src/config/Address.ts"
import { listeningSockets, makeGeneration, open } from "../../src/runtime/PausableListener.ts"
import * as BunPlatform from "../../src/runtime/platform/Bun.ts"
import { it } from "../lib/effect.ts"

const platform = BunPlatform.make()
const anywhere = { host: "127.0.0.1", port: 0 }
/** A listener that answers with its number. The first one's is 1. */
const numbered = Effect.fnUntraced(function* (address: Address) {
  let number = 0
  const listener = yield* open(
    (own) => {
      const text = String(++number)
      const generation = makeGeneration(() => new Response(text))
      const { handle: handler } = generation
      return { ...platform.listen({ ...own, tls: undefined, handler, maxBody: 1024, idleTimeout: 60 }), generation }
    },
    address,
    { mayPause: false, retireAfter: Duration.millis(50), takesOver: undefined },
  )
  yield* Effect.addFinalizer(() => Effect.promise(() => listener.close(true)))
  return listener
})

it.live("a replaced listener makes its clients reconnect, and closes after its time", function* () {
  const { address, replace } = yield* numbered(anywhere)
  const libc = platform.libc()
  const sockets = () => listeningSockets(libc, address.port).length
  const get = Effect.promise(async () => {
    const response = await fetch(`http://127.0.0.1:${address.port}/`)
    return `${await response.text()} ${response.headers.get("connection") ?? "stays"}`
  })
  expect(yield* get).toBe("1 stays")
  yield* replace(libc)
  // The first request uses the connection that was kept.
  expect([yield* get, yield* get, sockets()]).toEqual(["1 close", "2 stays", 2])
  yield* replace(libc)
  expect([yield* get, yield* get, sockets()]).toEqual(["2 close", "3 stays", 3])
  while (sockets() > 1) yield* Effect.sleep("10 millis")
  expect([yield* get, sockets()]).toEqual(["3 stays", 1])
  // Another relay can't listen at this address.
  expect(Exit.isFailure(yield* Effect.exit(numbered(address)))).toBe(true)
})

// When a socket ends, the kernel chooses among all sockets until the filter is set again.
it.live("the newest of several listeners gets new connections, but for the moments in which others end", function* () {
  const { address, replace } = yield* numbered(anywhere)
  const libc = platform.libc()
  const answers: Array<string> = []
  const ask = Effect.promise(async () => {
    const response = await fetch(`http://127.0.0.1:${address.port}/`, { headers: { connection: "close" } })
    answers.push(await response.text())
  })
  const older = 6
  for (let n = 0; n < older; n++) {
    yield* replace(libc)
    yield* Effect.sleep("10 millis")
  }
  while (listeningSockets(libc, address.port).length > 1) yield* ask
  yield* ask
  expect(answers.at(-1)).toBe("7")
  expect(answers.filter((number) => number !== "7").length).toBeLessThanOrEqual(older)
  expect(answers.length).toBeGreaterThan(4 * older)
})
