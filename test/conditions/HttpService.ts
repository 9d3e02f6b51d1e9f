/** A service that is spoken to by HTTP: it accepts events, and answers otherwise while a condition holds. */
import { numberOf } from "../faults/relay/Traffic.ts"
import { type Condition, type Place, play, type Service } from "./Play.ts"

/** Answers in the service's place; `undefined` accepts the event. */
export type Answer = (number: number, request: Request) => Response | undefined | Promise<Response | undefined>

/** The number of the event in a request, by its header or the first id in its body; -1 if there is none. */
export const numberIn = (request: Request, body: string): number =>
  numberOf(request.headers.get("x-relay-event-id") ?? /\bevt_\d+\b/.exec(body)?.[0])

export class HttpService {
  readonly numbers: Array<number> = []
  /** Requests so far. */
  requests = 0
  answer: Answer = () => undefined
  readonly port: number
  readonly #accepted: () => Response
  readonly #tls: Bun.TLSOptions | undefined
  #server: Bun.Server<undefined> | undefined

  /** `accepted` is the answer of the service to an event that it takes. */
  constructor(accepted: () => Response = () => new Response(null, { status: 204 }), tls?: Bun.TLSOptions) {
    this.#accepted = accepted
    this.#tls = tls
    this.#server = this.#listen(0)
    this.port = this.#server.port ?? 0
  }

  get url(): string {
    return `http${this.#tls === undefined ? "" : "s"}://127.0.0.1:${this.port}`
  }

  /** Notes that the service has accepted an event, whatever it answers. */
  accept(number: number): Response {
    this.numbers.push(number)
    return this.#accepted()
  }

  /** Nothing listens. */
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
      hostname: "127.0.0.1",
      idleTimeout: 0,
      ...(tls !== undefined && { tls }),
      fetch: (request) => this.#take(request),
    })
  }

  async #take(request: Request): Promise<Response> {
    if (request.method === "HEAD") return new Response()
    this.requests += 1
    const number = numberIn(request, await request.text())
    return (await this.answer(number, request)) ?? this.accept(number)
  }
}

/** How a kind of service is configured, and how it answers when it accepts an event. */
export interface Kind {
  readonly sink: (url: string) => object
  readonly accepted?: () => Response
}

type More = Omit<Condition, "what" | "start">

/** A scenario in which a service answers otherwise while the condition holds. */
export const answers = (kind: Kind, what: string, answer: (service: HttpService) => Answer, more: More) =>
  play({
    what,
    start: async () => {
      const service = new HttpService(kind.accepted)
      return {
        ...running(kind, service),
        breaks: () => {
          service.answer = answer(service)
        },
        heals: () => {
          service.answer = () => undefined
        },
      }
    },
    ...more,
  })

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
      const service = new HttpService(kind.accepted)
      return { ...running(kind, service), ...of(service, place) }
    },
    ...more,
  })

const running = (kind: Kind, service: HttpService): Pick<Service, "sink" | "arrived" | "close"> => ({
  sink: kind.sink(service.url),
  arrived: () => service.numbers,
  close: () => service.stop(),
})
