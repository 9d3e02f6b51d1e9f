/**
 * Losses that no person has acknowledged, for all relays: the journal is red
 * until one relay is told that they were seen.
 */
import { Effect, Schedule } from "effect"
import type { Database } from "../connection/Database.ts"
import type { KnownRows } from "../tables/KnownRows.ts"

interface Raised {
  readonly lines: ReadonlyArray<string>
  /** Epoch milliseconds. */
  readonly since: number
}

interface Own {
  /** Epoch milliseconds. */
  readonly at: number
  /** Steady milliseconds; `undefined` until the database has it. */
  readonly storedAt: number | undefined
}

const nothing: Raised = { lines: [], since: 0 }
const parsed = (text: string | null): Raised => (text === null ? nothing : JSON.parse(text))

export interface Clocks {
  readonly wall: () => number
  /** The one by which signs of life are timed. */
  readonly steady: () => number
}

export class RedAlarm {
  readonly #db: Database
  readonly #clocks: Clocks
  /** Lines that this relay has raised: one that a person acknowledged is not raised again. */
  readonly #said = new Set<string>()
  /** Own lines that the last heartbeat may not have seen in the database. */
  readonly #own = new Map<string, Own>()
  #clearedAt = Number.NEGATIVE_INFINITY

  constructor(db: Database, clocks: Clocks) {
    this.#db = db
    this.#clocks = clocks
  }

  /** Raises each line once, and keeps it until the database takes it. */
  readonly raise = Effect.fnUntraced(function* (this: RedAlarm, line: string) {
    if (this.#said.has(line)) return
    this.#said.add(line)
    this.#own.set(line, { at: this.#clocks.wall(), storedAt: undefined })
    yield* this.store
  })

  raiseDamaged(sequence: number) {
    return this.raise(
      `Event ${sequence} can't be read as it was written: it is not delivered; the sender may send it again.`,
    )
  }

  /** Says what a failover lost of known rows; with the `floor` of a stream that this relay alone wrote, all of it. */
  raiseMissing(known: KnownRows, floor?: number): Effect.Effect<void> {
    const asked = Effect.retry(known.takeMissing(this.#db, floor), {
      times: 10,
      schedule: Schedule.spaced("1 second"),
    })
    return Effect.ignore(
      Effect.flatMap(asked, ({ events, from, isAll }) =>
        events === 0
          ? Effect.void
          : this.raise(
              `The database lost ${isAll ? "at least " : ""}${events} events that were answered, from seq_${from} on, by a failover to a server that did not have them. Those that had not been delivered by then never will be, unless the sender sends them again.`,
            ),
      ),
    )
  }

  /** Stores the lines that the database does not have yet, where it answers. */
  get store(): Effect.Effect<void> {
    return Effect.suspend(() => {
      const own = [...this.#own].filter(([, { storedAt }]) => storedAt === undefined)
      return own.length === 0 ? Effect.void : Effect.ignore(this.#add(own))
    })
  }

  readonly #add = Effect.fnUntraced(function* (this: RedAlarm, own: ReadonlyArray<readonly [string, Own]>) {
    const since = Math.min(...own.map(([, { at }]) => at))
    yield* this.#db.transact((queries) =>
      Effect.gen(function* () {
        yield* queries.query("INSERT INTO meta VALUES ('alarm', $1) ON CONFLICT DO NOTHING", [
          JSON.stringify({ lines: [], since } satisfies Raised),
        ])
        const { rows } = yield* queries.query<{ value: string }>(
          "SELECT value FROM meta WHERE key = 'alarm' FOR UPDATE",
        )
        const before = parsed(rows[0]?.value ?? null)
        const lines = [...new Set([...before.lines, ...own.map(([line]) => line)])]
        yield* queries.query("UPDATE meta SET value = $1 WHERE key = 'alarm'", [
          JSON.stringify({ ...before, lines } satisfies Raised),
        ])
      }),
    )
    const storedAt = this.#clocks.steady()
    for (const [line, { at }] of own) if (this.#own.has(line)) this.#own.set(line, { at, storedAt })
  })

  /** The alarm: `stored` is what the database said when it was asked at `askedAt`, in steady milliseconds. */
  state(stored: string | null, askedAt: number): Raised {
    const { lines, since } = askedAt > this.#clearedAt ? parsed(stored) : nothing
    const own = [...this.#own].filter(([, { storedAt }]) => storedAt === undefined || storedAt >= askedAt)
    return {
      lines: [...new Set([...lines, ...own.map(([line]) => line)])],
      since: since > 0 ? since : (own[0]?.[1].at ?? 0),
    }
  }

  /** A person has seen it: it ends at every relay with that relay's next sign of life. */
  get clear() {
    return Effect.map(this.#db.query("DELETE FROM meta WHERE key = 'alarm'"), () => {
      this.#own.clear()
      this.#clearedAt = this.#clocks.steady()
    })
  }
}
