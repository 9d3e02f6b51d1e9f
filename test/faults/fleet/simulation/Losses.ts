/** The events that a simulated database lost, and how many of them the relays name as lost. */
import { streamOf } from "../../../../src/journal/Sequences.ts"

/** By stream, the events that were appended to it since it began. */
export type Accepted = ReadonlyMap<number, number>

/** A database before and after it lost something. */
export interface Loss {
  readonly before: Accepted
  readonly after: Accepted
}

/** Begins the line of an alarm that has more than it shows. */
export const more = "There is more"

const naming = /lost (?:at least )?(\d+) events that were answered, from seq_(\d+) /

const add = (counts: Map<number, number>, stream: number, count: number): void => {
  counts.set(stream, (counts.get(stream) ?? 0) + count)
}

export class Losses {
  readonly #lost = new Map<number, number>()
  /** Each loss in words, for the report. */
  readonly #told: Array<string> = []
  /** The lines of alarms. */
  readonly #lines = new Set<string>()

  add({ before, after }: Loss): void {
    for (const [stream, accepted] of before) {
      const left = after.get(stream) ?? 0
      add(this.#lost, stream, Math.max(0, accepted - left))
      this.#told.push(`stream ${stream} from ${accepted} to ${left}`)
    }
  }

  hear(lines: Iterable<string>): void {
    for (const line of lines) this.#lines.add(line)
  }

  /** `gone`: events that relays acknowledged, that the database lacks, and that a relay must name. */
  untrue(gone: number): ReadonlyArray<string> {
    const named = new Map<number, number>()
    for (const line of this.#lines) {
      const [, events, from] = naming.exec(line) ?? []
      if (from !== undefined) add(named, streamOf(Number(from)), Number(events))
    }
    const all = [...named.values()].reduce((sum, events) => sum + events, 0)
    const excess = [...named].flatMap(([stream, events]) => {
      const lost = this.#lost.get(stream) ?? 0
      return events > lost
        ? [`${events} events of stream ${stream} are named as lost, and ${lost} are lost: ${this.#all}`]
        : []
    })
    const isShown = ![...this.#lines].some((line) => line.startsWith(more))
    return isShown && gone > all ? [...excess, `${gone} events are lost, and ${all} are named: ${this.#all}`] : excess
  }

  get #all(): string {
    return [...this.#told, ...[...this.#lines].filter((line) => naming.test(line))].join("; ")
  }
}
