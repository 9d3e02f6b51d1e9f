/** The HTTP sink under each condition. */
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { type Certificate, lacking as lacksCertificates, makeAuthority } from "../lib/authority.ts"
import { makeTlsFront } from "../parts/TlsFront.ts"
import type { Column } from "./Column.ts"
import {
  addresses,
  answer,
  certificates,
  clock,
  idle,
  json,
  late,
  moves,
  ofSize,
  page,
  refusesAll,
  refusesOne,
  restarts,
  throttles,
} from "./HttpRows.ts"
import { answers, HttpService, type Kind, steps } from "./HttpService.ts"
import { play } from "./Play.ts"

const http: Kind = { sink: (url, tls) => ({ type: "http", url: `${url}/hooks`, ...(tls && { tls }) }) }

const withToken = steps(
  http,
  "the token in a file is replaced; after a reload the new one is sent",
  (service, { directory, reload }) => {
    const write = (token: string) => writeFileSync(join(directory, "token"), token)
    write("first")
    const only = (token: string) => {
      service.answer = ({ headers }) =>
        headers.get("authorization") === `Bearer ${token}`
          ? undefined
          : json(401, { error: "invalid_token", error_description: "The access token was revoked" })
    }
    only("first")
    return {
      sink: {
        ...http.sink(service.url),
        headers: { authorization: `Bearer \${file:${join(directory, "token")}}` },
      },
      breaks: () => only("second"),
      heals: () => {
        write("second")
        return reload()
      },
    }
  },
  { says: /misconfigured: .*401; it says "The access token was revoked".*credentials in "headers"/ },
)

/** The client's certificate is renewed by another authority, which the receiver trusts alone from then on. */
const withCertificate = (what: string, says: RegExp, refusing: (server: Refusing) => Promise<() => unknown>) =>
  play({
    what: `the receiver trusts another authority, and ${what}; after a reload the renewed client certificate is used`,
    lacking: lacksCertificates,
    says,
    start: async ({ directory, reload }) => {
      const authority = makeAuthority(directory)
      const other = makeAuthority(directory, "other")
      const client = authority.issue("client", "DNS:relay", 2, "extendedKeyUsage=clientAuth")
      const server = authority.issue("server", "IP:127.0.0.1")
      const trusting = async (ca: string) => ({
        ...server.pem,
        ca: await Bun.file(ca).text(),
        requestCert: true,
        rejectUnauthorized: true,
      })
      const service = new HttpService()
      const front = await makeTlsFront(service.port, await trusting(authority.ca))
      let end = (): unknown => undefined
      return {
        sink: http.sink(`https://127.0.0.1:${front.port}`, {
          ca: authority.ca,
          certificate: client.certificate,
          key: client.key,
        }),
        breaks: async () => {
          await front.close()
          end = await refusing({ port: front.port, server, ca: other.ca })
        },
        heals: async () => {
          await end()
          await front.present(await trusting(other.ca))
          const { pem } = other.issue("renewed", "DNS:relay", 2, "extendedKeyUsage=clientAuth")
          writeFileSync(client.certificate, pem.cert)
          writeFileSync(client.key, pem.key)
          await reload()
        },
        arrived: () => service.numbers,
        close: () => Promise.all([front.close(), service.stop()]),
      }
    },
  })

interface Refusing {
  readonly port: number
  readonly server: Certificate
  readonly ca: string
}

/** OpenSSL's own server sends the alert that the protocol has for it. */
const byAlert = async ({ port, server, ca }: Refusing) => {
  const files = ["-cert", server.certificate, "-key", server.key, "-CAfile", ca]
  const command = [
    "openssl",
    "s_server",
    "-accept",
    `127.0.0.1:${port}`,
    ...files,
    "-Verify",
    "2",
    "-verify_return_error",
  ]
  const child = Bun.spawn(command, { stdin: "pipe", stdout: "pipe", stderr: "ignore" })
  // It prints when it starts to listen.
  await child.stdout.getReader().read()
  return () => {
    child.kill()
    return child.exited
  }
}

/** nginx ends the handshake and answers this page. */
const byPage = async ({ port, server }: Refusing) => {
  const title = "400 The SSL certificate error"
  const refusing = new HttpService({ port, tls: server.pem })
  refusing.answer = () => page(400, title, { server: "nginx" })
  return () => refusing.stop()
}

/** A receiver that accepts a signature for five minutes, as the libraries of Standard Webhooks do. */
const signed = [2, -2].map((hours) =>
  steps(
    http,
    `the receiver refuses the time of each signature (${hours > 0 ? "+" : ""}${hours} hours); the lane waits for the clock`,
    (service, { setClock }) => {
      service.answer = ({ headers }) => {
        const age = Date.now() / 1_000 - Number(headers.get("webhook-timestamp"))
        if (Math.abs(age) < 300) return undefined
        return json(400, { detail: `Message timestamp too ${age > 0 ? "old" : "new"}` })
      }
      return {
        sink: {
          ...http.sink(service.url),
          sign: { scheme: "standardWebhooks", secret: "C2FVsBQIhrscChlQIMV+b5sSYspob7oD" },
        },
        breaks: () => {},
        heals: () => setClock(0),
      }
    },
    {
      skew: hours * 3_600_000,
      isThereAtStart: true,
      says: /misconfigured: .*three different events|refused 3 different events in a row alike.*Message timestamp too (old|new)/,
    },
  ),
)

/** `Retry-After` as a date, five seconds after the receiver's own clock. */
const untilDate = () => {
  const now = Date.now()
  const date = new Date(now).toUTCString()
  return answer(429, "slow down", { date, "retry-after": new Date(now + 3_000).toUTCString() })
}

const ndjson: Kind = {
  sink: (url) => ({ ...http.sink(url), format: "ndjson", batch: { maxEvents: 10, linger: "100 millis" } }),
}
const largest = 1024 * 1024

export const column: Column = {
  sink: "http",
  cells: {
    a: idle(http),
    b: moves(http),
    c: [
      withToken,
      withCertificate("refuses the handshake", /misconfigured: .*another client certificate in "tls"/, byAlert),
      withCertificate("answers 400", /misconfigured: .*400; it says "400 The SSL certificate error"/, byPage),
    ],
    d: [
      answers(http, "the path answers 404 for a while; the lane waits", () => () => answer(404, "no such hook"), {
        says: /misconfigured: .*404; it says "no such hook".*path of "url"/,
        isQuick: true,
      }),
      answers(http, "the path never existed, until it is made", () => () => answer(404), {
        says: /misconfigured: .*answered 404: nothing is there/,
        isThereAtStart: true,
      }),
      answers(http, "the path is said to be gone for good, and comes back", () => () => answer(410), {
        says: /misconfigured: .*answered 410: the receiver says that this address is gone/,
      }),
    ],
    e: late(http),
    f: [
      refusesOne(ndjson, "one of a batch", () => json(422, { detail: "bad line" }), /answered 422; it says "bad line"/),
      answers(
        ndjson,
        "a batch is refused while it has more than two events; smaller ones are delivered",
        () => (asked) => (asked.numbers.length > 2 ? json(413, { detail: "too many" }) : undefined),
        {},
      ),
    ],
    g: [
      refusesAll(
        http,
        "its quota is used up",
        () => json(402, { error: { message: "Monthly event quota exceeded" } }),
        /misconfigured: .*402; it says "Monthly event quota exceeded"/,
      ),
      refusesAll(
        http,
        "by a policy",
        () => json(403, { message: "Request blocked by policy" }),
        /misconfigured: .*403; it says "Request blocked by policy"/,
      ),
      refusesAll(
        http,
        "with 400, which may be about one event",
        () => json(400, { message: "Project is archived" }),
        /misconfigured: refused 3 different events.*Project is archived/,
      ),
      refusesOne(
        http,
        "too large",
        () => answer(413, "payload over 5 MB"),
        /answered 413; it says "payload over 5 MB"/,
        {
          isQuick: true,
        },
      ),
      refusesOne(
        http,
        "its content",
        () => json(422, { detail: "no such type" }),
        /answered 422; it says "no such type"/,
      ),
    ],
    h: [
      answers(http, "a sign-in page comes with 200; the lane waits", () => () => page(200, "Sign in to continue"), {
        says: /misconfigured: .*web page, probably for a person to sign in/,
      }),
      refusesAll(
        http,
        "a CDN blocks this machine",
        () => answer(403, "error code: 1010", { server: "cloudflare" }),
        /misconfigured: .*Cloudflare, in front of the service, blocks this machine \(error 1010\)/,
      ),
      answers(
        http,
        "a CDN can't reach the service",
        () => () => page(523, "Origin is unreachable", { server: "cloudflare" }),
        { says: /waiting: .*Cloudflare, in front of the service, can't reach the service/ },
      ),
      answers(
        { sink: (url) => ({ ...http.sink(url), classify: { "409": "delivered" } }) },
        "409 for an event that is there already counts as delivered, as `classify` says",
        (service) => (asked) => {
          service.accept(asked)
          return answer(409, "already there")
        },
        {},
      ),
    ],
    i: [
      ...clock(http, "the clock is wrong; deliveries go on"),
      ...signed,
      ...[2, -2].map((hours) =>
        answers(
          http,
          `the receiver throttles until a date of its own clock; the relay waits as long (${hours} hours)`,
          () => untilDate,
          {
            skew: hours * 3_600_000,
            says: /waiting: .*answered 429/,
            bound: { wait: 3_000, because: "the service asks for this wait" },
          },
        ),
      ),
    ],
    j: [
      throttles(http, "429 with a time", () => answer(429, "", { "retry-after": "2" }), 2_000, true),
      throttles(http, "429 without a time", () => answer(429), 5_000),
      throttles(http, "429 with a date", untilDate, 3_000),
      throttles(http, "503 with a time", () => answer(503, "", { "retry-after": "1" }), 1_000),
    ],
    k: addresses(http),
    l: restarts(http),
    m: certificates(http),
    n: [
      steps(
        http,
        "events of 1 MiB arrive as they were sent",
        (service) => ({
          breaks: () => {
            service.answer = ({ body }) => (body.length === largest ? undefined : answer(500, `${body.length} bytes`))
          },
          heals: () => {},
        }),
        {
          body: ofSize(largest),
        },
      ),
    ],
  },
}
