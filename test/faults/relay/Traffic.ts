/**
 * Both ends of the relay: a sender that remembers every 202, and receivers that remember arrivals and check their
 * bodies.
 *
 * An event is its number: the body follows from it, so an altered body shows.
 */
import { envelope, sign as signed } from "../../lib/kit.ts"

export const secret = "only-the-fault-campaign-knows"
export const path = "/hooks/scheduling"

export const bodyOf = (number: number): string =>
  envelope(
    `evt_${number}`,
    { object: { id: `apt_${number}`, note: `${number} `.repeat(60) } },
    { account_id: `acct_${number % 50}` },
  )

/** Returns the number in an event's id, or -1 for an id of another form. */
export const numberOf = (id: unknown): number => {
  const found = typeof id === "string" ? /^evt_(\d+)$/.exec(id)?.[1] : undefined
  return found === undefined ? -1 : Number(found)
}

export const sign = (body: string): string => signed(body, secret)

export class Sender {
  readonly acknowledged = new Set<number>()
  /** `performance.now()` at which each was sent. */
  readonly sentAt = new Map<number, number>()
  /** Answers other than 202, by status. */
  readonly refused = new Map<number, number>()
  /** Number of 503 answers that did not say when to come back. */
  unspecific = 0
  next = 0
  /** Makes the body of an event from its number. */
  bodyOf = bodyOf
  readonly #url: string
  readonly #init: BunFetchRequestInit

  /** `address` is the relay's host and port. With an authority to trust, requests use TLS. */
  constructor(address: string, ca?: string) {
    this.#url = `${ca === undefined ? "http" : "https"}://${address}${path}`
    this.#init = { method: "POST", ...(ca !== undefined && { tls: { ca } }) }
  }

  /** Sends an event, by default a new one. Returns the status, or `undefined` if no answer came. */
  async send(number = this.next++): Promise<number | undefined> {
    const body = this.bodyOf(number)
    this.sentAt.set(number, performance.now())
    const headers = { "content-type": "application/json", "x-service-signature": sign(body) }
    try {
      const response = await fetch(this.#url, { ...this.#init, body, headers })
      await response.arrayBuffer()
      if (response.status === 202) this.acknowledged.add(number)
      else {
        this.refused.set(response.status, (this.refused.get(response.status) ?? 0) + 1)
        if (response.status === 503 && !response.headers.has("retry-after")) this.unspecific += 1
      }
      return response.status
    } catch {
      return undefined
    }
  }

  /** Sends as fast as the relay answers, until `until` is true. */
  async load(until: () => boolean, connections = 32): Promise<void> {
    const connection = async () => {
      while (!until()) if ((await this.send()) !== 202) await Bun.sleep(5)
    }
    await Promise.all(Array.from({ length: connections }, connection))
  }

  /** Sends `count` events, at most `connections` at a time. */
  async burst(count: number, connections = 32): Promise<void> {
    const end = this.next + count
    await this.load(() => this.next >= end, connections)
  }

  /** Sends `rate` events a second, whether or not the relay keeps up. */
  async paced(rate: number, seconds: number, send = (): Promise<unknown> => this.send()): Promise<void> {
    const began = performance.now()
    const under = new Set<Promise<unknown>>()
    for (let sent = 0; sent < rate * seconds; ) {
      const due = Math.min(rate * seconds, Math.floor(((performance.now() - began) / 1_000) * rate))
      for (; sent < due; sent++) {
        const one: Promise<unknown> = send().finally(() => under.delete(one))
        under.add(one)
      }
      await Bun.sleep(2)
    }
    await Promise.all(under)
  }
}

/** A receiver's answer to an event, instead of 204. */
export type Answer = (number: number, request: Request) => Response | undefined | Promise<Response | undefined>

export interface Arrival {
  readonly number: number
  /** `performance.now()`. */
  readonly at: number
}

export class Receiver {
  /** How often each event was taken with a 2xx. */
  times = new Map<number, number>()
  /** Number of bodies that differ from the sent ones. */
  altered = 0
  /** Number of requests, whatever their outcome. */
  requests = 0
  answer: Answer = () => undefined
  bodyOf = bodyOf
  /** Called for each event that was taken. */
  onArrival: (arrival: Arrival) => void = () => {}
  readonly port: number
  #server: Bun.Server<undefined> | undefined
  readonly #tls: Bun.TLSOptions | undefined

  constructor(tls?: Bun.TLSOptions) {
    this.#tls = tls
    this.#server = this.#listen(0)
    this.port = this.#server.port ?? 0
  }

  get url(): string {
    return `http${this.#tls === undefined ? "" : "s"}://127.0.0.1:${this.port}/`
  }

  /** Stops listening. */
  async goAway(): Promise<void> {
    await this.#server?.stop(true)
    this.#server = undefined
  }

  /** It listens again, with another certificate if one is given. */
  comeBack(tls = this.#tls): void {
    this.#server ??= this.#listen(this.port, tls)
  }

  /** Returns the `numbers` that never arrived. */
  missing(numbers: Iterable<number>): ReadonlyArray<number> {
    return [...numbers].filter((number) => !this.times.has(number))
  }

  #listen(port: number, tls = this.#tls): Bun.Server<undefined> {
    const secured = tls === undefined ? {} : { tls }
    return Bun.serve({
      port,
      hostname: "127.0.0.1",
      idleTimeout: 0,
      ...secured,
      fetch: (request) => this.#take(request),
    })
  }

  async #take(request: Request): Promise<Response> {
    if (request.method !== "POST") return new Response()
    this.requests += 1
    const text = await request.text()
    const number = numberOf(request.headers.get("x-relay-event-id"))
    if (text !== this.bodyOf(number)) this.altered += 1
    const response = (await this.answer(number, request)) ?? new Response(null, { status: 204 })
    if (response.ok) {
      this.times.set(number, (this.times.get(number) ?? 0) + 1)
      this.onArrival({ number, at: performance.now() })
    }
    return response
  }
}

/**
 * Two receivers: `live` accepts everything immediately, `late` nothing while it is shut, so that a loss in the journal
 * shows.
 */
export class Ends {
  readonly live = new Receiver()
  readonly late = new Receiver()

  get sinks() {
    return { live: { type: "http", url: this.live.url }, late: { type: "http", url: this.late.url } }
  }

  shut(): void {
    this.late.answer = () => new Response(null, { status: 500 })
  }

  open(): void {
    this.late.answer = () => undefined
  }

  /** Acknowledged events that are not at both receivers. */
  lost(sender: Sender): ReadonlyArray<number> {
    return [...sender.acknowledged].filter((number) => !this.live.times.has(number) || !this.late.times.has(number))
  }

  /** Describes the altered deliveries. */
  get altered(): ReadonlyArray<string> {
    const altered = this.live.altered + this.late.altered
    return altered === 0 ? [] : [`${altered} deliveries were altered`]
  }

  async close(): Promise<void> {
    await Promise.all([this.live.goAway(), this.late.goAway()])
  }
}
