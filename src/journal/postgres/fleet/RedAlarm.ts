/**
 * Losses that no operator has acknowledged, for all relays. The journal is red until an operator acknowledges
 * them at one relay.
 *
 * **Guarantee.** A relay keeps the lines that it raised until the database reports them acknowledged. If a
 * failover loses the lines, the relay stores them again. The audit log gets each line in the transaction that
 * stores it.
 */
import { Effect, Schedule } from "effect"
import { lossRecord } from "../../AuditLog.ts"
import * as AlarmLines from "../../archive/AlarmLines.ts"
import { damagedLine } from "../../archive/AlarmLines.ts"
import { ranges } from "../../stream/DuplicateKey.ts"
import type { Database } from "../connection/Database.ts"
import type { Clocks } from "../connection/WriteTrouble.ts"
import * as AuditTable from "../tables/AuditTable.ts"
import type { KnownRows, Lost, OwnStream } from "../tables/KnownRows.ts"

/**
 * Events that can't be read back as they were written. A damaged row is searched event by event, and each damaged
 * range is one line of the alarm. Returns a function that raises each damaged event once, together with those found
 * at the same time.
 */
const raisingDamage = (raise: (lines: ReadonlyArray<string>) => Effect.Effect<void>) => {
  const known = new Set<number>()
  let found: Array<number> = []
  const raiseFound = Effect.suspend(() => {
    const lines = ranges(found.toSorted((a, b) => a - b)).map((range) => damagedLine(range))
    found = []
    return raise(lines)
  })
  return (sequence: number): Effect.Effect<void> =>
    Effect.suspend(() => {
      if (known.has(sequence)) return Effect.void
      known.add(sequence)
      return found.push(sequence) === 1 ? Effect.andThen(Effect.yieldNow, raiseFound) : Effect.void
    })
}

interface Raised {
  readonly lines: ReadonlyArray<string>
  /** Epoch milliseconds. */
  readonly since: number
  /** Number of acknowledgements. With it a relay distinguishes acknowledged lines from lines that a failover lost. */
  readonly cleared: number
}

/** A line that this relay has raised. */
interface Own {
  /** Epoch milliseconds. */
  readonly at: number
  /**
   * When the database stored it, in monotonic milliseconds, and the number of acknowledgements when it was last
   * seen there.
   */
  readonly stored?: { readonly at: number; readonly cleared: number }
}

const losses = (own: ReadonlyArray<readonly [string, Own]>) => own.map(([line, { at }]): AlarmLines.Loss => [line, at])

const nothing: Raised = { lines: [], since: 0, cleared: 0 }
const parsed = (text: string | null): Raised => (text === null ? nothing : JSON.parse(text))

/**
 * After a loss, sequences are assigned again and may be lost again. So each loss gets a line that differs from
 * all earlier ones.
 */
const lossLine = (shownLines: ReadonlySet<string>, { events, from, isPart }: Lost): string => {
  const line = `The database lost ${isPart ? "at least " : ""}${events} events that were answered, from seq_${from} on: it failed over to a server that did not have them, or went back to an earlier state. Those that had not been delivered by then never will be, unless the sender sends them again.`
  let text = line
  for (let times = 2; shownLines.has(text); times++) text = `${line} From there on events were lost ${times} times.`
  return text
}

/** The alarm of all relays, and the lines that this one adds. */
export interface RedAlarm extends ReturnType<typeof make> {}

/** `relay` is this relay's name. */
export const make = (db: Database, { wall, steady }: Clocks, relay: string) => {
  /** Lines that this relay has raised. An acknowledged line is not raised again. */
  const shownLines = new Set<string>()
  /** The lines that aren't known to be acknowledged. */
  const all = new Map<string, Own>()
  let clearedAt = Number.NEGATIVE_INFINITY

  const add = Effect.fnUntraced(function* (own: ReadonlyArray<readonly [string, Own]>) {
    const cleared = yield* db.transact((queries) =>
      Effect.gen(function* () {
        yield* queries.query("INSERT INTO meta VALUES ('alarm', $1) ON CONFLICT DO NOTHING", [JSON.stringify(nothing)])
        const { rows } = yield* queries.query<{ value: string }>(
          "SELECT value FROM meta WHERE key = 'alarm' FOR UPDATE",
        )
        const before = parsed(rows[0]?.value ?? null)
        const { lines, since, added } = AlarmLines.withLosses(before, losses(own))
        yield* AuditTable.putNew(
          queries,
          added.map(([line, at]) => ({ ...lossRecord(at, line), relay })),
        )
        yield* queries.query("UPDATE meta SET value = $1 WHERE key = 'alarm'", [
          JSON.stringify({ ...before, lines, since } satisfies Raised),
        ])
        return before.cleared
      }),
    )
    const stored = { at: steady(), cleared }
    for (const [line, { at }] of own) if (all.has(line)) all.set(line, { at, stored })
  })

  /** Stores the lines that the database lacks, if it answers. */
  const store: Effect.Effect<void> = Effect.suspend(() => {
    const own = [...all].filter(([, { stored }]) => stored === undefined)
    return own.length === 0 ? Effect.void : Effect.ignore(add(own))
  })

  /** Notes which of its own lines were acknowledged, and which a failover has lost. Returns the database's alarm. */
  const note = (value: string | null, askedAt: number): Raised => {
    const raised = askedAt > clearedAt ? parsed(value) : nothing
    const { lines, cleared } = raised
    for (const [line, { at, stored }] of all) {
      if (stored === undefined || stored.at >= askedAt) continue
      if (lines.includes(line) || lines.length > AlarmLines.maxLines)
        all.set(line, { at, stored: { ...stored, cleared } })
      else if (cleared > stored.cleared) all.delete(line)
      else all.set(line, { at })
    }
    return raised
  }

  /** Raises each line once, and keeps it until it is acknowledged. */
  const raise = (lines: ReadonlyArray<string>): Effect.Effect<void> =>
    Effect.suspend(() => {
      const added = lines.filter((line) => !shownLines.has(line))
      if (added.length === 0) return Effect.void
      for (const line of added) {
        shownLines.add(line)
        all.set(line, { at: wall() })
      }
      return store
    })

  return {
    /** Takes in the database's alarm at `askedAt`, in monotonic milliseconds, and stores the lines that it lacks. */
    heard: (value: string | null, askedAt: number): Effect.Effect<void> =>
      Effect.suspend(() => {
        note(value, askedAt)
        return store
      }),

    raiseDamaged: raisingDamage(raise),

    /** Raises the losses of known rows in a failover, once the database answers. */
    raiseLost: (known: KnownRows, own?: OwnStream): Effect.Effect<void> =>
      known.takeLost(db, own).pipe(
        Effect.retry(Schedule.spaced("1 second")),
        Effect.flatMap((lost) => (lost.events === 0 ? Effect.void : raise([lossLine(shownLines, lost)]))),
        Effect.ignore,
      ),

    /** Returns the alarm. `value` is the database's alarm at `askedAt`. */
    state: (value: string | null, askedAt: number): Pick<Raised, "lines" | "since"> => {
      return AlarmLines.withLosses(note(value, askedAt), losses([...all]))
    },

    /** Acknowledges the alarm. It ends at every relay with that relay's next heartbeat. */
    clear: Effect.suspend(() =>
      Effect.map(
        db.query(
          `INSERT INTO meta AS m VALUES ('alarm', $1) ON CONFLICT (key) DO UPDATE
           SET value = jsonb_set($1::jsonb, '{cleared}', to_jsonb((m.value::jsonb ->> 'cleared')::int + 1))::text`,
          [JSON.stringify({ ...nothing, cleared: 1 } satisfies Raised)],
        ),
        () => {
          all.clear()
          clearedAt = steady()
        },
      ),
    ),
  }
}
