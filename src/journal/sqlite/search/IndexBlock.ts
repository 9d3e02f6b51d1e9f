/**
 * So many sequences of the log as columns: of each event its kind, and hashes
 * of its account and id. Ten bytes an event, read from one end to the other.
 */

import type { Kind, Match } from "../../EventMatch.ts"
import type { EventQuery } from "../../Journal.ts"
import { keyWidth, notDelivered } from "../CommitBatch.ts"
import { hashOf, indexFields } from "../Record.ts"

/** Sequences of a span: to read so many from the log takes a few milliseconds. */
export const size = 4096

export const numberOf = (sequence: number): number => Math.floor((sequence - 1) / size)
export const firstOf = (number: number): number => number * size + 1

/** The code of what is lost, pruned or damaged. */
const nothing = 0xffff

export interface Columns {
  /** Epoch milliseconds; both 0 when nothing of the span is there. */
  readonly receivedFrom: number
  readonly receivedTo: number
  /** By code. */
  readonly kinds: ReadonlyArray<Kind>
  /** The columns themselves: each is read only where it is asked for. */
  readonly kind: () => Uint16Array<ArrayBuffer>
  readonly account: () => Uint32Array<ArrayBuffer>
  readonly id: () => Uint32Array<ArrayBuffer>
}

/** A row of the log as it is stored. */
export interface LogRow {
  readonly first: number
  readonly count: number
  readonly receivedFrom: number
  readonly receivedTo: number
  readonly routes: string
  readonly keys: Uint8Array
  readonly bytes: Uint8Array
}

/** The number of something among those that came before it. */
class Numbers<A> {
  readonly known = new Map<A, number>()
  of(value: A): number {
    const found = this.known.get(value)
    if (found !== undefined) return found
    this.known.set(value, this.known.size)
    return this.known.size - 1
  }
}

type Sinks = ReadonlyArray<string>

const parsedRoutes = (text: string): ReadonlyArray<Sinks> => {
  try {
    return JSON.parse(text) as ReadonlyArray<Sinks>
  } catch {
    return []
  }
}

/** Makes the columns of a span from the rows that hold its sequences. */
export const make = (number: number, rows: Iterable<LogRow>): Columns => {
  const first = firstOf(number)
  const kind = new Uint16Array(size).fill(nothing)
  const account = new Uint32Array(size)
  const id = new Uint32Array(size)
  const kinds: Array<Kind> = []
  /** Codes by webhook and route, then by type: hashes in numbers, because this is asked for every event. */
  const codes = new Map<number, Map<number, number>>()
  const routeNumbers = new Numbers<string>()
  let receivedFrom = Number.MAX_SAFE_INTEGER
  let receivedTo = 0
  for (const row of rows) {
    receivedFrom = Math.min(receivedFrom, row.receivedFrom)
    receivedTo = Math.max(receivedTo, row.receivedTo)
    const routes = parsedRoutes(row.routes)
    const numbers = routes.map((sinks) => routeNumbers.of(JSON.stringify(sinks)))
    const keys = new DataView(row.keys.buffer, row.keys.byteOffset, row.keys.byteLength)
    indexFields(row.bytes, row.count, (index, head) => {
      const at = row.first + index - first
      const key = index * keyWidth + 12
      if (at < 0 || at >= size || key + 4 > keys.byteLength) return
      const route = keys.getUint32(key, true) & ~notDelivered
      const group = head.webhook * size + (numbers[route] ?? 0)
      const types = codes.get(group) ?? new Map<number, number>()
      if (types.size === 0) codes.set(group, types)
      let code = types.get(head.type)
      if (code === undefined) {
        const [type, webhook] = head.kind() ?? []
        if (type === undefined || webhook === undefined) return
        code = kinds.length
        types.set(head.type, code)
        kinds.push({ type, webhook, sinks: routes[route] ?? [] })
      }
      kind[at] = code
      account[at] = head.account
      id[at] = head.id
    })
  }
  return {
    receivedFrom: Math.min(receivedFrom, receivedTo),
    receivedTo,
    kinds,
    kind: () => kind,
    account: () => account,
    id: () => id,
  }
}

/** Sequences of a span that may match, from `highest` down. */
export const candidates = (
  number: number,
  columns: Columns,
  query: EventQuery,
  match: Match,
  highest: number,
): ReadonlyArray<number> => {
  const { since = 0, until = Number.POSITIVE_INFINITY } = query
  if (columns.receivedTo < since || columns.receivedFrom >= until) return []
  const matching = columns.kinds.map(match.kind)
  if (!matching.includes(true)) return []
  const ids = query.id === undefined ? undefined : columns.id()
  const id = hashOf(query.id ?? "")
  const accounts = query.account === undefined ? undefined : columns.account()
  const account = hashOf(query.account ?? "")
  let kind: Uint16Array | undefined
  const first = firstOf(number)
  const found: Array<number> = []
  for (let at = Math.min(highest - first, size - 1); at >= 0; at--) {
    if (ids !== undefined && ids[at] !== id) continue
    if (accounts !== undefined && accounts[at] !== account) continue
    kind ??= columns.kind()
    if (matching[kind[at] ?? nothing] === true) found.push(first + at)
  }
  return found
}
