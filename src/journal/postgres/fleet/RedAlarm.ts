/**
 * Losses that no person has acknowledged, for all relays: the journal is red
 * until one relay is told that they were seen.
 */
import { Effect, Schedule } from "effect"
import type { Database } from "../connection/Database.ts"
import type { KnownRows, OwnStream } from "../tables/KnownRows.ts"

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

/** The alarm of all relays, and the lines that this one adds. */
export interface RedAlarm extends ReturnType<typeof make> {}

export const make = (db: Database, { wall, steady }: Clocks) => {
  /** Lines that this relay has raised: one that a person acknowledged is not raised again. */
  const said = new Set<string>()
  /** Own lines that the last heartbeat may not have seen in the database. */
  const all = new Map<string, Own>()
  let clearedAt = Number.NEGATIVE_INFINITY

  const add = Effect.fnUntraced(function* (own: ReadonlyArray<readonly [string, Own]>) {
    const since = Math.min(...own.map(([, { at }]) => at))
    yield* db.transact((queries) =>
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
    const storedAt = steady()
    for (const [line, { at }] of own) if (all.has(line)) all.set(line, { at, storedAt })
  })

  /** Stores the lines that the database does not have yet, where it answers. */
  const store: Effect.Effect<void> = Effect.suspend(() => {
    const own = [...all].filter(([, { storedAt }]) => storedAt === undefined)
    return own.length === 0 ? Effect.void : Effect.ignore(add(own))
  })

  /** Raises each line once, and keeps it until the database takes it. */
  const raise = (line: string): Effect.Effect<void> =>
    Effect.suspend(() => {
      if (said.has(line)) return Effect.void
      said.add(line)
      all.set(line, { at: wall(), storedAt: undefined })
      return store
    })

  return {
    store,
    raiseDamaged: (sequence: number) =>
      raise(`Event ${sequence} can't be read as it was written: it is not delivered; the sender may send it again.`),

    /** Says what a failover lost of known rows, once the database answers. */
    raiseLost: (known: KnownRows, own?: OwnStream): Effect.Effect<void> =>
      known.takeLost(db, own).pipe(
        Effect.retry(Schedule.spaced("1 second")),
        Effect.flatMap(({ events, from, isPart }) =>
          events === 0
            ? Effect.void
            : raise(
                `The database lost ${isPart ? "at least " : ""}${events} events that were answered, from seq_${from} on, by a failover to a server that did not have them. Those that had not been delivered by then never will be, unless the sender sends them again.`,
              ),
        ),
        Effect.ignore,
      ),

    /** The alarm: `stored` is what the database said when it was asked at `askedAt`, in steady milliseconds. */
    state: (stored: string | null, askedAt: number): Raised => {
      const { lines, since } = askedAt > clearedAt ? parsed(stored) : nothing
      const own = [...all].filter(([, { storedAt }]) => storedAt === undefined || storedAt >= askedAt)
      return {
        lines: [...new Set([...lines, ...own.map(([line]) => line)])],
        since: since > 0 ? since : (own[0]?.[1].at ?? 0),
      }
    },

    /** A person has seen it: it ends at every relay with that relay's next sign of life. */
    clear: Effect.suspend(() =>
      Effect.map(db.query("DELETE FROM meta WHERE key = 'alarm'"), () => {
        all.clear()
        clearedAt = steady()
      }),
    ),
  }
}
