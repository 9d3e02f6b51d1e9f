/** Serving on real sockets: addresses, bugs, and the drain. */
import { describe, expect } from "bun:test"
import { connect, createServer, type Server } from "node:net"
import { Cause, Deferred, Duration, Effect, Exit, Fiber, Logger, Result, Scope } from "effect"
import type { Handler } from "../../src/runtime/RequestGuard.ts"
import * as Runtime from "../../src/runtime/Runtime.ts"
import * as Raw from "../e2e/http/Raw.ts"
import { it } from "../lib/effect.ts"

const anywhere = { host: "127.0.0.1", port: 0 }
const get = (port: number) => Effect.promise(() => fetch(`http://127.0.0.1:${port}/`))
const whyNot = (options: Runtime.ServeOptions) =>
  Effect.map(Effect.exit(Runtime.serve(options)), (exit) => {
    if (Exit.isSuccess(exit)) return "it listens"
    const error = Cause.findError(exit.cause)
    return Result.isSuccess(error) ? error.success.message : "a bug"
  })
const ok: Handler = () => new Response("ok")

const captured = () => {
  const lines: Array<string> = []
  return { lines, layer: Logger.layer([Logger.map(Logger.formatJson, (line) => void lines.push(line))]) }
}

describe("an address", () => {
  it.live("with port 0 is reported with the actual port", function* () {
    const { host, port } = (yield* Runtime.serve({ address: anywhere, handler: ok })).address
    expect(host).toBe("127.0.0.1")
    expect(port).toBeGreaterThan(0)
    expect((yield* get(port)).status).toBe(200)
  })

  it.live("that is taken, or not on this machine, is an error with a message", function* () {
    const port = yield* Effect.acquireRelease(
      Effect.callback<Server>((resume) => {
        const server = createServer().listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
      }),
      (server) => Effect.sync(() => server.close()),
    ).pipe(Effect.map((server) => Object(server.address()).port))
    expect(yield* whyNot({ address: { host: "127.0.0.1", port }, handler: ok, key: "listen" })).toMatch(
      new RegExp(
        `^"listen", 127\\.0\\.0\\.1:${port}, is taken: process ${process.pid} \\(.+\\) listens there; stop it`,
      ),
    )
    expect(yield* whyNot({ address: { host: "203.0.113.7", port: 0 }, handler: ok })).toStartWith(
      "203.0.113.7:0 is not an address of this machine",
    )
    expect(yield* whyNot({ address: { host: "relay.invalid", port: 8080 }, handler: ok, key: "listen" })).toBe(
      '"listen", relay.invalid:8080, has no address: correct the host\'s name, or write its address',
    )
    expect(yield* whyNot({ address: { host: "fe80::1", port: 8080 }, handler: ok })).toMatch(
      /^\[fe80::1\]:8080 is (an address of one network link only|not an address of this machine)/,
    )
  })

  it.live("is never shared with another relay", function* () {
    const { address } = yield* Runtime.serve({ address: anywhere, handler: ok })
    expect(yield* whyNot({ address, handler: ok })).toStartWith(`127.0.0.1:${address.port} is taken: `)
  })

  it.live("that is * accepts connections of IPv4 and IPv6, and is then taken for both", function* () {
    const { address } = yield* Runtime.serve({ address: { host: "*", port: 0 }, handler: ok })
    const { port } = address
    expect(address.host).toBe("*")
    const statuses = yield* Effect.promise(() =>
      Promise.all(["127.0.0.1", "[::1]"].map(async (host) => (await fetch(`http://${host}:${port}/`)).status)),
    )
    expect(statuses).toEqual([200, 200])
    for (const host of ["*", "0.0.0.0", "::"]) {
      expect(yield* whyNot({ address: { host, port }, handler: ok })).toContain(" is taken: ")
    }
  })

  it.live("is free again when the scope has closed", function* () {
    const { address } = yield* Effect.scoped(Runtime.serve({ address: anywhere, handler: ok }))
    expect(yield* whyNot({ address, handler: ok })).toBe("it listens")
  })
})

describe("a bug in a handler", () => {
  const bugs: ReadonlyArray<readonly [string, Handler]> = [
    [
      "that throws",
      () => {
        throw new Error("the canary")
      },
    ],
    ["that rejects", () => Promise.reject(new Error("the canary"))],
  ]
  for (const [name, handler] of bugs) {
    it.live(`${name} is answered 500 with the request id that the log names, and counted`, () => {
      const { lines, layer } = captured()
      return Effect.gen(function* () {
        const refused: Array<ReadonlyArray<string>> = []
        const onRefused = (refusal: string, requestId: string) => void refused.push([refusal, requestId])
        const { address } = yield* Runtime.serve({ address: anywhere, handler, onRefused })
        const { port } = address
        const response = yield* get(port)
        expect(response.status).toBe(500)
        const body = yield* Effect.promise(() => response.text())
        expect(body).not.toContain("canary")
        const { requestId } = JSON.parse(body)
        expect(lines.join()).toContain(requestId)
        expect(refused).toEqual([["bug", requestId]])
      }).pipe(Effect.provide(layer))
    })
  }
})

describe("headers", () => {
  const statusOf = (port: number, bytes: number) =>
    Effect.promise(async () => {
      const connection = await Raw.open(port)
      connection.write(`GET / HTTP/1.1\r\nHost: a\r\nX: ${"x".repeat(bytes)}\r\n\r\n`)
      const { statuses } = await connection.answers(1)
      connection.destroy()
      return statuses[0]
    })

  it.live("may be as large as configured, up to the largest that the config accepts", function* () {
    // The limit belongs to the process, so the last value is the default again.
    for (const maxHeaders of [32 * 1024, 1024 * 1024, 16 * 1024]) {
      const { port } = (yield* Runtime.serve({ address: anywhere, handler: ok, maxHeaders })).address
      expect(yield* statusOf(port, maxHeaders - 1024)).toBe(200)
      expect(yield* statusOf(port, maxHeaders + 1)).toBe(431)
    }
  })
})

describe("an idle connection", () => {
  it.live(
    "is closed after the idle timeout",
    function* () {
      const idleTimeout = Duration.seconds(1)
      const { port } = (yield* Runtime.serve({ address: anywhere, handler: ok, idleTimeout })).address
      yield* Effect.callback<void>((resume) => {
        const socket = connect(port, "127.0.0.1", () => socket.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n"))
        socket.resume().once("close", () => resume(Effect.void))
      })
    },
    30_000,
  )
})

describe("a port that is kept for another handler", () => {
  const serve = (door: Runtime.Door, text: string) => door.serve({ handler: () => new Response(text) })
  const answer = (port: number) =>
    Effect.promise(async () => {
      const response = await fetch(`http://127.0.0.1:${port}/`)
      return `${await response.text()} ${response.headers.get("connection") ?? "stays"}`
    })

  it.live("closes connections from the moment that it leaves, and requests wait for the next handler", function* () {
    const whileHeld = ({ url }: Request) => (url.endsWith("/probe") ? new Response("held") : undefined)
    const door = yield* Runtime.openDoor({ address: anywhere, whileHeld })
    const { port } = door.address
    yield* Effect.scoped(
      Effect.gen(function* () {
        yield* serve(door, "first")
        expect(yield* answer(port)).toBe("first stays")
        yield* door.leave
        expect(yield* answer(port)).toBe("first close")
      }),
    )
    const waiting = yield* Effect.forkChild(answer(port))
    // A later request to the same port is answered, so the earlier one is waiting.
    expect(yield* Effect.promise(async () => (await fetch(`http://127.0.0.1:${port}/probe`)).text())).toBe("held")
    yield* serve(door, "second")
    expect(yield* Fiber.join(waiting)).toStartWith("second")
    expect(yield* answer(port)).toBe("second stays")
  })
})

describe("a drain", () => {
  /** A server in its own scope. Its handler answers when `answer` is called. */
  const slow = Effect.fnUntraced(function* (drainTimeout: Duration.Duration) {
    const scope = yield* Scope.make()
    const entered = yield* Deferred.make<void>()
    const order: Array<string> = []
    let answer = () => {}
    const { address } = yield* Runtime.serve({
      address: anywhere,
      drainTimeout,
      onDrain: Effect.sync(() => void order.push("refusing")),
      handler: () =>
        new Promise((resolve) => {
          Deferred.doneUnsafe(entered, Effect.void)
          answer = () => {
            order.push("answered")
            resolve(new Response("late"))
          }
        }),
    }).pipe(Scope.provide(scope))
    const close = Effect.tap(Scope.close(scope, Exit.void), () => Effect.sync(() => order.push("closed")))
    return { port: address.port, order, entered: Deferred.await(entered), close, answer: () => answer() }
  })

  it.live("refuses new requests first, waits for those in progress, and closes last", function* () {
    const { port, order, entered, close, answer } = yield* slow(Duration.seconds(5))
    const response = yield* Effect.forkChild(get(port))
    yield* entered
    const closing = yield* Effect.forkChild(close, { startImmediately: true })
    yield* Effect.sleep("50 millis")
    expect(order).toEqual(["refusing"])
    answer()
    expect(yield* Effect.promise(async () => (await Effect.runPromise(Fiber.join(response))).text())).toBe("late")
    yield* Fiber.join(closing)
    expect(order).toEqual(["refusing", "answered", "closed"])
  })

  it.live("does not wait for requests that came after its begin", () => {
    const { lines, layer } = captured()
    return Effect.gen(function* () {
      const scope = yield* Scope.make()
      const answers: Array<() => void> = []
      let wake = () => {}
      const came = (count: number) =>
        Effect.promise(async () => {
          while (answers.length < count) await new Promise<void>((resolve) => (wake = resolve))
        })
      const { address } = yield* Runtime.serve({
        address: anywhere,
        handler: () =>
          new Promise((resolve) => {
            answers.push(() => resolve(new Response("late")))
            wake()
          }),
      }).pipe(Scope.provide(scope))
      const connections = yield* Effect.promise(() => Promise.all([1, 2].map(() => Raw.open(address.port))))
      connections[0]?.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
      yield* came(1)
      const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void), { startImmediately: true })
      connections[1]?.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
      yield* came(2)
      answers[0]?.()
      yield* Fiber.join(closing)
      expect(lines.map((line) => JSON.parse(line).message)).toEqual([expect.stringMatching(/^waiting for 1 request/)])
    }).pipe(Effect.provide(layer))
  })

  it.live("aborts requests in progress at its deadline", () => {
    const { lines, layer } = captured()
    return Effect.gen(function* () {
      const { port, entered, close } = yield* slow(Duration.millis(50))
      const connection = yield* Effect.promise(() => Raw.open(port))
      connection.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
      yield* entered
      yield* close
      expect(yield* Effect.promise(connection.ended)).toEqual({ text: "", statuses: [], closed: true })
      expect(lines.map((line) => JSON.parse(line).message)).toEqual([
        expect.stringMatching(/^waiting for 1 request under way on 127\.0\.0\.1:\d+, for 50ms at most$/),
        "requests still under way at the end of the drain are cut off",
      ])
    }).pipe(Effect.provide(layer))
  })

  it.live("does not wait for connections that are idle or send half a head", function* () {
    const scope = yield* Scope.make()
    const { address } = yield* Runtime.serve({ address: anywhere, handler: ok }).pipe(Scope.provide(scope))
    const { port } = address
    const idle = yield* Effect.promise(() => Raw.open(port))
    idle.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    const half = yield* Effect.promise(() => Raw.open(port))
    half.write("GET / HTTP/1.1\r\nHo")
    yield* Effect.sleep("50 millis")
    yield* Scope.close(scope, Exit.void)
    expect((yield* Effect.promise(idle.ended)).closed).toBe(true)
    expect((yield* Effect.promise(half.ended)).closed).toBe(true)
  })
})
