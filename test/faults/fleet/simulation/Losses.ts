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

interface Range {
  readonly stream: number
  readonly from: number
  readonly events: number
  /** How often the stream had lost events when a relay was first heard to name these. */
  readonly losses: number
}

/** Counts the sequences that the ranges cover. */
const covered = (ranges: ReadonlyArray<Range>): number => {
  let [count, end] = [0, 0]
  for (const { from, events } of ranges.toSorted((a, b) => a.from - b.from)) {
    count += Math.max(0, from + events - Math.max(from, end))
    end = Math.max(end, from + events)
  }
  return count
}

const add = (counts: Map<number, number>, stream: number, count: number): void => {
  counts.set(stream, (counts.get(stream) ?? 0) + count)
}

export class Losses {
  readonly #lost = new Map<number, number>()
  /** Each loss in words, for the report. */
  readonly #told: Array<string> = []
  /** How often each stream lost events. */
  readonly #times = new Map<number, number>()
  /** The lines of alarms, with the events that they name as lost. */
  readonly #lines = new Map<string, Range | undefined>()

  add({ before, after }: Loss): void {
    for (const [stream, accepted] of before) {
      const left = after.get(stream) ?? 0
      add(this.#lost, stream, Math.max(0, accepted - left))
      if (accepted > left) add(this.#times, stream, 1)
      this.#told.push(`stream ${stream} from ${accepted} to ${left}`)
    }
  }

  hear(lines: Iterable<string>): void {
    for (const line of lines) if (!this.#lines.has(line)) this.#lines.set(line, this.#rangeIn(line))
  }

  #rangeIn(line: string): Range | undefined {
    const [, events, from] = (naming.exec(line) ?? []).map(Number)
    if (from === undefined || events === undefined) return undefined
    const stream = streamOf(from)
    return { stream, from, events, losses: this.#times.get(stream) ?? 0 }
  }

  /**
   * `gone`: events that relays acknowledged, that the database lacks, and that a relay must name. If a relay was out
   * of touch while another took its stream over, both name the events that it had stored. They count once.
   */
  untrue(gone: number): ReadonlyArray<string> {
    const named = [...this.#lines.values()].filter((range) => range !== undefined)
    const all = named.reduce((sum, { events }) => sum + events, 0)
    const once = new Map<number, number>()
    for (const ranges of Map.groupBy(named, ({ losses, stream }) => `${losses} ${stream}`).values()) {
      add(once, ranges[0]?.stream ?? 0, covered(ranges))
    }
    const excess = [...once].flatMap(([stream, events]) => {
      const lost = this.#lost.get(stream) ?? 0
      return events > lost
        ? [`${events} events of stream ${stream} are named as lost, and ${lost} are lost: ${this.#all}`]
        : []
    })
    const isShown = ![...this.#lines.keys()].some((line) => line.startsWith(more))
    return isShown && gone > all ? [...excess, `${gone} events are lost, and ${all} are named: ${this.#all}`] : excess
  }

  get #all(): string {
    return [...this.#told, ...[...this.#lines.keys()].filter((line) => naming.test(line))].join("; ")
  }
}
