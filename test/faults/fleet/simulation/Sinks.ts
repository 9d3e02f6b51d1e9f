/**
 * The sinks of a simulated fleet: the events that each received and how often, whether the sink with an order received
 * them in order, and the epochs under which attempts started.
 */
import { Duration, Effect } from "effect"
import type { LaneSpec } from "../../../../src/delivery/LaneSpec.ts"
import type { Entry } from "../../../../src/event/Event.ts"
import type { OwnedStream } from "../../../../src/journal/postgres/lanes/OwnedStream.ts"
import { streamOf } from "../../../../src/journal/Sequences.ts"
import { type Failures, failed, rejected, type Sink, type SinkError } from "../../../../src/sinks/Sink.ts"
import type { Draw } from "../../simulation/Draw.ts"
import type { Machine } from "./Machines.ts"
import { guest, hasGuest } from "./Operators.ts"

/** How many names a sink has, one after the other: a name is used again. */
const cycle = 3
export type SinkKind = "plain" | "ordered" | typeof guest
export const named = (sink: SinkKind, version: number): string => (sink === guest ? sink : `${sink}${version % cycle}`)
const kindOf = (name: string): SinkKind => name.replace(/\d+$/, "") as SinkKind

/** A relay's lanes over one database. */
export interface Sender {
  readonly relay: string
  readonly machine: Machine
  /** The number of the database. */
  readonly place: number
  readonly streams: () => ReadonlyArray<OwnedStream>
}

export interface SinksOptions {
  readonly draw: Draw
  /** Whether the plain sink rejects an event. */
  readonly rejects: (id: string) => boolean
  /** Events that a failover may have lost. */
  readonly mayBeLost: ReadonlySet<string>
  readonly broken: Set<string>
}

export class Sinks {
  readonly #options: SinksOptions
  readonly #times: Readonly<Record<SinkKind, Map<string, number>>> = {
    plain: new Map(),
    ordered: new Map(),
    guest: new Map(),
  }
  /** Newest epoch under which an attempt started, by database and stream. */
  readonly #epochs = new Map<string, number>()
  #comparesEpochs = true
  /** By key, the number of the newest event that came to the ordered sink. */
  readonly #newest = new Map<string, number>()

  constructor(options: SinksOptions) {
    this.#options = options
  }

  /**
   * Call it when a database goes back on one timeline. Epochs that began since are in no history that goes on, but
   * their relays may begin attempts under them until they notice. Until `epochsCount`, no epochs are compared.
   */
  forgetEpochs(): void {
    this.#epochs.clear()
    this.#comparesEpochs = false
  }

  epochsCount(): void {
    this.#comparesEpochs = true
  }

  /** How often an event came to a sink, whatever its name was then. */
  arrivedAt(sink: string, id: string): number {
    return this.#times[kindOf(sink)].get(id) ?? 0
  }

  get repeated(): number {
    const { plain, ordered } = this.#times
    return [...plain.values(), ...ordered.values()].reduce((sum, count) => sum + count - 1, 0)
  }

  /** The sinks of a config, as a relay has them. */
  specs(sender: Sender, version: number): ReadonlyArray<LaneSpec> {
    const spec = (sink: SinkKind): LaneSpec => ({
      config: {
        name: named(sink, version),
        ...(version > 0 && sink !== guest && { renamedFrom: named(sink, version - 1) }),
        type: "simulated",
        delivery: {
          timeout: Duration.seconds(5),
          retry: { maxAge: Duration.hours(72), initial: Duration.millis(300), max: Duration.seconds(2) },
          pauseAfter: 1_000,
          maxRetrying: 10_000,
          maxDeadLetters: 1_000_000_000,
        },
        concurrency: 4,
        order: sink === "ordered" ? "key" : "none",
        key: "{{account_id}}",
        config: undefined,
      },
      open: Effect.succeed(this.#sink(sink, sender)),
      key: ({ event }) => event.accountId,
    })
    return [spec("plain"), spec("ordered"), ...(hasGuest(version) ? [spec(guest)] : [])]
  }

  #sink(sink: SinkKind, sender: Sender): Sink {
    const { draw, rejects } = this.#options
    const { machine } = sender
    const send = (entries: ReadonlyArray<Entry>) =>
      Effect.gen({ self: this }, function* () {
        if (machine.isDead) return yield* Effect.never
        this.#began(sender, entries)
        const fails = draw.chance(0.05)
        yield* Effect.sleep(draw.int(0, 400))
        if (machine.isDead) return yield* Effect.never
        const failures = new Map<number, SinkError>()
        for (const [index, { event }] of entries.entries()) {
          if (fails) failures.set(index, failed("simulated"))
          else if (sink === "plain" && rejects(event.id)) failures.set(index, rejected("simulated"))
          else this.#came(sink, event.id, event.accountId)
        }
        return failures as Failures
      })
    return { batch: { maxEvents: 4, maxBytes: 1_000_000 }, send, check: Effect.void }
  }

  #began({ relay, machine, place, streams }: Sender, entries: ReadonlyArray<Entry>): void {
    if (machine.mayBeBehind || !this.#comparesEpochs) return
    for (const { sequence } of entries) {
      const id = streamOf(sequence)
      const epoch = streams().find((stream) => stream.id === id)?.epoch
      if (epoch === undefined) continue
      const stream = `${place}:${id}`
      const newest = this.#epochs.get(stream) ?? 0
      if (epoch < newest) {
        this.#options.broken.add(
          `${relay} began an attempt over stream ${stream} under epoch ${epoch}, after one under ${newest}`,
        )
      }
      this.#epochs.set(stream, Math.max(epoch, newest))
    }
  }

  #came(sink: SinkKind, id: string, key: string): void {
    const count = this.arrivedAt(sink, id) + 1
    this.#times[sink].set(id, count)
    // A lost event may still be in a relay's memory, and arrive late.
    if (sink !== "ordered" || count > 1 || this.#options.mayBeLost.has(id)) return
    const number = Number(id.split("-")[1])
    const newest = this.#newest.get(key) ?? -1
    if (number < newest) this.#options.broken.add(`event ${id} came to the ordered sink after ${newest} of its key`)
    this.#newest.set(key, Math.max(number, newest))
  }
}
