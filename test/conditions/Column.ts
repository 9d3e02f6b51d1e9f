/**
 * The table of conditions: rows are conditions of every remote service, columns are sinks and other clients of the
 * relay. Each cell proves that the relay behaves under a condition, or says why the condition can't happen.
 *
 * How to write a column: a file in this folder with a name in lower case, which exports `column`. Nothing starts when
 * the file is loaded; each scenario starts its service and closes it. Shared files have names in upper case.
 *
 *     export const column: Column = {
 *       sink: "sqs",
 *       cells: {
 *         a: [play({ what: "…", start: async (place) => ({ sink, breaks, heals, arrived, close }), says: /…/ })],
 *         m: never("the protocol has no …", "https://…"),
 *       },
 *     }
 *
 * `play` (Play.ts) starts one relay with the sink `tested` and a healthy sink, and asserts all that a cell must.
 * A bound other than the usual one is stated in `bound`, with the reason. Scenarios marked `isQuick` end within three
 * seconds and are the short form of `.ci/run`: two or three in a column. A scenario that needs more than
 * `play` has its own `run`.
 *
 *     bun run conditions [--only sqs] [--only sqs.a] [--quick] [--binary dist/relay]
 */
import { readdirSync } from "node:fs"
import { join } from "node:path"
import type * as sinks from "../../src/sinks/Sinks.ts"
import type { Options } from "../faults/Line.ts"

export const rows = {
  a: "idle connections are dropped without FIN or RST",
  b: "the name's address changes",
  c: "credentials change at their source",
  d: "the target is away, is created again, or never existed",
  e: "the answer comes after the time-out",
  f: "a part is accepted",
  g: "refusals of every event, and of one event",
  h: "a success that is a failure, and the reverse",
  i: "the clock is wrong by two hours",
  j: "throttled, with and without a time",
  k: "several addresses, the first dead; IPv6 only",
  l: "the service restarts or loses its leader",
  m: "its certificate or TLS version changes",
  n: "an event of the largest accepted size",
} as const
export type Row = keyof typeof rows
export const rowNames = Object.keys(rows) as ReadonlyArray<Row>

export interface Scenario {
  /** A sentence that names the condition and the relay's reaction. */
  readonly what: string
  /** Part of the short form. */
  readonly isQuick?: true
  /** Why it can't run on this machine. */
  readonly lacking?: string | undefined
  /** Resolves to the violations, as sentences. */
  readonly run: (options: Options) => Promise<ReadonlyArray<string>>
}

/** The condition can't happen. */
export interface Statement {
  readonly never: string
  /** The document that says so. */
  readonly source: string
}

export type Cell = Statement | ReadonlyArray<Scenario>

export interface Column {
  /** The type of the sink; absent for a client that is not a sink. */
  readonly sink?: keyof typeof sinks
  readonly cells: Partial<Readonly<Record<Row, Cell>>>
}

export const never = (why: string, source: string): Statement => ({ never: why, source })

export const isStatement = (cell: Cell): cell is Statement => "never" in cell

/** The columns by their names. */
export const loadColumns = async (): Promise<ReadonlyMap<string, Column>> => {
  const files = readdirSync(import.meta.dir).filter((name) => /^[a-z][a-z0-9-]*\.ts$/.test(name) && name !== "main.ts")
  const found = new Map<string, Column>()
  for (const file of files.toSorted()) {
    const { column }: { readonly column: Column } = await import(join(import.meta.dir, file))
    found.set(file.slice(0, -".ts".length), column)
  }
  return found
}
