/** An HTTP sink that remembers its events and their times, by the sender of each event. */
import { Effect } from "effect"
import { accounts, type Stamp } from "./Requests.ts"
import * as Rounds from "./Rounds.ts"

export const troubles = ["refuse", "hang", "fail"] as const
export type Trouble = (typeof troubles)[number]

/** The senders of the benchmarks: the scheduling service, and GitHub. */
export const senders = ["scheduling", "code"] as const
export type Sender = (typeof senders)[number]

/** The events of one sender that a sink has. */
export class Arrivals {
  readonly lags: Array<number> = []
  surplus = 0
  /** Events that arrived after a later event of their account. */
  disordered = 0
  readonly #seen = new Set<number>()
  readonly #last = new Int32Array(accounts).fill(-1)

  get count(): number {
    return this.#seen.size
  }

  add({ number, sentAt }: Stamp): void {
    const account = number % accounts
    if (this.#seen.has(number)) {
      this.surplus += 1
      return
    }
    this.#seen.add(number)
    this.lags.push(Date.now() - sentAt)
    if (number < (this.#last[account] ?? -1)) this.disordered += 1
    this.#last[account] = number
  }
}

export class Sink {
  readonly name: string
  readonly ordered: boolean
  readonly #arrivals: Readonly<Record<Sender, Arrivals>> = { scheduling: new Arrivals(), code: new Arrivals() }
  #trouble: Trouble | undefined
  #server: Bun.Server<undefined>
  readonly #port: number

  constructor(name: string, ordered: boolean) {
    this.name = name
    this.ordered = ordered
    this.#server = this.#listen(0)
    // After a stop, the server no longer knows its port.
    this.#port = this.#server.port ?? 0
  }

  get config() {
    const url = `http://127.0.0.1:${this.#port}/`
    return { type: "http", url, order: this.ordered ? "key" : "none", key: "{{account_id}}" }
  }

  of(sender: Sender): Arrivals {
    return this.#arrivals[sender]
  }

  get arrived(): number {
    return senders.reduce((sum, sender) => sum + this.of(sender).count, 0)
  }

  async goDown(trouble: Trouble): Promise<void> {
    this.#trouble = trouble
    if (trouble === "refuse") await this.#server.stop(true)
  }

  comeBack(): void {
    if (this.#trouble === "refuse") this.#server = this.#listen(this.#port)
    this.#trouble = undefined
  }

  close(): Promise<void> {
    return this.#server.stop(true)
  }

  #listen(port: number): Bun.Server<undefined> {
    return Bun.serve({ hostname: "127.0.0.1", port, idleTimeout: 0, fetch: (request) => this.#take(request) })
  }

  async #take(request: Request): Promise<Response> {
    if (this.#trouble === "hang") return new Promise(() => {})
    if (this.#trouble === "fail") return new Response(null, { status: 500 })
    const { data } = (await request.json()) as { readonly data: { readonly object: { readonly stamp: Stamp } } }
    this.of(request.headers.has("x-github-delivery") ? "code" : "scheduling").add(data.object.stamp)
    return new Response()
  }
}

export const open = (name: string, ordered: boolean) =>
  Effect.acquireRelease(
    Effect.sync(() => new Sink(name, ordered)),
    (sink) => Effect.promise(() => sink.close()),
  )

/** Milliseconds. */
const maxLag = 1000

/** Returns the verdict on the time from when a delivery was due at the sender to its arrival. */
export const onTime = (who: string, lags: ReadonlyArray<number>) => {
  const sorted = lags.toSorted((a, b) => a - b)
  const at = (share: number) => sorted[Math.floor(share * (sorted.length - 1))] ?? Number.NaN
  return {
    requirement: `${who}: lag stays under a second`,
    measured: `p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, max ${at(1)} ms`,
    ok: Rounds.spread(lags).max < maxLag,
  }
}
