/**
 * The report of `explain` on an event. Its sinks were chosen when it was accepted.
 * Routes and payloads are evaluated now, by the active config.
 */
import { Option, Result, Struct } from "effect"
import type { LaneConfig, RelayConfig } from "../../config/Config.ts"
import type { LaneStatus } from "../../delivery/LaneStatus.ts"
import { ownWebhook } from "../../delivery/RelayEvents.ts"
import { fields as clientFields } from "../../enrichment/Clients.ts"
import * as Envelope from "../../event/Envelope.ts"
import { type Entry, type Erased, quarantine } from "../../event/Event.ts"
import * as Numbers from "../../event/Numbers.ts"
import type { EpochMillis } from "../../event/Quantities.ts"
import { mask } from "../../event/Quoted.ts"
import { count, duration, instant } from "../../formats/Texts.ts"
import type { DeliveryStatus, FoundEvent } from "../../journal/Archive.ts"
import type { AuditRecord } from "../../journal/AuditLog.ts"
import { takes } from "../../routing/Explanation.ts"
import * as Router from "../../routing/Router.ts"
import { masked, type Preview } from "../../sinks/Sink.ts"
import { sinkTypes } from "../../sinks/SinkTypes.ts"
import { isCollected } from "../status/RelayStatus.ts"
import type { Event, EventReport, Step } from "./EventApi.ts"

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
 * Says how long after its acceptance an event was delivered, and how the time was spent:
 * `, 4 min after its acceptance: 4 min before the first attempt, 1.2 s in 2 attempts, 2.0 s between them`.
 * Empty below a second.
 */
const timeSpent = ({ attempts, at, took, tries = 1 }: DeliveryStatus, acceptedAt: EpochMillis): string => {
  const total = (at ?? acceptedAt) - acceptedAt
  if (total < 1_000) return ""
  const after = `, ${duration(total)} after its acceptance`
  const all = [...attempts.map((attempt) => [attempt.at, attempt.took] as const), [at, took] as const]
  const measured = all.flatMap(([, took]) => took ?? [])
  // Not all attempts are kept.
  if (measured.length < all.length || all.length !== tries) return after
  const [[firstAt = 0, firstTook = 0] = []] = all
  const before = Math.max(0, firstAt - firstTook - acceptedAt)
  const trying = measured.reduce((sum, took) => sum + took, 0)
  const between = tries === 1 ? "" : `, ${duration(Math.max(0, total - before - trying))} between them`
  return `${after}: ${duration(before)} before the first attempt, ${duration(trying)} in ${count(tries, "attempt")}${between}`
}

const ends = (delivery: DeliveryStatus, acceptedAt: EpochMillis, erasedAt: number | undefined): string | undefined => {
  const { outcome, tries, by, copy, to, alert } = delivery
  switch (outcome) {
    case "delivered":
      return `delivered by attempt ${tries ?? 1}${timeSpent(delivery, acceptedAt)}`
    case "dead":
      return "became a dead letter"
    case "counted":
      return alert === undefined ? "counted in an alert" : `counted in the alert of ${seq(alert)}, without a message`
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

const atSink = (
  delivery: DeliveryStatus,
  acceptedAt: EpochMillis,
  erasedAt: number | undefined,
): ReadonlyArray<Step> => {
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
  const end = ends(delivery, acceptedAt, erasedAt)
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

const pauseSteps = { "lanes pause": "paused", "lanes resume": "resumed" } as const
const isPause = (what: string): what is keyof typeof pauseSteps => Object.hasOwn(pauseSteps, what)

/** The steps of the pauses between an event's acceptance and its end at a sink. */
const pausesOf = (
  { sink, at: endedAt = Number.POSITIVE_INFINITY }: DeliveryStatus,
  acceptedAt: EpochMillis,
  operations: ReadonlyArray<AuditRecord>,
): ReadonlyArray<Step> =>
  operations.flatMap(({ at, who, by, what, on, result }) => {
    const isMeant = on === sink && result === "done" && at >= acceptedAt && at <= endedAt
    return isMeant && isPause(what) ? [{ at, sink, what: `${pauseSteps[what]} by ${who} (${by})` }] : []
  })

interface Circumstances {
  /** The active routes that send the event to its sinks. */
  readonly routes?: ReadonlyArray<string>
  /** The audit log since the event was received. */
  readonly operations?: ReadonlyArray<AuditRecord>
}

/**
 * Builds an event's history in chronological order: its receipt, each stored attempt, the pauses of its sinks, its end
 * at each sink, and its copies.
 */
export const timelineOf = (
  { event, origin, deliveries, copyOf, copies = [] }: FoundEvent,
  { routes = [], operations = [] }: Circumstances = {},
): ReadonlyArray<Step> => {
  const { receivedAt, webhook, secret, problem, erased } = event
  const acceptedAt = copyOf?.at ?? receivedAt
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
    { at: acceptedAt, what: sinks === "" ? "no route matched" : `routed to ${sinks}${by}` },
    ...deliveries.flatMap((delivery) => [
      ...pausesOf(delivery, acceptedAt, operations),
      ...atSink(delivery, acceptedAt, erased?.at),
    ]),
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

type Attempts = DeliveryStatus["attempts"]

/** An answer may repeat the payload, so it is shown only together with payloads. Removes the answers, for lists. */
export const withoutAnswers = (attempts: Attempts): Attempts => attempts.map(({ answer: _, ...attempt }) => attempt)

/** Masks the answers, for one event whose personal data is masked. */
const withMaskedAnswers = (attempts: Attempts): Attempts =>
  attempts.map((attempt) => (attempt.answer === undefined ? attempt : { ...attempt, answer: mask }))

/** Masks the client's details. */
const withMaskedClient = (body: Uint8Array): Uint8Array => {
  const envelope = Result.getOrUndefined(Envelope.decode(body, Numbers.parse))
  const client = Object.fromEntries(clientFields.map((field) => [field, masked]))
  return envelope === undefined ? body : new TextEncoder().encode(JSON.stringify({ ...envelope, client }))
}

/**
 * Renders the payload that a sink would receive, without sending it. Returns `undefined` if
 * the sink's type has no preview.
 */
export const render = (
  { type, config, enrich }: LaneConfig,
  entry: Entry,
): Preview | ReadonlyArray<Preview> | undefined => {
  const { event } = entry
  const shown =
    enrich === undefined || event.foreign !== undefined
      ? entry
      : { ...entry, event: { ...event, body: withMaskedClient(event.body) } }
  const previews = sinkTypes[type]?.preview(config, [shown])
  return previews?.length === 1 ? previews[0] : previews
}

const collectingOf = (delivery: DeliveryStatus, { sinks }: RelayConfig): Pick<Event["sinks"][number], "collecting"> =>
  isCollected(delivery, sinks) ? { collecting: true } : {}

export const eventOf = (found: FoundEvent, config: RelayConfig, circumstances?: Circumstances): Event => {
  const { sequence, origin, event, deliveries, copyOf, copies } = found
  return {
    sequence,
    origin,
    ...Struct.pick(event, ["id", "type", "accountId", "webhook", "receivedAt"]),
    ...(event.erased !== undefined && { erased: event.erased.at }),
    sinks: deliveries.map((delivery) => ({
      ...delivery,
      ...collectingOf(delivery, config),
      attempts: withoutAnswers(delivery.attempts),
    })),
    ...(copyOf !== undefined && { copyOf }),
    ...(copies !== undefined && { copies }),
    timeline: timelineOf(found, circumstances),
  }
}

/** Returns the event as it may be shown, or `undefined` if its body can't be shown at all. */
const shownEntry = (
  { sequence, origin, event, body, deliveries }: FoundEvent,
  { webhooks }: RelayConfig,
  reveal: boolean,
): Entry | undefined => {
  if (body === undefined || event.erased !== undefined) return undefined
  // The relay's own events have no personal data.
  const named = webhooks.find(({ name }) => name === event.webhook)?.mask
  const shown = reveal || event.webhook === ownWebhook ? body : Envelope.maskedBody({ ...event, body }, named)
  const sinks = deliveries.map(({ sink }) => sink)
  return shown && { sequence, event: { ...event, body: shown }, sinks, replayed: origin === "replayed" }
}

type Payload = Pick<EventReport["sinks"][number], "payload" | "sentIn" | "note">

const sentIn = ({ type, alert, config }: LaneConfig): Pick<Payload, "sentIn"> => {
  if (alert?.sends === "digest") return { sentIn: "digest" }
  return sinkTypes[type]?.isBatched?.(config) === true ? { sentIn: "batch" } : {}
}

const payloadOf = (config: RelayConfig, sink: string, entry: Entry | undefined, erased?: Erased): Payload => {
  if (sink === quarantine) return {}
  if (erased !== undefined) return { note: `its body was erased on ${instant(erased.at)}` }
  const lane = config.sinks.find(({ name }) => name === sink)
  if (lane === undefined) return { note: "no sink in the config has this name" }
  if (entry === undefined) return { note: "its body is not an envelope, so it can't be shown without personal data" }
  const rendered = Option.liftThrowable(render)(lane, entry)
  if (Option.isNone(rendered)) return { note: "it can't be rendered for this sink" }
  if (rendered.value === undefined) return { note: `a sink of the type ${lane.type} can't show its payload` }
  return { payload: rendered.value, ...sentIn(lane) }
}

const laneOf = (lanes: ReadonlyArray<LaneStatus>, sink: string): string => {
  const lane = lanes.find(({ name }) => name === sink)
  return lane === undefined || lane.condition === "running" ? "" : `${lane.condition}: ${lane.message}`
}

const routesOf = (router: Router.Router, { event, body }: FoundEvent): EventReport["routes"] => {
  const envelope = body && Result.getOrUndefined(Envelope.ofEvent({ ...event, body }, Numbers.parse))
  return event.type === "" ? [] : router.explain(event.webhook, event.type, { envelope, at: event.receivedAt })
}

/**
 * Returns the reports on events. Payloads are rendered for deliveries, and for
 * copies only if the delivery itself is no longer kept.
 */
export const reportsOf = (
  found: ReadonlyArray<FoundEvent>,
  context: {
    readonly config: RelayConfig
    readonly lanes: ReadonlyArray<LaneStatus>
    readonly operations: ReadonlyArray<AuditRecord>
    readonly reveal: boolean
  },
): ReadonlyArray<EventReport> => {
  const { config, lanes, operations, reveal } = context
  const router = Router.of(config)
  const hasDelivery = found.some(({ origin }) => origin === "delivered")
  return found.map((foundEvent) => {
    const { event, body, deliveries, origin } = foundEvent
    const isRendered = origin === "delivered" || !hasDelivery
    const entry = isRendered ? shownEntry(foundEvent, config, reveal) : undefined
    const sinks = deliveries.map((delivery) => {
      const lane = delivery.outcome === "pending" || delivery.outcome === "retrying" ? laneOf(lanes, delivery.sink) : ""
      return {
        ...delivery,
        ...collectingOf(delivery, config),
        attempts: reveal ? delivery.attempts : withMaskedAnswers(delivery.attempts),
        ...(lane !== "" && { lane }),
        ...(isRendered && payloadOf(config, delivery.sink, entry, event.erased)),
      }
    })
    const routes = routesOf(router, foundEvent)
    const taking = routes.filter((route) => takes(route) && route.sinks.length > 0).map(({ route }) => route)
    return {
      ...eventOf(foundEvent, config, { routes: taking, operations }),
      ...Struct.pick(event, ["webhookId", "signature", "secret"]),
      ...(event.problem !== undefined && { problem: event.problem }),
      size: body?.length ?? 0,
      sinks,
      routes,
    }
  })
}
