/** What was lost or can't be read, for all relays: the journal is red until a person acknowledges it. */
import { Effect } from "effect"
import type { Database } from "./Database.ts"

interface Raised {
  readonly lines: ReadonlyArray<string>
  /** Epoch milliseconds. */
  readonly since: number
}

const parsed = (text: string | null): Raised => (text === null ? { lines: [], since: 0 } : JSON.parse(text))

export class RedAlarm {
  readonly #db: Database
  readonly #now: () => number
  /** Lines that the database does not have yet. */
  #own: ReadonlyArray<string> = []

  constructor(db: Database, now: () => number) {
    this.#db = db
    this.#now = now
  }

  /** Each line once. */
  readonly raise = Effect.fnUntraced(function* (this: RedAlarm, line: string) {
    if (this.#own.includes(line)) return
    this.#own = [...this.#own, line]
    yield* Effect.retry(
      this.#db.transact((queries) =>
        Effect.gen({ self: this }, function* () {
          yield* queries.query("INSERT INTO meta VALUES ('alarm', $1) ON CONFLICT DO NOTHING", [
            JSON.stringify({ lines: [], since: this.#now() } satisfies Raised),
          ])
          const { rows } = yield* queries.query<{ value: string }>(
            "SELECT value FROM meta WHERE key = 'alarm' FOR UPDATE",
          )
          const { lines, since } = parsed(rows[0]?.value ?? null)
          if (lines.includes(line)) return
          yield* queries.query("UPDATE meta SET value = $1 WHERE key = 'alarm'", [
            JSON.stringify({ lines: [...lines, line], since } satisfies Raised),
          ])
        }),
      ),
      { times: 5 },
    ).pipe(Effect.ignore)
  })

  /** With those that the database had at the last beat. */
  lines(stored: string | null): ReadonlyArray<string> {
    return [...new Set([...parsed(stored).lines, ...this.#own])]
  }

  since(stored: string | null): number {
    return parsed(stored).since
  }

  get clear() {
    return Effect.map(this.#db.query("DELETE FROM meta WHERE key = 'alarm'"), () => {
      this.#own = []
    })
  }
}
