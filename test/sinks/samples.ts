/** Entries as the journal gives them to sinks, and the reasons of failed sends. */
import { Cause, Effect, Exit } from "effect"
import type { Entry, Event } from "../../src/event/Event.ts"
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

/** The reason of a failed effect, or `undefined` if it succeeds. Failures other than a `SinkError` are rethrown. */
export const reasonOf = <A>(effect: Effect.Effect<A, SinkError>): Effect.Effect<Reason | undefined> =>
  Effect.flatMap(Effect.exit(effect), (exit) => {
    if (Exit.isSuccess(exit)) return Effect.succeed(undefined)
    const error = Cause.findErrorOption(exit.cause)
    return error._tag === "Some"
      ? Effect.succeed(error.value.reason)
      : Effect.failCause(exit.cause as Cause.Cause<never>)
  })
