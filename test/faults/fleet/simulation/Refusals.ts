/**
 * Refusals of the database, or of a proxy before it, for one machine: statements
 * on a table, new connections, idle connections, and text.
 */
import type { Params, Use } from "../../../../src/journal/postgres/connection/Database.ts"
import { type DatabaseError, databaseError } from "../../../../src/journal/postgres/connection/DatabaseError.ts"
import type { Draw } from "../../simulation/Draw.ts"

/** In the message of each refusal of a statement on a table. */
export const deniedTable = "the database refuses statements on"
/** In the message of each refusal of text. */
export const deniedText = "the database can't hold"
/** An account that the database can't hold. */
export const unheldAccount = "acct_日本"

const codes = {
  /** The user lacks a right, a page is damaged, no transaction number is left. */
  "42501": "misconfigured",
  XX001: "failed",
  "54000": "failed",
  /** A deadlock, a lock that wasn't free in time, a statement that an operator cancelled, a server that is read-only. */
  "40P01": "conflict",
  "55P03": "conflict",
  "57014": "unavailable",
  "25006": "unavailable",
  /** Its disk is full. */
  "53100": "unavailable",
} as const satisfies Readonly<Record<string, DatabaseError["reason"]>>
type Code = keyof typeof codes
const allCodes = Object.keys(codes) as [Code, ...Array<Code>]

const tables = [
  "seen",
  "log",
  "stream",
  "progress",
  "retry",
  "dead",
  "ended",
  "outcome",
  "pruned",
  "imported",
  "audit",
  "hour",
  "sink",
  "meta",
  "member",
] as const

const uses = ["append", "beat", "work"] as const

export type Refusal =
  | {
      readonly kind: "table"
      readonly table: (typeof tables)[number]
      readonly code: Code
      /** Statements that only read the table are done. */
      readonly isOfWrites: boolean
    }
  /** `max_connections` is reached: others have the connections that the relay had for these uses. */
  | { readonly kind: "connections"; readonly of: ReadonlyArray<Use> }
  /** A proxy drops connections that were idle for longer than this. */
  | { readonly kind: "idle"; readonly millis: number }

export const drawRefusal = (draw: Draw): Refusal => {
  const what = draw.next()
  if (what < 0.6) {
    const table = what < 0.3 ? draw.pick(["seen", "log"] as const) : draw.pick(tables)
    return { kind: "table", table, code: draw.pick(allCodes), isOfWrites: draw.chance(0.7) }
  }
  if (what < 0.8) return { kind: "connections", of: uses.filter(() => draw.chance(0.6)) }
  return { kind: "idle", millis: draw.int(100, 1_500) }
}

/** A shared append writes to these tables, and may write to the last. */
const ofShared = new Set(["seen", "log", "stream", "progress"])

const isOn = (sql: string, table: string, isOfWrites: boolean): boolean => {
  if (sql.includes("append_shared(")) return ofShared.has(table)
  return new RegExp(`\\b(${isOfWrites ? "INTO|UPDATE|DELETE FROM" : "INTO|UPDATE|FROM|JOIN"}) ${table}\\b`).test(sql)
}

const noConnection = databaseError("unavailable", "simulated: the server has no connection left (53300)", {
  code: "53300",
})
const dropped = databaseError("unavailable", "simulated: a proxy dropped the connection", { isLost: true })
const unheld = databaseError("failed", `simulated: ${deniedText} a character (22P05)`, { code: "22P05" })

/** Returns the error of a question, or `undefined`. The last question of its use was `idle` milliseconds before. */
export const refusalOf = (
  refusal: Refusal | undefined,
  use: Use,
  sql: string,
  idle: number,
): DatabaseError | undefined => {
  switch (refusal?.kind) {
    case "table": {
      const { table, code, isOfWrites } = refusal
      if (!isOn(sql, table, isOfWrites)) return undefined
      return databaseError(codes[code], `simulated: ${deniedTable} ${table} (${code})`, { code })
    }
    case "connections":
      return refusal.of.includes(use) ? noConnection : undefined
    case "idle":
      return idle > refusal.millis ? dropped : undefined
    default:
      return undefined
  }
}

/** The database's error if it can't hold the values of a statement. */
export const textRefusal = (params: Params = []): DatabaseError | undefined => {
  const isUnheld = (value: unknown): boolean =>
    value instanceof Uint8Array && Buffer.from(value.buffer, value.byteOffset, value.length).includes(unheldAccount)
  return params.some(isUnheld) ? unheld : undefined
}
