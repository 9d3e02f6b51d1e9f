/**
 * The collector of traces and logs under each condition. It costs telemetry and no delivery: events go on to a healthy
 * sink while the condition holds, and the log names the cause. A minute after the collector is healthy, exports begin again.
 */
import { lacking as lacksCertificates, makeAuthority } from "../lib/authority.ts"
import { makeProxy, type Proxy as Wire } from "../parts/Proxy.ts"
import type { Column, Scenario } from "./Column.ts"
import { answer, json, ofSize, page } from "./HttpRows.ts"
import { HttpService } from "./HttpService.ts"
import { type Condition, hostName, type Place, play } from "./Play.ts"

/** The collector, with the URL and the proxy that the relay uses. */
interface Collector {
  readonly service: HttpService
  readonly url?: string
  readonly proxy?: Wire
  /** Its authority's certificate, and the certificate that it has once it is healthy. */
  readonly ca?: string
  readonly valid?: Bun.TLSOptions
}

const accepting = () => new HttpService({ accepted: () => json(200, {}) })

const heals = async ({ service, proxy, valid }: Collector): Promise<void> => {
  service.answer = () => undefined
  proxy?.flow()
  if (valid !== undefined) await service.stop()
  service.restart(valid)
}

const on = (
  what: string,
  breaks: (collector: Collector, place: Place) => unknown,
  logs: RegExp | undefined,
  more: Partial<Omit<Condition, "what">> = {},
  make: (place: Place) => Promise<Collector> = async () => ({ service: accepting() }),
): Scenario =>
  play({
    what,
    ...(logs !== undefined && { logs }),
    start: async (place) => {
      const receiver = new HttpService()
      const collector = await make(place)
      return {
        sink: { type: "http", url: `${receiver.url}/hooks` },
        config: { telemetry: { otlp: { url: collector.url ?? collector.service.url } } },
        breaks: () => breaks(collector, place),
        heals: () => heals(collector),
        requests: () => collector.service.requests,
        ...(collector.ca !== undefined && { env: { NODE_EXTRA_CA_CERTS: collector.ca } }),
        arrived: () => receiver.numbers,
        close: () => Promise.all([receiver.stop(), collector.service.stop(), collector.proxy?.close()]),
      }
    },
    ...more,
  })

const answers = (what: string, response: () => Response | Promise<Response>, logs?: RegExp, more = {}) =>
  on(
    what,
    ({ service }) => {
      service.answer = response
    },
    logs,
    more,
  )

const nothing = () => {}
const refused = /does not accept (traces|logs), so they are dropped: nothing listens there/
const silent = /does not accept (traces|logs), so they are dropped: it does not answer/
const stops = ({ service }: Collector) => service.stop()
const named =
  (hostname: string, ...addresses: ReadonlyArray<string>) =>
  async ({ lead }: Place) => {
    const service = new HttpService({ accepted: () => json(200, {}), hostname })
    lead(...addresses)
    return { service, url: `http://${hostName}:${service.port}` }
  }
const behindProxy = async () => {
  const service = accepting()
  const proxy = await makeProxy(service.port)
  return { service, url: `http://127.0.0.1:${proxy.port}`, proxy }
}
const expired = async ({ directory }: Place) => {
  const { ca, issue } = makeAuthority(directory)
  const certificate = (name: string, days: number) => issue(name, "IP:127.0.0.1", days).pem
  return { service: new HttpService({ tls: certificate("expired", -1) }), ca, valid: certificate("valid", 2) }
}

export const column: Column = {
  cells: {
    a: [
      on(
        "a firewall drops all packets to it, without FIN or RST",
        ({ proxy }) => proxy?.stall(),
        silent,
        {},
        behindProxy,
      ),
    ],
    b: [
      on(
        "the name moves, and nothing listens at the old address",
        stops,
        refused,
        { names: true },
        named("127.0.0.1", "127.0.0.1"),
      ),
    ],
    c: [answers("its API key is revoked", () => answer(401), /it answers 401: check "telemetry\.otlp\.headers"/)],
    d: [answers("its path is gone", () => answer(404), /it answers 404: nothing accepts OTLP there/)],
    e: [answers("it answers after the time-out", () => Bun.sleep(8_000).then(() => json(200, {})), silent)],
    f: [
      answers(
        "it accepts a part of the spans",
        () => json(200, { partialSuccess: { rejectedSpans: "1", errorMessage: "too many attributes" } }),
        /it rejects a part of them \(too many attributes\)/,
        { isQuick: true },
      ),
    ],
    g: [answers("it refuses all for a quota", () => answer(403, "quota exceeded"), /it answers 403/)],
    h: [answers("a proxy answers 502 in its place", () => page(502, "Bad Gateway"), /it answers 502/)],
    i: [2, -2].map((hours) =>
      on(`the clock is wrong by ${hours} hours`, nothing, undefined, { skew: hours * 3_600_000, isThereAtStart: true }),
    ),
    j: [answers("it throttles", () => answer(429, "", { "retry-after": "2" }), /it answers 429/)],
    k: [
      on(
        "the first of its addresses is dead",
        nothing,
        undefined,
        { names: true },
        named("127.0.0.1", "127.0.0.9", "127.0.0.1"),
      ),
      on("it has an IPv6 address only", nothing, undefined, { names: true }, named("::1", "::1")),
    ],
    l: [on("it stops", stops, refused)],
    m: [on("its certificate has expired", nothing, /no TLS with it/, { lacking: lacksCertificates }, expired)],
    n: [on("events of 1 MiB are delivered beside it", nothing, undefined, { body: ofSize(1024 * 1024) })],
  },
}
