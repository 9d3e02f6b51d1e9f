/**
 * An attack: the hostile act, the required outcome for its target, and the work that must continue meanwhile.
 *
 * A failing case is reported with its observations. Every case checks the work that must continue: honest events to
 * another sink and to the same sink, the relay's health, and its log, which must not contain a stack.
 */
import { sign } from "../../lib/kit.ts"
import { eventually } from "../relay/Subject.ts"
import { secret } from "../relay/Traffic.ts"

/** Required outcome of a hostile event. */
export type Fate =
  /** At its sink, within its deadline. */
  | { readonly delivered: true }
  /** In the sink's dead letters; the last attempt's message says why. */
  | { readonly dead: RegExp }
  /** Delivered or a dead letter: either is an end. */
  | { readonly settled: true }
  /** In quarantine, with this problem. */
  | { readonly quarantined: RegExp }
  /** Never accepted. */
  | { readonly refused: number }

export const delivered: Fate = { delivered: true }
export const settled: Fate = { settled: true }
export const dead = (why: RegExp): Fate => ({ dead: why })
export const quarantined = (why: RegExp): Fate => ({ quarantined: why })
export const refused = (status: number): Fate => ({ refused: status })

export const signed = (body: string | Uint8Array): string => sign(body, secret)

/** Sends a signed body; the status, `undefined` when no answer came. */
export const deliver = async (
  url: string,
  body: string | Uint8Array,
  headers: Readonly<Record<string, string>> = {},
): Promise<number | undefined> => {
  try {
    const response = await fetch(url, {
      method: "POST",
      body: body as Uint8Array<ArrayBuffer> | string,
      headers: { "content-type": "application/json", "x-service-signature": signed(body), ...headers },
    })
    await response.arrayBuffer()
    return response.status
  } catch {
    return undefined
  }
}

/** Like `eventually`, but returns the value that `look` found, or `undefined`. */
export const found = async <A>(look: () => A | undefined | Promise<A | undefined>, seconds: number) => {
  let result: A | undefined
  await eventually(
    async () => {
      result = await look()
      return result !== undefined
    },
    seconds,
    40,
  )
  return result
}

/** Returns lines that a log must not contain unless a case expects them: stacks and internal errors. */
export const troubles = (log: string): ReadonlyArray<string> => {
  const lines = log.split("\n")
  const odd = lines.filter((line) => /^\s+at .+[:(]|internal error|RangeError|TypeError|Unhandled/.test(line))
  return [...new Set(odd.map((line) => line.trim().slice(0, 200)))].slice(0, 3)
}

/** Works through all items, `atOnce` at a time. */
export const inTurns = async <A>(all: Iterable<A>, atOnce: number, work: (item: A) => Promise<void>): Promise<void> => {
  const next = all[Symbol.iterator]()
  const worker = async () => {
    for (let item = next.next(); item.done !== true; item = next.next()) await work(item.value)
  }
  await Promise.all(Array.from({ length: atOnce }, worker))
}
