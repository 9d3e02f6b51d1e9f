/**
 * Draws a config of the line at random: its sinks, their names and their delivery settings, and possible mistakes.
 *
 * The listener has another certificate each time. A sink is identified by its receiver. It may be removed and come
 * back, and it may be renamed back and forth with `renamedFrom`.
 */
import { secret } from "../relay/Traffic.ts"

/** Files of a listener. */
export interface Tls {
  readonly certificate: string
  readonly key: string
}

export interface Version {
  /** The receivers that events go to, by index. */
  readonly to: ReadonlySet<number>
  readonly sinks: ReadonlyArray<string>
  readonly changes: object
}

export class Plan {
  readonly #urls: ReadonlyArray<string>
  readonly #certificates: ReadonlyArray<Tls>
  readonly #expired: Tls
  readonly #random: () => number
  /** The last name of each receiver's sink. */
  readonly #names: Array<string>
  #spoiled = 0
  #made = 0

  /** `certificates` are the listener's values of `tls`, in turn. */
  constructor(urls: ReadonlyArray<string>, certificates: ReadonlyArray<Tls>, expired: Tls, random: () => number) {
    this.#urls = urls
    this.#certificates = certificates
    this.#expired = expired
    this.#random = random
    this.#names = urls.map((_, index) => `sink-${index}`)
  }

  /** Returns a correct version. The first receiver always has a sink. With `whole`, every receiver has one. */
  next(whole = false): Version {
    const to = new Set(this.#urls.keys().filter((index) => whole || index === 0 || this.#random() < 0.6))
    const sinks = [...to].map((index) => {
      const before = this.#names[index] ?? ""
      const isRenamed = this.#random() < 0.2
      const name = isRenamed ? (before.endsWith("-b") ? before.slice(0, -2) : `${before}-b`) : before
      this.#names[index] = name
      const sink = {
        type: "http",
        url: this.#urls[index],
        concurrency: 8 + Math.floor(this.#random() * 9),
        headers: { "x-version": String(Math.floor(this.#random() * 3)) },
        ...(isRenamed ? { renamedFrom: before } : {}),
      }
      return [name, sink] as const
    })
    const spare = Math.floor(this.#random() * 1_000)
    return {
      to,
      sinks: sinks.map(([name]) => name),
      changes: {
        tls: this.#certificates[this.#made++ % this.#certificates.length],
        sinks: Object.fromEntries(sinks),
        routes: [{ name: "everything", match: "**", to: sinks.map(([name]) => name) }],
        webhooks: {
          scheduling: {
            path: "/hooks/scheduling",
            secrets: [
              { name: `spare-${spare}`, value: `a-spare-secret-${spare}` },
              { name: "faults", value: secret },
            ],
          },
        },
      },
    }
  }

  /**
   * Makes a wrong config of a correct one, each kind in turn: a mistake that the loader finds, a change that needs a
   * restart, a sink whose authority is missing, an expired certificate.
   */
  spoil({ changes }: Version): object {
    const wrong = [
      { ...changes, routes: [{ name: "everything", match: "**", to: "nobody" }] },
      { ...changes, lisen: "127.0.0.1:1" },
      { ...changes, webhooks: {}, sinks: 7 },
      { ...changes, listen: "127.0.0.1:1" },
      { ...changes, journal: { path: "elsewhere.db" } },
      {
        ...changes,
        sinks: { lost: { type: "http", url: "https://127.0.0.1:1/", tls: { ca: "/nonexistent/ca.pem" } } },
        routes: [{ name: "everything", match: "**", to: "lost" }],
      },
      { ...changes, tls: this.#expired },
    ]
    return wrong[this.#spoiled++ % wrong.length] ?? {}
  }
}
