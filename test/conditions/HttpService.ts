/** A service with an HTTP interface. It accepts events, and answers otherwise while a condition holds. */
import { numberOf } from "../faults/relay/Traffic.ts"
import { type Condition, type Place, play, type Service } from "./Play.ts"

/** A request for an event, or for several. */
export interface Asked {
  readonly numbers: ReadonlyArray<number>
  readonly path: string
  readonly headers: Headers
  readonly body: string
}

/** Answers in the service's place; `undefined` accepts the events. */
export type Answer = (asked: Asked) => Response | undefined | Promise<Response | undefined>

/** The numbers of the events in a request, by its header or the ids in its path and body. */
const numbersIn = (headers: Headers, body: string): ReadonlyArray<number> => {
  const id = headers.get("x-relay-event-id")
  return id === null ? [...new Set(body.match(/\bevt_\d+\b/g))].map(numberOf) : [numberOf(id)]
}

interface Listening {
  /** The answer of the service to an event that it takes; 204 by default. */
  readonly accepted?: ((asked: Asked) => Response) | undefined
  readonly tls?: Bun.TLSOptions
  readonly hostname?: string
  readonly port?: number
}

export class HttpService {
  readonly numbers: Array<number> = []
  /** The number of requests received. */
  requests = 0
  answer: Answer = () => undefined
  readonly port: number
  readonly #accepted: (asked: Asked) => Response
  readonly #tls: Bun.TLSOptions | undefined
  #server: Bun.Server<undefined> | undefined

  readonly #hostname: string

  constructor({ accepted, tls, hostname = "127.0.0.1", port = 0 }: Listening = {}) {
    this.#accepted = accepted ?? (() => new Response(null, { status: 204 }))
    this.#tls = tls
    this.#hostname = hostname
    this.#server = this.#listen(port)
    this.port = this.#server.port ?? 0
  }

  get url(): string {
    return `http${this.#tls === undefined ? "" : "s"}://127.0.0.1:${this.port}`
  }

  /** Notes that the service has accepted events, whatever it answers. */
  accept(asked: Asked): Response {
    this.numbers.push(...asked.numbers)
    return this.#accepted(asked)
  }

  /** Stops listening. */
  async stop(): Promise<void> {
    await this.#server?.stop(true)
    this.#server = undefined
  }

  /** Listens again, with another certificate if one is given. */
  restart(tls = this.#tls): void {
    this.#server ??= this.#listen(this.port, tls)
  }

  #listen(port: number, tls = this.#tls): Bun.Server<undefined> {
    return Bun.serve({
      port,
      hostname: this.#hostname,
      idleTimeout: 0,
      ...(tls !== undefined && { tls }),
      fetch: (request) => this.#take(request),
    })
  }

  async #take(request: Request): Promise<Response> {
    if (request.method === "HEAD") return new Response()
    this.requests += 1
    const { headers } = request
    const body = await request.text()
    const path = new URL(request.url).pathname
    const asked = { numbers: numbersIn(headers, `${path} ${body}`), path, headers, body }
    return (await this.answer(asked)) ?? this.accept(asked)
  }
}

/** A receiver of the events, if they don't go to the service that the condition concerns. */
type Receiver = Pick<HttpService, "url" | "numbers" | "stop">

/** PEM files. */
interface Tls {
  readonly ca: string
  readonly certificate?: string
  readonly key?: string
}

/** How a kind of service is configured, and how it answers when it accepts an event. */
export interface Kind {
  /** The config of the sink, with `tls` for `https`. With `receives`, events go to the receiver. */
  readonly sink: (url: string, tls?: Tls, receiver?: Receiver) => object
  /** Further keys of the config. */
  readonly config?: (url: string) => object
  /** The answer of the service to a request that it accepts; 204 by default. */
  readonly accepted?: (asked: Asked) => Response
  /** Makes the receiver, if events go elsewhere. */
  readonly receives?: () => HttpService
  /** Words of status that differ from the words of the HTTP sink. */
  readonly says?: { readonly [Condition in Said]?: RegExp }
}

/** Conditions whose words depend on the kind of client. */
export type Said = "refused" | "late" | "upgraded" | "expired" | "untrusted" | "elsewhere" | "older"

type More = Omit<Condition, "what" | "start">

/** A scenario in which a service answers otherwise while the condition holds. */
export const answers = (kind: Kind, what: string, answer: (service: HttpService) => Answer, more: More) =>
  steps(
    kind,
    what,
    (service) => ({
      breaks: () => {
        service.answer = answer(service)
      },
      heals: () => {
        service.answer = () => undefined
      },
    }),
    more,
  )

/** A scenario with steps of its own at a service. */
export const steps = (
  kind: Kind,
  what: string,
  of: (service: HttpService, place: Place) => Partial<Service> & Pick<Service, "breaks" | "heals">,
  more: More,
) =>
  play({
    what,
    start: async (place) => {
      const service = new HttpService({ accepted: kind.accepted })
      return { ...running(kind, [service]), ...of(service, place) }
    },
    ...more,
  })

/** The relay's part of a scenario. The relay sends requests to `url`, by default the URL of the first service. */
export const running = (
  kind: Kind,
  services: ReadonlyArray<HttpService>,
  url = services[0]?.url ?? "",
  tls?: Tls,
): Pick<Service, "sink" | "config" | "env" | "arrived" | "close"> => {
  const receiver = kind.receives?.()
  return {
    sink: kind.sink(url, tls, receiver),
    ...(kind.config && { config: kind.config(url) }),
    // For clients without an authority of their own.
    ...(tls && { env: { NODE_EXTRA_CA_CERTS: tls.ca } }),
    arrived: () => (receiver === undefined ? services : [receiver]).flatMap(({ numbers }) => numbers),
    close: () => Promise.all([...services, ...(receiver ? [receiver] : [])].map((one) => one.stop())),
  }
}
