/** The conditions that every sink meets that sends by HTTP. */
import type { TlsOptions } from "node:tls"
import { type Authority, lacking as lacksCertificates, makeAuthority } from "../lib/authority.ts"
import { makeProxy } from "../parts/Proxy.ts"
import { makeTlsFront } from "../parts/TlsFront.ts"
import type { Scenario } from "./Column.ts"
import { answers, HttpService, type Kind, running, steps } from "./HttpService.ts"
import { type Condition, forgotten, hostName, play } from "./Play.ts"

type More = Partial<Omit<Condition, "what" | "start">>

export const answer = (status: number, body = "", headers: Record<string, string> = {}) =>
  new Response(body === "" ? null : body, { status, headers })

export const json = (status: number, value: object, headers: Record<string, string> = {}) =>
  answer(status, JSON.stringify(value), { "content-type": "application/json", ...headers })

/** Bodies of this length. */
export const ofSize =
  (bytes: number) =>
  (number: number): string => {
    const text = (note: string) =>
      JSON.stringify({
        id: `evt_${number}`,
        account_id: "acct_1",
        version: "1",
        created_at: "2026-11-21T00:00:00Z",
        data: { type: "appointment.created", object: { id: `apt_${number}`, note } },
      })
    return text("n".repeat(bytes - text("").length))
  }

export const page = (status: number, title: string, headers: Record<string, string> = {}) =>
  answer(status, `<!DOCTYPE html><html><head><title>${title}</title></head><body>${title}</body></html>`, {
    "content-type": "text/html",
    ...headers,
  })

/** Row a: a NAT drops all connections of the pool. */
export const idle = (kind: Kind): ReadonlyArray<Scenario> => [
  play({
    what: "a NAT drops all pooled connections; after one time-out new ones are opened",
    start: async () => {
      const service = new HttpService({ accepted: kind.accepted })
      // Slow enough for several connections at a time.
      service.answer = async () => {
        await Bun.sleep(20)
        return undefined
      }
      const proxy = await makeProxy(service.port)
      const { close, ...rest } = running(kind, [service], `http://127.0.0.1:${proxy.port}`)
      return {
        ...rest,
        breaks: () => proxy.forget(),
        heals: () => {},
        close: () => Promise.all([proxy.close(), close()]),
      }
    },
    first: 40,
  }),
]

/** The service at two addresses. The name leads to the first one at first. */
const twice = (kind: Kind, hostname: string, [one, other]: readonly [string, string]) => {
  const before = new HttpService({ accepted: kind.accepted, hostname: one })
  const after = new HttpService({ accepted: kind.accepted, hostname: other, port: before.port })
  return { before, ...running(kind, [before, after], `http://${hostname}:${before.port}`) }
}

/** Row b: the name leads to another address. */
export const moves = (kind: Kind): ReadonlyArray<Scenario> => {
  const move = (what: string, leave: (before: HttpService) => unknown) =>
    play({
      what: `the service moves to another address, ${what}; the next attempt goes there`,
      names: true,
      start: async ({ lead }) => {
        const { before, ...service } = twice(kind, hostName, ["127.0.0.1", "127.0.0.2"])
        lead("127.0.0.1")
        const breaks = async () => {
          lead("127.0.0.2")
          await forgotten()
          await leave(before)
        }
        return { ...service, breaks, heals: () => {} }
      },
    })
  const answering = (status: number) => (before: HttpService) => {
    before.answer = () => answer(status)
  }
  return [
    move("and the old server answers 503", answering(503)),
    move("and the old server answers 410", answering(410)),
    move("and the old server answers nothing", (before) => {
      before.answer = () => new Promise(() => {})
    }),
    move("and nothing listens at the old one", (before) => before.stop()),
  ]
}

/** Row k: addresses that can't be reached. */
export const addresses = (kind: Kind): ReadonlyArray<Scenario> => {
  const at = (what: string, hostname: string, ...addresses: ReadonlyArray<string>) =>
    play({
      what,
      names: true,
      start: async ({ lead }) => {
        const service = new HttpService({ accepted: kind.accepted, hostname })
        lead(...addresses)
        return {
          ...running(kind, [service], `http://${hostName}:${service.port}`),
          breaks: () => {},
          heals: () => {},
        }
      },
    })
  return [
    at("nothing listens at the first of two addresses; the second is used", "127.0.0.1", "127.0.0.9", "127.0.0.1"),
    at("the IPv6 address is dead; the IPv4 address is used", "127.0.0.1", "::1", "127.0.0.1"),
    at("the service has an IPv6 address only", "::1", "::1"),
  ]
}

/** Row e: the service stores the event, and its answer is late. */
export const late = (kind: Kind, time = 1_500, more: More = {}): ReadonlyArray<Scenario> => [
  answers(
    kind,
    "the service takes an event and answers after the time-out; the event is sent again",
    (service) => async (asked) => {
      const accepted = service.accept(asked)
      await Bun.sleep(time)
      return accepted
    },
    {
      says: kind.says?.late ?? /waiting: .*no answer within 1s/,
      delivery: { timeout: "1 second" },
      ...more,
      bound: { copies: 30, because: "each attempt is taken, until an answer comes in time" },
    },
  ),
]

/** Row i: the relay's clock is wrong, both ways. */
export const clock = (kind: Kind, what: string, more: More = {}): ReadonlyArray<Scenario> =>
  [2, -2].map((hours) =>
    steps(kind, `${what} (${hours > 0 ? "+" : ""}${hours} hours)`, () => ({ breaks: () => {}, heals: () => {} }), {
      skew: hours * 3_600_000,
      isThereAtStart: true,
      ...more,
    }),
  )

/** Row l: the service restarts, and a proxy in front of it answers meanwhile. */
export const restarts = (kind: Kind): ReadonlyArray<Scenario> => [
  steps(
    kind,
    "the service restarts; its events wait",
    (service) => ({ breaks: () => service.stop(), heals: () => service.restart() }),
    { says: kind.says?.refused ?? /waiting: .*connection refused/, isQuick: true },
  ),
  answers(
    kind,
    "a load balancer answers 502 while the service is upgraded",
    () => () => page(502, "502 Bad Gateway", { server: "nginx" }),
    { says: kind.says?.upgraded ?? /waiting: .*answered 502; it says "502 Bad Gateway"/ },
  ),
]

const http1 = { ALPNProtocols: ["http/1.1"] }

/** Row m: certificates and versions of TLS. */
export const certificates = (kind: Kind): ReadonlyArray<Scenario> => {
  const change = (what: string, to: (authority: Authority, stranger: Authority) => TlsOptions, says?: RegExp) =>
    play({
      what,
      lacking: lacksCertificates,
      ...(says !== undefined && { says }),
      start: async ({ directory }) => {
        const authority = makeAuthority(directory)
        const good = authority.issue("good", "IP:127.0.0.1").pem
        const service = new HttpService({ accepted: kind.accepted })
        const front = await makeTlsFront(service.port, { ...good, ...http1 })
        const url = `https://127.0.0.1:${front.port}`
        const { close, ...rest } = running(kind, [service], url, { ca: authority.ca })
        return {
          ...rest,
          breaks: () => front.present({ ...to(authority, makeAuthority(directory, "stranger")), ...http1 }),
          heals: () => (says === undefined ? undefined : front.present({ ...good, ...http1 })),
          close: () => Promise.all([front.close(), close()]),
        }
      },
    })
  return [
    change(
      "its certificate expires; status says so until it is renewed",
      (authority) => authority.issue("expired", "IP:127.0.0.1", -1).pem,
      kind.says?.expired ?? /misconfigured: .*certificate has expired/,
    ),
    change(
      "another authority signs its certificate",
      (_, stranger) => stranger.issue("strange", "IP:127.0.0.1").pem,
      kind.says?.untrusted ?? /misconfigured: .*no authority that is trusted signed its certificate.*"tls": \{ "ca"/,
    ),
    change(
      "its certificate is for another host",
      (authority) => authority.issue("elsewhere", "DNS:elsewhere.example").pem,
      kind.says?.elsewhere ?? /misconfigured: .*certificate is for another host name/,
    ),
    change("it requires TLS 1.3", (authority) => ({
      ...authority.issue("newer", "IP:127.0.0.1").pem,
      minVersion: "TLSv1.3",
    })),
    change(
      "it takes no version of TLS that is still safe",
      (authority) => ({ ...authority.issue("older", "IP:127.0.0.1").pem, minVersion: "TLSv1", maxVersion: "TLSv1.1" }),
      kind.says?.older ?? /misconfigured: .*no TLS with it.*another version of TLS/,
    ),
  ]
}

/** Row j: the service throttles. `says` is what status says meanwhile. */
export const throttles = (kind: Kind, what: string, throttled: () => Response, wait: number, isQuick?: true) =>
  answers(kind, what, () => throttled, {
    says: /waiting: .*answered (429|503)/,
    bound: { wait, because: "the service asks for this wait, or five seconds if it names none" },
    ...(isQuick && { isQuick }),
  })

/** Row g: refusals that every event gets. The lane waits and shows the words. */
export const refusesAll = (kind: Kind, what: string, refused: () => Response, says: RegExp, more: More = {}) =>
  answers(kind, `every event is refused (${what}); the lane waits`, () => refused, { says, ...more })

/** Row g: a refusal of one event. The others are delivered. */
export const refusesOne = (kind: Kind, what: string, refused: () => Response, says: RegExp, more: More = {}) =>
  answers(
    kind,
    `one event is refused (${what}); it alone is a dead letter`,
    () => (asked) => (asked.numbers.includes(7) ? refused() : undefined),
    { says, letters: (number) => number === 7, ...more },
  )
