/** The oracle's records: bodies, their outcomes, and the history that a failing seed prints. */
import type { Event } from "../../../src/event/Event.ts"

/** One append of a body to the journal. */
export interface Sending {
  readonly sinks: ReadonlyArray<string>
  readonly at: number
  readonly life: number
  state: "open" | "refused" | "appended" | "duplicate"
}

/** A body that somebody sent, or that the relay made. */
export interface Known {
  readonly name: string
  readonly event: Event
  readonly sendings: Array<Sending>
  /** The sinks that an acknowledgement promised it to. */
  readonly promised: Set<string>
  /** Other bodies under its id that were remembered when it was kept. */
  readonly namesakes: Set<Known>
}

/** A sink's receipt of one sequence. */
export interface Receipt {
  readonly known: Known
  readonly firstSentAt: number
  readonly firstLife: number
  sends: number
  applied: number
  rejected: boolean
  /** The sink's last answer. `open` while there is none, and for ever if a crash came first. */
  answer: "open" | "taken" | "not taken"
  /** The life of the last answer or attempt. */
  life: number
  /** A settlement that holds its end is on disk. */
  stored: boolean
}

/** The part of a sink's config that the oracle needs. */
export interface Rules {
  readonly order: boolean
  /** `undefined` until the relay has said it. */
  readonly bound: number | undefined
  readonly maxAttempts: number
  readonly maxAge: number
  readonly givesUp: boolean
  /** Whether no key can be made of an event. */
  readonly unrenderable: (event: Event) => boolean
}

export interface Verdict {
  readonly acknowledged: number
  readonly lost: number
  readonly duplicates: number
  readonly bound: number
  /** Steps of all its lives' event loops. */
  readonly steps: number
  /** Empty when all held; else the first broken rule and the history of its event. */
  readonly broken: ReadonlyArray<string>
}

interface Note {
  readonly at: number
  readonly text: string
  readonly known: Known | undefined
}

/** Lines of history that a failing seed prints. */
const shown = 40

export class History {
  life = 0
  /** Monotonic milliseconds of the world that lives. */
  now: () => number = () => 0
  broken: string | undefined
  readonly #notes: Array<Note> = []

  note(text: string, known?: Known): void {
    this.#notes.push({ at: this.now(), text, known })
  }

  /** A rule is broken: only the first is reported. */
  fail(rule: string, known?: Known): void {
    if (this.broken !== undefined) return
    const reported = this.#notes.filter((note) => note.known === undefined || note.known === known)
    const lines = reported.slice(-shown).map(({ at, text }) => `    ${at.toFixed(1).padStart(9)} ms  ${text}`)
    this.broken = [`${rule}${known === undefined ? "" : ` (${known.name})`}`, ...lines].join("\n")
  }
}
