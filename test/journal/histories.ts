/**
 * Histories by seed: events of several accounts that are delivered, fail, wait,
 * become dead letters, are replayed and dropped. Each event has markers of its
 * own in every string of its body, in its signature, its trace and its order key,
 * and in what receivers answer.
 */
import { Effect } from "effect"
import { type Event, quarantine } from "../../src/event/Event.ts"
import { quoting } from "../../src/event/Quoted.ts"
import type { Attempt } from "../../src/journal/DeliveryStatus.ts"
import { collect, type FoundEvent } from "../../src/journal/EventQuery.ts"
import type { JournalError } from "../../src/journal/JournalError.ts"
import type { WholeJournal } from "../../src/journal/JournalType.ts"
import { seeded } from "../lib/seeded.ts"
import { markerOf } from "./markers.ts"
import { event, retrying, settlement } from "./samples.ts"

export const lanes = ["lake", "audit", quarantine]
const routes = [["lake"], ["lake", "audit"], ["audit"], []]

const now = Date.now()

/** The id of the client that the events of an account name. */
export const clientOf = (accountId: string): string => `cli_${accountId}`

const made = (id: string, accountId: string, filler: number, isQuarantined: boolean): Event =>
  event(id, {
    accountId,
    receivedAt: now,
    signature: `sha256=${markerOf(id, "signature")}`,
    body: new TextEncoder().encode(
      JSON.stringify({
        ...{ id, name: markerOf(id), filler: "x".repeat(filler / 2), middle: [{ text: markerOf(id, "middle") }] },
        ...{ more: "y".repeat(filler / 2), end: markerOf(id, "end") },
        data: { object: { client_id: clientOf(accountId), name: markerOf(id, "object") } },
      }),
    ),
    trace: {
      traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
      tracestate: `v=${markerOf(id, "trace")}`,
    },
    ...(isQuarantined && { problem: `no route takes ${markerOf(id, "problem")}` }),
  })

/** All events of a journal, the oldest first, each with its body. */
export const allEvents = Effect.fnUntraced(function* (journal: WholeJournal) {
  const { events } = yield* collect({ after: "", limit: 10_000 }, journal.events)
  const found: Array<FoundEvent> = []
  for (const { sequence } of events) {
    found.push(...(yield* collect({ sequence, limit: 1 }, journal.events)).events)
  }
  return found
})

const failedOnce = ({
  event: { id },
}: FoundEvent): { readonly refunded: number; readonly failed: ReadonlyArray<Attempt> } => ({
  refunded: 0,
  failed: [
    {
      ...{ at: 5, reason: "DeliveryFailed", number: 1, took: 3 },
      message: `the sink answered 500${quoting(markerOf(id, "quoted"))}`,
      answer: markerOf(id, "answer"),
    },
  ],
})

/** Lets a lane settle all its pending events, each with a random outcome. Retries may end. */
const settle = Effect.fnUntraced(function* (journal: WholeJournal, lane: string, random: () => number) {
  const head = yield* journal.head
  const before = (yield* journal.lanes).find(({ name }) => name === lane)
  const at = { at: now, took: 7, code: 200 }
  const retry: Array<ReturnType<typeof retrying>> = []
  const deadLetter: Array<{ readonly sequence: number; readonly at: number } & ReturnType<typeof failedOnce>> = []
  const endRetry: Array<number> = []
  const late: Array<
    { readonly sequence: number; readonly attempts: number } & typeof at & ReturnType<typeof failedOnce>
  > = []
  const delivered: Array<{ readonly from: number; readonly to: number } & typeof at> = []
  for (const found of yield* allEvents(journal)) {
    const { sequence } = found
    const outcome = found.deliveries.find(({ sink }) => sink === lane)?.outcome
    const chance = random()
    const isDead = lane === quarantine || chance < 0.2
    if (outcome === "pending" && sequence <= head) {
      if (isDead) deadLetter.push({ sequence, at: now, ...failedOnce(found) })
      else if (chance < 0.4) {
        const key = markerOf(found.event.id, "key")
        retry.push({ ...retrying(sequence, key), due: now, ...failedOnce(found) })
      } else delivered.push({ from: sequence, to: sequence, ...at })
    } else if (outcome === "retrying" && chance < 0.6) {
      if (isDead) deadLetter.push({ sequence, at: now, ...failedOnce(found) })
      else {
        endRetry.push(sequence)
        late.push({ sequence, attempts: 3, ...at, ...failedOnce(found) })
      }
    }
  }
  const sequence = Math.max(head, before?.cursor.sequence ?? 0)
  yield* journal.settle([settlement(lane, sequence, { retry, deadLetter, endRetry, late, delivered })])
})

/** Plays a history of `steps` steps on the lanes above. Returns the events that were appended. */
export const play = Effect.fnUntraced(function* (
  journal: WholeJournal,
  seed: number,
  steps: number,
): Effect.fn.Return<ReadonlyArray<Event>, JournalError> {
  const random = seeded(seed)
  const appended: Array<Event> = []
  const pick = <A>(from: ReadonlyArray<A>): A | undefined => from[Math.floor(random() * from.length)]
  for (const lane of lanes) yield* journal.openLane(lane)
  for (let step = 0; step < steps; step++) {
    const chance = random()
    if (chance < 0.6) {
      const isQuarantined = random() < 0.1
      const filler = random() < 0.1 ? 90_000 : Math.floor(random() * 600)
      const one = made(`${seed}.${step}`, pick(["anna", "bert"]) ?? "anna", filler, isQuarantined)
      yield* journal.append(one, isQuarantined ? [quarantine] : (pick(routes) ?? []))
      appended.push(one)
    } else if (chance < 0.8) yield* settle(journal, pick(lanes) ?? "lake", random)
    else if (chance < 0.9) {
      const one = pick((yield* allEvents(journal)).filter(({ event }) => event.problem === undefined))
      if (one !== undefined)
        yield* journal.replay([{ sequence: one.sequence, sinks: [pick(["lake", "audit"]) ?? "lake"] }])
    } else {
      const letter = pick((yield* journal.deadLetters({ limit: 100 })).filter(({ lane }) => lane !== quarantine))
      if (letter === undefined) continue
      if (random() < 0.6) yield* journal.replayDeadLetters([letter.id])
      else yield* journal.dropDeadLetters([letter.id])
    }
  }
  return appended
})

/** Returns everything that readers can get from a journal. */
export const allThatIsRead = Effect.fnUntraced(function* (journal: WholeJournal) {
  const text = (body: Uint8Array | undefined) => Buffer.from(body ?? []).toString()
  const events = yield* allEvents(journal)
  const letters = yield* journal.deadLetters({ limit: 10_000 })
  const sequences = events.map(({ sequence }) => sequence)
  const retries = yield* Effect.forEach(lanes, (lane) => journal.readRetries(lane, sequences))
  const entries = yield* journal.read(0, 10_000)
  return JSON.stringify([
    events.map(({ body, ...event }) => [event, text(body)]),
    [...letters.map(({ entry }) => entry), ...retries.flatMap(({ entries }) => entries), ...entries].map(
      ({ event: { body, ...event } }) => [event, text(body)],
    ),
    letters.map(({ attempts }) => attempts),
  ])
})
