/** Conditions between a relay and a service behind a TCP connection: the network, names, TLS. */
import { copyFileSync } from "node:fs"
import { join } from "node:path"
import type { TlsOptions } from "node:tls"
import { bodyOf, numberOf, path, secret } from "../faults/relay/Traffic.ts"
import { type Authority, makeAuthority } from "../lib/authority.ts"
import { makeProxy, type Proxy as Wire } from "../parts/Proxy.ts"
import { makeTlsFront, type TlsFront } from "../parts/TlsFront.ts"
import type { Scenario } from "./Column.ts"
import { type Bound, type Condition, hostName, type Place, play, type Service } from "./Play.ts"

/** A target of its own at a running service. */
export interface Target {
  /** The service listens at this port of 127.0.0.1. */
  readonly port: number
  /** Clients must find the service at this port, because it names it to them; any if absent. */
  readonly namedPort?: number
  /** The sink of the config, by host and port, and with TLS by the file of the authority. */
  readonly sink: (address: string, ca?: string) => object
  readonly arrived: Service["arrived"]
  readonly close?: () => unknown
}
export type MakeTarget<T extends Target = Target> = (place: Place) => Promise<T>

/** The parts of a scenario with a proxy. */
export interface Behind<T extends Target> {
  readonly wire: Wire
  readonly target: T
  readonly place: Place
}

/** Makes a scenario of a column, with the reason why the column cannot run here. */
export type On = (what: string, more: Omit<Condition, "what" | "lacking">) => Scenario
export const on =
  (lacking: string | undefined): On =>
  (what, more) =>
    play({ what, lacking, ...more })

/** Steps with a proxy before the service. */
export const byProxy =
  <T extends Target>(
    make: MakeTarget<T>,
    breaks: (behind: Behind<T>) => unknown,
    heals: (behind: Behind<T>) => unknown = ({ wire }) => wire.flow(),
  ) =>
  async (place: Place): Promise<Service> => {
    const target = await make(place)
    const wire = await makeProxy(target.port, { port: target.namedPort ?? 0 })
    return {
      sink: target.sink(`127.0.0.1:${wire.port}`),
      arrived: target.arrived,
      breaks: () => breaks({ wire, target, place }),
      heals: () => heals({ wire, target, place }),
      close: async () => {
        await wire.close()
        await target.close?.()
      },
    }
  }

/** Addresses of this machine; nothing listens at `dead`. */
export const addresses = { first: "127.0.0.1", second: "127.0.0.2", dead: "127.0.0.9", ipv6: "::1" } as const

/** The parts of a scenario with a name. */
interface Named<T extends Target> extends Pick<Place, "lead"> {
  /** The way to the service by the first address. */
  readonly first: Wire
  readonly target: T
}

/** Steps in which a name leads to 127.0.0.1 at first, and the service, or `second` in its stead, has other addresses too. */
export const byName =
  <T extends Target>(
    make: MakeTarget<T>,
    breaks: (named: Named<T>) => unknown,
    heals: (named: Named<T>) => unknown = () => {},
    second?: (target: T) => Promise<Pick<Target, "port" | "arrived" | "close">>,
  ) =>
  async (place: Place): Promise<Service> => {
    const target = await make(place)
    const other = await second?.(target)
    const first = await makeProxy(target.port, { port: target.namedPort ?? 0 })
    const { port } = first
    const more = await Promise.all(
      [addresses.second, addresses.ipv6].map((host) => makeProxy(other?.port ?? target.port, { port, host })),
    )
    place.lead(addresses.first)
    const named = { lead: place.lead, first, target }
    return {
      sink: target.sink(`${hostName}:${port}`),
      arrived: async () => [...(await target.arrived()), ...((await other?.arrived()) ?? [])],
      breaks: () => breaks(named),
      heals: () => heals(named),
      close: async () => {
        await Promise.all([first, ...more].map((wire) => wire.close()))
        await target.close?.()
        await other?.close?.()
      },
    }
  }

/** Row a. `first` is the number of events before the condition. */
export const forgets = (on: On, make: MakeTarget, first?: number): ReadonlyArray<Scenario> => [
  on("a firewall forgets all connections; the events go by others", {
    start: byProxy(make, ({ wire }) => wire.forget()),
    ...(first !== undefined && { first }),
  }),
]

/** Row b, while the old address does not answer. `says`: that the service can't be reached. */
export const moves = (on: On, make: MakeTarget, says: RegExp): ReadonlyArray<Scenario> => [
  on("the name gets another address, and nothing listens at the old one", {
    names: true,
    start: byName(
      make,
      async ({ first }) => {
        first.cut()
        await first.close()
      },
      ({ lead }) => lead(addresses.second),
    ),
    says,
  }),
]

/** Row e. `says`: that no answer comes. */
export const answersLate = (on: On, make: MakeTarget, says: RegExp, bound?: Bound): ReadonlyArray<Scenario> => [
  on("the service stores events, and its answers stay away for longer than the time-out", {
    start: byProxy(make, ({ wire }) => wire.mute()),
    says,
    ...(bound !== undefined && { bound }),
  }),
]

/** Part of row h. `says`: that this is another protocol. */
export const answersHttp = (on: On, make: MakeTarget, says: RegExp): ReadonlyArray<Scenario> => [
  on("a proxy answers in the service's place, by HTTP", {
    start: async (place) => {
      const headers = { "content-type": "text/html" }
      const page = Bun.serve({
        port: 0,
        hostname: "127.0.0.1",
        fetch: () => new Response("<html>Sign in</html>", { headers }),
      })
      const stands = ({ wire }: Behind<Target>, port = 0): void => {
        wire.pointTo(port)
        wire.cut()
      }
      const start = byProxy(
        make,
        (behind) => stands(behind, page.port),
        (behind) => stands(behind, behind.target.port),
      )
      const service = await start(place)
      return {
        ...service,
        close: async () => {
          await service.close()
          await page.stop(true)
        },
      }
    },
    says,
  }),
]

const hours = 3_600_000

/** Row i, at a service that looks at no clock. */
export const clocks = (on: On, make: MakeTarget): ReadonlyArray<Scenario> =>
  [2, -2].map((skew) =>
    on(`the relay's clock is wrong by ${skew} hours`, {
      start: byProxy(make, () => {}),
      skew: skew * hours,
    }),
  )

/** Row k. */
export const severalAddresses = (on: On, make: MakeTarget): ReadonlyArray<Scenario> => [
  on("the first of two addresses is dead", {
    names: true,
    isThereAtStart: true,
    start: byName(make, ({ lead }) => lead(addresses.dead, addresses.first)),
  }),
  on("the service has an IPv6 address alone", {
    names: true,
    isThereAtStart: true,
    start: byName(make, ({ lead }) => lead(addresses.ipv6)),
  }),
]

/** Ends TLS before a service, with certificates that change. */
type Front = Pick<TlsFront, "port" | "present" | "close">
/** A service that a TLS front stands before. */
const frontOf = (make: MakeTarget) => async (place: Place, pem: TlsOptions) => {
  const target = await make(place)
  return { target, front: await makeTlsFront(target.port, pem, target.namedPort) }
}

/** The parts of a scenario with certificates. */
interface Secured {
  readonly front: Front
  readonly place: Place
  readonly own: Authority
  readonly stranger: Authority
}

/** Steps at a service whose certificate comes from the authority `own`, which the relay trusts by a file. */
const secured =
  (
    make: (place: Place, pem: TlsOptions) => Promise<{ readonly target: Target; readonly front: Front }>,
    breaks: (secured: Secured) => unknown,
    heals: (secured: Secured) => unknown,
  ) =>
  async (place: Place): Promise<Service> => {
    const own = makeAuthority(place.directory, "own")
    const stranger = makeAuthority(place.directory, "stranger")
    const ca = join(place.directory, "trusted.pem")
    copyFileSync(own.ca, ca)
    const { target, front } = await make(place, own.issue("first", here).pem)
    const all = { front, place, own, stranger }
    return {
      sink: target.sink(`127.0.0.1:${front.port}`, ca),
      // The sinks of AWS trust whom the process trusts.
      env: { NODE_EXTRA_CA_CERTS: ca },
      arrived: target.arrived,
      breaks: () => breaks(all),
      heals: () => heals(all),
      close: async () => {
        await front.close()
        await target.close?.()
      },
    }
  }

const here = "IP:127.0.0.1"
const isRenewed = ({ front, own }: Secured) => front.present(own.issue("renewed", here).pem)

/** Certificates that the relay does not trust. */
const wrongCertificates = (on: On, make: Parameters<typeof secured>[0]): ReadonlyArray<Scenario> => [
  on("its certificate has expired", {
    start: secured(make, ({ front, own }) => front.present(own.issue("expired", here, -1).pem), isRenewed),
    says: /misconfigured: .*expired certificate/,
  }),
  on("its certificate is for another host", {
    start: secured(
      make,
      ({ front, own }) => front.present(own.issue("elsewhere", "DNS:elsewhere.example").pem),
      isRenewed,
    ),
    says: /misconfigured: .*certificate of another host/,
  }),
]

/** Row m, but for the version of TLS. */
export const certificates = (on: On, make: Parameters<typeof secured>[0]): ReadonlyArray<Scenario> => [
  ...wrongCertificates(on, make),
  on("its certificate comes from another authority; the file of the authority follows", {
    start: secured(
      make,
      ({ front, stranger }) => front.present(stranger.issue("other", here).pem),
      async ({ place, stranger }) => {
        copyFileSync(stranger.ca, join(place.directory, "trusted.pem"))
        await place.reload()
      },
    ),
    says: /misconfigured: .*untrusted certificate/,
  }),
]

/** Row m, at a service behind a front. */
export const behindFront = (on: On, make: MakeTarget): ReadonlyArray<Scenario> => [
  ...certificates(on, frontOf(make)),
  newerTls(on, make),
]

/** Row m, at a service behind a front, whose authorities the relay learns at its start. */
export const behindPublicFront = (on: On, make: MakeTarget): ReadonlyArray<Scenario> => [
  ...wrongCertificates(on, frontOf(make)),
  newerTls(on, make),
]

const newerTls = (on: On, make: MakeTarget): Scenario =>
  on("it takes TLS 1.3 alone", {
    start: secured(
      frontOf(make),
      ({ front, own }) => front.present({ ...own.issue("newer", here).pem, minVersion: "TLSv1.3" }),
      () => {},
    ),
  })

/** The number of the event that differs from the others, under the condition. */
export const special = 7

/** The body of an event, of exactly `bytes` bytes. */
export const sized = (number: number, bytes: number): string => {
  const { data, ...envelope } = JSON.parse(bodyOf(number))
  const bodyWith = (text: string) => JSON.stringify({ ...envelope, data: { ...data, text } })
  return bodyWith("x".repeat(bytes - bodyWith("").length))
}

/** A config whose webhook accepts larger bodies. */
export const largeBodies = {
  webhooks: { scheduling: { path, secrets: [{ name: "faults", value: secret }], maxBody: "8 MiB" } },
}

/** The number of the event with this body. */
export const numberIn = (body: Uint8Array): number => numberOf(JSON.parse(Buffer.from(body).toString()).id)
