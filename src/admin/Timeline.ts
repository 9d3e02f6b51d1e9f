/**
 * Builds an event's history in chronological order: its receipt, each stored
 * attempt, its end at each sink, and its copies.
 */
import type { DeliveryStatus, FoundEvent } from "../journal/Archive.ts"
import type { Step } from "./Api.ts"

const seq = (sequence: number): string => `seq_${sequence}`

const byOf = (by: string | undefined): string => (by === undefined || by === "" ? "" : ` by ${by}`)

interface Measured {
  readonly took?: number
  readonly code?: number
}

const measuresOf = ({ took, code }: Measured): Measured => ({
  ...(took !== undefined && { took }),
  ...(code !== undefined && { code }),
})

/**
 * Formats the duration and response code of an attempt, such as ` (12 ms, answered
 * 422)`; empty if neither is known.
 */
export const measured = ({ took, code }: Measured = {}): string => {
  const parts = [...(took === undefined ? [] : [`${took} ms`]), ...(code === undefined ? [] : [`answered ${code}`])]
  return parts.length === 0 ? "" : ` (${parts.join(", ")})`
}

const ends = (delivery: DeliveryStatus, erasedAt: number | undefined): string | undefined => {
  const { outcome, tries, by, copy, to } = delivery
  switch (outcome) {
    case "delivered":
      return `delivered by attempt ${tries ?? 1}`
    case "dead":
      return "became a dead letter"
    case "dropped":
      // An erasure with `giveUp` drops and erases a pending event at the same time.
      return delivery.at === erasedAt ? `given up${byOf(by)}, to be erased` : `dropped${byOf(by)}`
    case "replayed":
      return copy === undefined
        ? `replayed${byOf(by)}; it had been received again`
        : `replayed as ${seq(copy)}${byOf(by)}`
    case "moved":
      return `moved to ${to ?? "another sink"}${copy === undefined ? "" : ` as ${seq(copy)}`}${byOf(by)}`
    case "laneRemoved":
      return `abandoned: the lane was removed${byOf(by)}`
    default:
      return undefined
  }
}

const atSink = (delivery: DeliveryStatus, erasedAt: number | undefined): ReadonlyArray<Step> => {
  const { sink, outcome, at, due, deadAt, attempts, replays = [] } = delivery
  const steps: Array<Step> = attempts.map(({ at, reason, message, ...attempt }, index) => ({
    at,
    sink,
    what:
      attempt.number === undefined && attempt.took === undefined
        ? `${reason}: ${message}`
        : `attempt ${attempt.number ?? index + 1} failed: ${message}`,
    attempt: { ...measuresOf(attempt), delivered: false },
  }))
  for (const { at, by, deadAt } of replays) {
    steps.push({ at: deadAt, sink, what: "became a dead letter" }, { at, sink, what: `replayed${byOf(by)}` })
  }
  if (deadAt !== undefined) steps.push({ at: deadAt, sink, what: "became a dead letter" })
  const end = ends(delivery, erasedAt)
  if (end !== undefined) {
    const attempt = outcome === "delivered" ? { attempt: { ...measuresOf(delivery), delivered: true } } : {}
    steps.push({ ...(at !== undefined && { at }), sink, what: end, ...attempt })
  }
  if (outcome === "retrying" && due !== undefined)
    steps.push({ at: due, sink, what: attempts.length === 0 ? "first attempt" : "next attempt" })
  if (outcome === "pending") steps.push({ sink, what: "waits for its first attempt" })
  if (outcome === "unrecorded") steps.push({ sink, what: "settled; how is not recorded" })
  return steps
}

/** Builds the steps. `routes` are the active routes that send the event to its sinks. */
export const timelineOf = (
  { event, origin, deliveries, copyOf, copies = [] }: FoundEvent,
  routes: ReadonlyArray<string> = [],
): ReadonlyArray<Step> => {
  const { receivedAt, webhook, secret, problem, erased } = event
  const verified = secret === "" ? "" : `, verified by the secret ${secret}`
  const copied = origin === "moved" ? "moved" : "replayed"
  const sinks = deliveries.map(({ sink }) => sink).join(", ")
  const by = routes.length === 0 ? "" : ` (the current routes: ${routes.join(", ")})`
  const steps: Array<Step> = [
    { at: receivedAt, what: `received by webhook ${webhook}${verified}` },
    ...(problem === undefined ? [] : [{ at: receivedAt, what: `quarantined: ${problem}` }]),
    ...(copyOf === undefined
      ? []
      : [{ at: copyOf.at, what: `${copied} from ${seq(copyOf.sequence)}${byOf(copyOf.by)}` }]),
    ...(copyOf === undefined && origin !== "delivered" ? [{ what: `${copied} from an event that is not kept` }] : []),
    { at: copyOf?.at ?? receivedAt, what: sinks === "" ? "no route matched" : `routed to ${sinks}${by}` },
    ...deliveries.flatMap((delivery) => atSink(delivery, erased?.at)),
    ...copies
      .filter(({ sequence }) => !deliveries.some(({ copy }) => copy === sequence))
      .map(({ sequence, at, by }) => ({ at, what: `replayed as ${seq(sequence)}${byOf(by)}` })),
    ...(erased === undefined ? [] : [{ at: erased.at, what: "erased: body, signature and answers are gone" }]),
  ]
  // A step without a time keeps its position, so a wait is the last step.
  const end = Number.POSITIVE_INFINITY
  return steps
    .map((step, index) => ({ step, at: step.at ?? (index === 0 ? 0 : end), index }))
    .sort((a, b) => (a.at === b.at ? a.index - b.index : a.at - b.at))
    .map(({ step }) => step)
}
