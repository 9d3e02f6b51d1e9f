/** Traces of the whole program as a strict collector receives them. RELAY_UNDER selects the runtime, or the binary. */
import { afterAll, describe, expect, test } from "bun:test"
import { envelope, post, secret, writeConfig } from "../lib/kit.ts"
import { freePort } from "../lib/port.ts"
import { startRelay } from "../lib/relay.ts"
import { temporaryDirectory } from "../lib/temporaryRoot.ts"
import { collector, type Span } from "../telemetry/otlp.ts"

const cwd = temporaryDirectory("trace-")
const cleanups: Array<() => unknown> = []
afterAll(() => Promise.all(cleanups.map((cleanup) => cleanup())))

/** An expired secret. The relay warns about it in its first line. */
const expired = { name: "old", value: "another-secret-of-this-test", expires: "2026-01-01T00:00:00Z" }
const traceId = "0af7651916cd43dd8448eb211c80319c"
const incoming = { traceparent: `00-${traceId}-b7ad6b7169203331-01`, tracestate: "vendor=1" }

/** A receiver that keeps the headers of its requests. `until` waits for this many. */
const receiver = (status: () => number) => {
  const got: Array<Headers> = []
  let wake = (): void => {}
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: (request) => {
      got.push(request.headers)
      wake()
      return new Response(null, { status: status() })
    },
  })
  cleanups.push(() => server.stop(true))
  const until = async (count: number): Promise<void> => {
    while (got.length < count) {
      await new Promise<void>((resolve) => {
        wake = resolve
      })
    }
  }
  return { url: `http://127.0.0.1:${server.port}/`, got, until }
}

/** Sends events to a relay, starting with `evt_1`. Returns the status of the answer. */
const sender = (url: string) => {
  let ids = 0
  return async (headers: Readonly<Record<string, string>> = {}): Promise<number> => {
    ids += 1
    const body = envelope(`evt_${ids}`, { type: "client.created", object: { id: "cli_1" } })
    return (await post(url, body, headers)).status
  }
}

const write = async (name: string, sinks: Readonly<Record<string, string>>, telemetry: object) => {
  const http = ([sink, url]: readonly [string, string]) => [
    sink,
    { type: "http", url, delivery: { retry: { initial: "1 second", max: "1 second" } } },
  ]
  const { config, url } = await writeConfig(
    cwd,
    Object.fromEntries(Object.entries(sinks).map(http)),
    { webhooks: { scheduling: { path: "/hooks", secrets: [{ name: "main", value: secret }, expired] } }, telemetry },
    `${name}.json`,
  )
  return { file: config, deliver: sender(url) }
}

const named = (spans: ReadonlyArray<Span>, name: string) => spans.filter((span) => span.name === name)

describe.concurrent("a trace", () => {
  test("continues from the sender over the delivery to each sink's send, and leaves with the event", async () => {
    const { spans, logs, resources, wrong, requests, url, stop } = collector()
    cleanups.push(stop)
    const [lake, chat] = [receiver(() => 200), receiver(() => 422)]
    const otlp = { url, headers: { "api-key": "k-1" }, attributes: { "deployment.environment.name": "test" } }
    const { file, deliver } = await write("whole", { lake: lake.url, chat: chat.url }, { otlp })
    const running = await startRelay(file, { cwd, args: ["--log-format", "json"] })
    expect(await deliver(incoming)).toBe(202)
    await Promise.all([lake.until(1), chat.until(1)])
    await running.prints("dead letter")
    expect(await running.kill("SIGTERM")).toBe(0)

    expect(wrong).toEqual([])
    expect(new Set(spans.map((span) => span.traceId))).toEqual(new Set([traceId]))
    const [server] = named(spans, "POST /hooks")
    expect(server).toMatchObject({
      kind: "server",
      parentSpanId: "b7ad6b7169203331",
      status: "ok",
      attributes: {
        "http.request.method": "POST",
        "http.route": "/hooks",
        "http.response.status_code": 202,
        "cloudevents.event_id": "evt_1",
        "cloudevents.event_type": "client.created",
      },
    })
    const [toLake] = named(spans, "send lake")
    const [toChat] = named(spans, "send chat")
    expect(spans).toHaveLength(3)
    expect(toLake).toMatchObject({
      kind: "producer",
      parentSpanId: server?.spanId,
      status: "ok",
      attributes: {
        "messaging.system": "http",
        "messaging.operation.type": "send",
        "messaging.destination.name": "lake",
        "messaging.message.id": "evt_1",
      },
    })
    expect(toChat).toMatchObject({
      kind: "producer",
      parentSpanId: server?.spanId,
      status: "error",
      attributes: { "error.type": "DeliveryRejected" },
    })
    // The receiver's spans continue below the span that sent the event.
    for (const [sink, span] of [
      [lake, toLake],
      [chat, toChat],
    ] as const) {
      expect(sink.got[0]?.get("traceparent")).toBe(`00-${traceId}-${span?.spanId}-01`)
      expect(sink.got[0]?.get("tracestate")).toBe("vendor=1")
    }
    // Exceptions have no stack, because it would contain paths of the build machine.
    const stacks = spans.flatMap(({ exceptions }) => exceptions.map((one) => String(one["exception.stacktrace"])))
    expect(stacks.join()).not.toMatch(/\n\s+at |\.ts/)
    expect(resources[0]).toMatchObject({ "service.name": "relay", "deployment.environment.name": "test" })
    expect(requests.every((headers) => headers.get("api-key") === "k-1")).toBe(true)
    expect(requests.every((headers) => /^relay\/\d/.test(headers.get("user-agent") ?? ""))).toBe(true)
    expect(logs.map(({ body }) => body)).toContainEqual(expect.stringContaining("sink chat: dead letter"))
    expect(logs.slice(0, 2).map(({ body }) => body)).toEqual([expect.stringContaining("has expired"), "started"])
    expect(logs.flatMap(({ attributes }) => Object.keys(attributes))).not.toContain("effect.fiberId")
    expect(JSON.stringify([spans, logs])).not.toContain(secret)
  })

  test("goes through the journal: attempts after a restart belong to it, each with its own span", async () => {
    const { spans, wrong, url, stop } = collector()
    cleanups.push(stop)
    let status = 500
    const lake = receiver(() => status)
    const { file, deliver } = await write("restart", { lake: lake.url }, { otlp: { url } })
    const first = await startRelay(file, { cwd })
    expect(await deliver()).toBe(202)
    await lake.until(1)
    await first.kill("SIGTERM")
    // On a busy machine the first relay may have retried before it ended.
    const tried = lake.got.length
    status = 200
    const second = await startRelay(file, { cwd })
    await lake.until(tried + 1)
    await second.kill("SIGTERM")
    expect(wrong).toEqual([])
    const [server] = named(spans, "POST /hooks")
    const sends = named(spans, "send lake")
    expect(sends.map((span) => span.status)).toEqual([...Array.from({ length: tried }, () => "error" as const), "ok"])
    expect(sends[0]?.attributes["error.type"]).toBe("DeliveryFailed")
    for (const span of sends) {
      expect(span).toMatchObject({ traceId: server?.traceId, parentSpanId: server?.spanId })
    }
    expect(server?.parentSpanId).toBe("")
    expect(lake.got.map((headers) => headers.get("traceparent"))).toEqual(
      sends.map((span) => `00-${server?.traceId}-${span.spanId}-01`),
    )
  })

  test("is not started at a sample rate of 0, and an unsampled trace is only passed on", async () => {
    const { spans, url, stop } = collector()
    cleanups.push(stop)
    const lake = receiver(() => 200)
    const { file, deliver } = await write("unsampled", { lake: lake.url }, { otlp: { url, sampleRate: 0 } })
    const running = await startRelay(file, { cwd })
    const unsampled = { traceparent: `00-${traceId}-b7ad6b7169203331-00` }
    for (const headers of [{}, unsampled, { traceparent: "nonsense" }]) expect(await deliver(headers)).toBe(202)
    await lake.until(3)
    await running.kill("SIGTERM")
    expect(spans).toEqual([])
    expect(lake.got.map((headers) => headers.get("traceparent")).filter((value) => value !== null)).toEqual([
      unsampled.traceparent,
    ])
  })

  test("is nothing that the relay knows of unless the config asks for it", async () => {
    const lake = receiver(() => 200)
    const { file, deliver } = await write("off", { lake: lake.url }, {})
    const running = await startRelay(file, { cwd })
    expect(await deliver(incoming)).toBe(202)
    await lake.until(1)
    await running.kill("SIGTERM")
    expect(lake.got[0]?.get("traceparent")).toBeNull()
  })
})

describe.concurrent("a collector that hangs", () => {
  test("logs once that the collector doesn't accept the export, and why", async () => {
    const elsewhere = receiver(() => 404)
    for (const [url, why] of [
      [elsewhere.url, 'it answers 404: nothing accepts OTLP there; check "telemetry.otlp.url"'],
      [`http://127.0.0.1:${await freePort()}/`, "nothing listens there (connection refused)"],
    ] as const) {
      const { file, deliver } = await write(
        `untold-${url.replace(/\D/g, "")}`,
        { lake: elsewhere.url },
        { otlp: { url } },
      )
      const running = await startRelay(file, { cwd })
      expect(await deliver()).toBe(202)
      await running.prints(`does not accept traces, so they are dropped: ${why}`)
      await running.kill("SIGTERM")
    }
  })

  test.each([
    [
      "that takes no logs, as Jaeger",
      "/v1/logs",
      { status: 404 },
      /logs.*answers 404.*signals.*traces.*if it takes no logs/,
    ],
    [
      "that rejects a part of the spans in an answer of success",
      "/v1/traces",
      { body: '{"partialSuccess":{"rejectedSpans":"1","errorMessage":"quota of the tenant exceeded"}}' },
      /traces.*it rejects a part of them \(quota of the tenant exceeded\)/,
    ],
    ["that takes protobuf alone", "/v1/traces", { status: 415 }, /answers 415: it takes no OTLP in JSON.*Collector/],
    [
      "that says what is wrong, and repeats the key",
      "/v1/traces",
      { status: 401, body: '{"message":"no org id for key api-key-of-this-test"}' },
      /answers 401 \(no org id for key (?!api-key).*\): check .*telemetry\.otlp\.headers/,
    ],
  ] as const)(
    "reports a collector %s",
    async (_, path, { status = 200, body = "" }: { status?: number; body?: string }, says) => {
      const taken = Bun.serve({
        port: 0,
        hostname: "127.0.0.1",
        fetch: (request) =>
          new URL(request.url).pathname === path ? new Response(body, { status }) : new Response("{}"),
      })
      cleanups.push(() => taken.stop(true))
      const lake = receiver(() => 200)
      const otlp = { url: `http://127.0.0.1:${taken.port}`, headers: { "api-key": "api-key-of-this-test" } }
      const { file, deliver } = await write(`says-${taken.port}`, { lake: lake.url }, { otlp })
      const running = await startRelay(file, { cwd, args: ["--log-format", "json"] })
      expect(await deliver()).toBe(202)
      await running.prints(says)
      await running.kill("SIGTERM")
    },
  )

  test("gets no headers at the address that it redirects to", async () => {
    const other = receiver(() => 200)
    const moved = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch: () => new Response(null, { status: 308, headers: { location: other.url } }),
    })
    cleanups.push(() => moved.stop(true))
    const lake = receiver(() => 200)
    const otlp = { url: `http://127.0.0.1:${moved.port}`, headers: { "api-key": "k-1" } }
    const { file, deliver } = await write("redirects", { lake: lake.url }, { otlp })
    const running = await startRelay(file, { cwd })
    expect(await deliver()).toBe(202)
    await running.prints("answers 308: it redirects")
    await running.kill("SIGTERM")
    expect(other.got).toEqual([])
  })

  test("at the port of OTLP over gRPC is told apart from one that is down", async () => {
    // Such a server closes a connection that begins with HTTP/1.
    const grpc = Bun.listen({
      hostname: "127.0.0.77",
      port: 4317,
      socket: { data: (socket) => void socket.end() },
    })
    cleanups.push(() => grpc.stop(true))
    const lake = receiver(() => 200)
    const { file, deliver } = await write("grpc", { lake: lake.url }, { otlp: { url: "http://127.0.0.77:4317" } })
    const running = await startRelay(file, { cwd })
    expect(await deliver()).toBe(202)
    await running.prints("it does not answer HTTP; port 4317 is usually for gRPC, and OTLP over HTTP at 4318")
    await running.kill("SIGTERM")
  })

  test("gets only the signals that the config names", async () => {
    const { spans, logs, requests, wrong, url, stop } = collector()
    cleanups.push(stop)
    const lake = receiver(() => 200)
    const { file, deliver } = await write("signals", { lake: lake.url }, { otlp: { url, signals: ["traces"] } })
    const running = await startRelay(file, { cwd })
    expect(await deliver()).toBe(202)
    await lake.until(1)
    await running.kill("SIGTERM")
    expect({ wrong, logs }).toEqual({ wrong: [], logs: [] })
    expect(requests.length).toBeGreaterThan(0)
    expect(named(spans, "send lake").length).toBe(1)
  })

  test("delays neither a delivery nor the stop", async () => {
    const stuck = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      idleTimeout: 0,
      fetch: () => new Promise<Response>(() => {}),
    })
    cleanups.push(() => stuck.stop(true))
    const lake = receiver(() => 200)
    const otlp = { url: `http://127.0.0.1:${stuck.port}` }
    const { file, deliver } = await write("stuck", { lake: lake.url }, { otlp })
    const running = await startRelay(file, { cwd })
    for (let n = 0; n < 50; n++) expect(await deliver()).toBe(202)
    await lake.until(50)
    expect(await running.kill("SIGTERM")).toBe(0)
  })
})
