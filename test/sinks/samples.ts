/** Entries for sinks: typed ones as the journal gives them, and bodies that no line or string can hold. */
import { Cause, Effect, Exit } from "effect"
import type { Event } from "../../src/event/Event.ts"
import type { Entry } from "../../src/journal/Journal.ts"
import type { Reason, SinkError } from "../../src/sinks/Sink.ts"

export const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)

export const envelope = (sequence: number, object: unknown = { id: `apt_${sequence}` }) => ({
  id: `evt_${sequence}`,
  account_id: "acct_1",
  version: "1",
  created_at: "2026-11-21T08:00:00Z",
  data: { type: "appointment.created", object },
})

export const entry = (sequence: number, event: Partial<Event> = {}): Entry => ({
  sequence,
  sinks: ["audit"],
  replayed: false,
  event: {
    id: `evt_${sequence}`,
    type: "appointment.created",
    accountId: "acct_1",
    webhook: "scheduling",
    webhookId: "wh_1",
    signature: `sha256=${"AB".repeat(32)}`,
    secret: "now",
    receivedAt: Date.UTC(2026, 10, 21, 8, 0, sequence % 60),
    body: bytes(JSON.stringify(envelope(sequence))),
    ...event,
  },
})

export const entries = (count: number, from = 1): ReadonlyArray<Entry> =>
  Array.from({ length: count }, (_, index) => entry(from + index))

/** What is signed but no envelope has no id and no type; the journal keeps it all the same. */
const undecodable = (body: Uint8Array): Partial<Event> => ({ id: "", type: "", accountId: "", body })

/** Bodies that something on the way likes to change, by what is odd about them. */
export const awkward: Readonly<Record<string, Partial<Event>>> = {
  "a byte order mark": undecodable(bytes(`\ufeff${JSON.stringify(envelope(1))}`)),
  "invalid UTF-8": undecodable(Uint8Array.of(0x7b, 0xff, 0xfe, 0xc3, 0x28, 0x7d)),
  "NUL bytes": undecodable(Uint8Array.of(0, 0x7b, 0, 0x7d, 0)),
  "line breaks": { body: bytes(JSON.stringify(envelope(1), null, 2)) },
  "carriage returns": { body: bytes(JSON.stringify(envelope(1), null, 1).replaceAll("\n", "\r")) },
  "a line separator of Unicode": { body: bytes(JSON.stringify(envelope(1, { text: "a\u2028b\u2029c" }))) },
  "the beginning of a marked line": { body: bytes(`{"relay_base64":"AAAA",${JSON.stringify(envelope(1)).slice(1)}`) },
  "no bytes at all": undecodable(new Uint8Array()),
  "a mebibyte": { body: bytes(JSON.stringify(envelope(1, { text: "x".repeat(1024 * 1024) }))) },
}

/** The reason an effect fails with; `undefined` when it succeeds. Anything else than a `SinkError` is thrown on. */
export const reasonOf = <A>(effect: Effect.Effect<A, SinkError>): Effect.Effect<Reason | undefined> =>
  Effect.flatMap(Effect.exit(effect), (exit) => {
    if (Exit.isSuccess(exit)) return Effect.succeed(undefined)
    const error = Cause.findErrorOption(exit.cause)
    return error._tag === "Some"
      ? Effect.succeed(error.value.reason)
      : Effect.failCause(exit.cause as Cause.Cause<never>)
  })

/** The bodies that lines of NDJSON stand for. */
export const bodiesOf = (text: Uint8Array): ReadonlyArray<Uint8Array> => {
  const lines = Buffer.from(text)
  const bodies: Array<Uint8Array> = []
  for (let at = 0; at < lines.length; ) {
    const end = lines.indexOf(0x0a, at)
    if (end === -1) throw new Error("the last line is not whole")
    const line = lines.subarray(at, end)
    const marked = line.subarray(0, 17).toString() === '{"relay_base64":"'
    bodies.push(marked ? Buffer.from(JSON.parse(line.toString()).relay_base64, "base64") : line)
    at = end + 1
  }
  return bodies
}
