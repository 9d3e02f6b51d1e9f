/**
 * A known number of requests to a real relay, compared with every counter of `/metrics`. Each must be exact.
 * RELAY_UNDER selects the runtime, or the binary.
 */
import { afterAll, expect, test } from "bun:test"
import { connect } from "node:net"
import { join } from "node:path"
import * as kit from "../lib/kit.ts"
import { relay, startRelay } from "../lib/relay.ts"
import { temporaryDirectory } from "../lib/temporaryRoot.ts"

const cwd = temporaryDirectory("metrics-")
const secrets = { current: "a-secret-of-this-test", old: "an-expired-secret-of-it" }

/** The receiver fails each event once, and then accepts it. */
const seen = new Set<string>()
const flaky = Bun.serve({
  port: 0,
  hostname: "127.0.0.1",
  fetch: (request) => {
    const id = request.headers.get("x-relay-event-id") ?? ""
    const isFirst = !seen.has(id)
    seen.add(id)
    return new Response(null, { status: isFirst ? 500 : 200 })
  },
})
const picky = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response(null, { status: 413 }) })
afterAll(() => Promise.all([flaky.stop(true), picky.stop(true)]))

const zeros = (series: ReadonlyArray<string>): Record<string, number> =>
  Object.fromEntries(series.map((name) => [name, 0]))

const sign = (body: string, secret = secrets.current) => kit.sign(body, secret)

let ids = 0
const envelope = (type: string, object: object = { id: "obj_1" }): string => {
  ids += 1
  return kit.envelope(`evt_${ids}`, { type, object })
}

interface Sample {
  readonly type: string
  readonly values: Readonly<Record<string, number>>
}

/** The families of a scrape. Each sample has its name and its sorted labels as key. */
const parse = (text: string): ReadonlyMap<string, Sample> => {
  const families = new Map<string, { type: string; values: Record<string, number> }>()
  let family = { type: "", values: {} as Record<string, number> }
  let current = ""
  for (const line of text.trimEnd().split("\n")) {
    const [, declared, type = ""] = /^# TYPE (\S+) (\S+)$/.exec(line) ?? []
    if (declared !== undefined) {
      family = { type, values: {} }
      current = declared
      families.set(declared, family)
    } else if (!line.startsWith("#")) {
      const [, name = "", labels = "", value = ""] = /^([a-z_]+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? []
      const sorted = labels.replaceAll('"', "").split(",").sort().join(" ")
      // Drops the family's name from the sample's, so only a histogram's `count`, `sum` or `bucket` is left.
      family.values[`${name.slice(current.length + 1)} ${sorted}`.trim()] = Number(value)
    }
  }
  return families
}

/** Sends bytes that no client would send. Returns the answer. */
const raw = (port: number, text: string): Promise<string> =>
  new Promise((resolve, reject) => {
    let answer = ""
    const socket = connect(port, "127.0.0.1", () => socket.write(text))
    socket.on("data", (chunk) => {
      answer += chunk
      socket.end()
    })
    socket.on("close", () => resolve(answer))
    socket.on("error", reject)
  })

test("every counter matches the requests that were sent", async () => {
  const http = (server: { readonly port?: number | undefined }) => ({
    type: "http",
    url: `http://127.0.0.1:${server.port}/`,
    delivery: { retry: { initial: "10 millis", max: "10 millis" } },
  })
  const webhook = {
    path: "/hooks/main",
    secrets: [
      { name: "current", value: secrets.current },
      { name: "old", value: secrets.old, expires: "2020-01-01T00:00:00Z" },
    ],
    maxBody: "10 KiB",
  }
  const webhooks = {
    main: webhook,
    // A second webhook at the same path. It is tried if the first one's secret doesn't match.
    second: { path: "/hooks/main", id: "wh_2", secrets: [{ name: "other", value: "the-secret-of-another" }] },
    strict: { ...webhook, path: "/hooks/strict", undecodable: "reject", unknownTypes: "reject", respond: 200 },
  }
  const sinks = {
    lake: { type: "file", path: join(cwd, "lake.ndjson") },
    flaky: http(flaky),
    picky: http(picky),
    full: { type: "file", path: join(cwd, "full.ndjson"), backlog: { max: 2 } },
  }
  const routes = [
    { name: "most", match: ["client.*", "appointment.*"], to: "lake" },
    { name: "flaky", match: "appointment.canceled", to: "flaky" },
    { name: "picky", match: "appointment.deleted", to: "picky" },
    { name: "full", match: "service.*", to: "full" },
  ]
  const {
    config: file,
    admin,
    ports: [port],
  } = await kit.writeConfig(cwd, sinks, { webhooks, routes })
  const running = await startRelay(file, { cwd })
  expect((await relay(["lanes", "pause", "full", "-c", file], { cwd })).code).toBe(0)

  const send = async (body: string, headers: Readonly<Record<string, string | null>> = {}, path = "/hooks/main") => {
    const all = new Headers({ "content-type": "application/json", "x-service-signature": sign(body) })
    for (const [name, value] of Object.entries(headers)) {
      if (value === null) all.delete(name)
      else all.set(name, value)
    }
    return (await fetch(`http://127.0.0.1:${port}${path}`, { method: "POST", body, headers: all })).status
  }
  /** Sends a delivery `count` times, each with an event of its own. */
  const times = async (count: number, status: number, one: () => Promise<number>) => {
    for (let n = 0; n < count; n++) expect(await one()).toBe(status)
  }
  const made = (type: string, object?: object) => () => send(envelope(type, object))
  const signed = (signature: (body: string) => string | null) => () => {
    const body = envelope("client.created")
    return send(body, { "x-service-signature": signature(body) })
  }

  // Accepted: delivered, unrouted, duplicates, altered, quarantined, to the second webhook and to the strict one.
  await times(20, 202, made("client.created"))
  await times(5, 202, made("appointment.created"))
  await times(2, 202, made("appointment.canceled"))
  await times(3, 202, made("appointment.deleted"))
  await times(4, 202, made("block.created"))
  await times(1, 202, made("client.updated", { email: "a@example.com", phone: "1", first_name: null }))
  const twice = envelope("client.deleted")
  await times(4, 202, () => send(twice))
  await times(1, 202, () => send(`${twice} `))
  await times(2, 202, () => send("{}".concat(" ".repeat(++ids))))
  await times(
    3,
    202,
    signed((body) => sign(body, "the-secret-of-another")),
  )
  await times(2, 200, () => send(envelope("client.created"), {}, "/hooks/strict"))
  // Refused.
  await times(2, 422, () => send("no envelope", {}, "/hooks/strict"))
  await times(1, 422, () => send(envelope("made.up"), {}, "/hooks/strict"))
  await times(2, 404, () => send(envelope("client.created"), {}, "/nowhere"))
  await times(3, 405, async () => (await fetch(`http://127.0.0.1:${port}/hooks/main`)).status)
  await times(4, 415, () => send(envelope("client.created"), { "content-type": "text/plain" }))
  await times(1, 415, () => send(envelope("client.created"), { "content-encoding": "gzip" }))
  await times(2, 413, () => send(envelope("client.created", { text: "x".repeat(20_000) }), {}, "/hooks/strict"))
  await times(
    1,
    401,
    signed(() => null),
  )
  await times(
    2,
    401,
    signed((body) => sign(body).toLowerCase()),
  )
  await times(
    3,
    401,
    signed(() => "sha256=123"),
  )
  await times(
    4,
    401,
    signed((body) => sign(body, "a-secret-of-nobody")),
  )
  await times(
    5,
    401,
    signed((body) => sign(body, secrets.old)),
  )
  await times(2, 400, async () => {
    const answer = await raw(port, `POST /hooks/main HTTP/1.1\r\nHost: two words\r\nContent-Length: 0\r\n\r\n`)
    return Number(/^HTTP\/1\.1 (\d+)/.exec(answer)?.[1])
  })
  // The paused lane accepts two events. Further deliveries are refused, so that the sender retries them.
  await times(2, 202, made("service.created"))
  await times(3, 503, made("service.created"))

  const scrape = async () => parse(await (await fetch(`${admin}/metrics`)).text())
  const backlog = async () => {
    const values = (await scrape()).get("relay_lane_backlog_events")?.values ?? {}
    return Object.values(values).reduce((sum, value) => sum + value, 0)
  }
  // Waits until only the two events of the paused lane are pending.
  while ((await backlog()) !== 2) await Bun.sleep(20)
  const families = await scrape()
  const ofType = (type: string) =>
    Object.fromEntries([...families].flatMap(([name, family]) => (family.type === type ? [[name, family.values]] : [])))
  const none = { "sink=_quarantine": 0, "sink=flaky": 0, "sink=full": 0, "sink=lake": 0, "sink=picky": 0 }
  expect(ofType("counter")).toEqual({
    // Each counter exists from the start, so that its first increase is one.
    relay_webhook_requests_total: {
      ...zeros(
        ["main", "second", "strict"].flatMap((webhook) =>
          [400, 401, 403, 404, 405, 408, 411, 413, 415, 422, 429, 500, 503].map(
            (code) => `code=${code} webhook=${webhook}`,
          ),
        ),
      ),
      "code=200 webhook=strict": 2,
      "code=202 webhook=main": 44,
      "code=202 webhook=second": 3,
      "code=400 webhook=": 2,
      "code=401 webhook=main": 15,
      "code=404 webhook=": 2,
      "code=405 webhook=main": 3,
      "code=413 webhook=strict": 2,
      "code=415 webhook=main": 5,
      "code=422 webhook=strict": 3,
      "code=503 webhook=main": 3,
    },
    relay_signature_failures_total: {
      ...zeros(
        ["main", "second", "strict"].flatMap((webhook) =>
          ["doubled", "expired", "lowercase", "malformed", "mismatch", "missing", "several", "untimely"].map(
            (reason) => `reason=${reason} webhook=${webhook}`,
          ),
        ),
      ),
      "reason=expired webhook=main": 5,
      "reason=lowercase webhook=main": 2,
      "reason=malformed webhook=main": 3,
      "reason=mismatch webhook=main": 4,
      "reason=missing webhook=main": 1,
    },
    relay_events_total: {
      "type= webhook=main": 2,
      "type=appointment.canceled webhook=main": 2,
      "type=appointment.created webhook=main": 5,
      "type=appointment.deleted webhook=main": 3,
      "type=block.created webhook=main": 4,
      "type=client.created webhook=main": 20,
      "type=client.created webhook=second": 3,
      "type=client.created webhook=strict": 2,
      "type=client.deleted webhook=main": 5,
      "type=client.updated webhook=main": 1,
      "type=service.created webhook=main": 2,
    },
    relay_unredacted_fields_total: {
      ...zeros(
        ["main", "second", "strict"].flatMap((webhook) =>
          ["email", "first_name", "last_name", "phone"].map((field) => `field=${field} webhook=${webhook}`),
        ),
      ),
      "field=email webhook=main": 1,
      "field=phone webhook=main": 1,
    },
    relay_quarantined_total: { "webhook=": 0, "webhook=main": 2, "webhook=second": 0, "webhook=strict": 0 },
    relay_events_unrouted_total: { "": 4 },
    relay_log_lines_dropped_total: { "": 0 },
    relay_duplicates_total: { "": 3 },
    relay_altered_total: { "": 1 },
    relay_delivery_attempts_total: {
      ...zeros(
        ["flaky", "full", "lake", "picky"].flatMap((sink) =>
          [
            ...["delivered", "DeliveryFailed", "DeliveryRejected", "SinkMisconfigured", "SinkThrottled"],
            "SinkUnavailable",
          ].map((outcome) => `outcome=${outcome} sink=${sink}`),
        ),
      ),
      "outcome=delivered sink=lake": 38,
      "outcome=DeliveryFailed sink=flaky": 2,
      "outcome=delivered sink=flaky": 2,
      "outcome=DeliveryRejected sink=picky": 3,
    },
    relay_sink_bugs_total: none,
  })

  const gauges = ofType("gauge")
  const states = Object.entries(gauges.relay_lane_state ?? {}).flatMap(([name, value]) => (value === 1 ? [name] : []))
  expect(states.toSorted()).toEqual([
    "sink=_quarantine state=running",
    "sink=flaky state=running",
    "sink=full state=paused",
    "sink=lake state=running",
    "sink=picky state=running",
  ])
  expect(gauges.relay_lane_backlog_events).toEqual({ ...none, "sink=full": 2 })
  expect(gauges.relay_lane_retrying_events).toEqual(none)
  expect(gauges.relay_dead_letters).toEqual({ ...none, "sink=picky": 3, "sink=_quarantine": 2 })
  expect(Object.keys(gauges.relay_secret_last_used_timestamp_seconds ?? {}).toSorted()).toEqual([
    "secret=current webhook=main",
    "secret=current webhook=strict",
    "secret=other webhook=second",
  ])
  expect(gauges.relay_bytes_in_flight).toEqual({ "": 0 })

  const histograms = ofType("histogram")
  // Deliveries were sent one by one, so each stored delivery had its own commit.
  expect(histograms.relay_commit_duration_seconds?.count).toBe(46)
  const attempts = Object.entries(histograms.relay_delivery_duration_seconds ?? {})
  const counts = Object.fromEntries(attempts.filter(([name]) => /^count /.test(name)))
  // The file sink and the quarantine accept batches, and HTTP sinks single events.
  expect(counts).toMatchObject({ "count sink=flaky": 4, "count sink=picky": 3, "count sink=full": 0 })
  await running.kill()
})
