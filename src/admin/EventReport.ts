/**
 * The report of `explain` on an event. Its sinks were chosen when it was accepted.
 * Routes and payloads are evaluated now, by the active config.
 */
import { Option, Result } from "effect"
import type { LaneConfig, RelayConfig } from "../config/Config.ts"
import type { LaneStatus } from "../delivery/Lanes.ts"
import { ownWebhook } from "../delivery/OwnEvent.ts"
import type { Entry } from "../event/Entry.ts"
import * as Envelope from "../event/Envelope.ts"
import { type Erased, quarantine } from "../event/Event.ts"
import * as Numbers from "../event/Numbers.ts"
import { instant } from "../formats/Amounts.ts"
import type { DeliveryStatus, FoundEvent } from "../journal/Archive.ts"
import { takes } from "../routing/Explanation.ts"
import * as Router from "../routing/Router.ts"
import { sinkTypes } from "../sinks/SinkTypes.ts"
import type * as Api from "./Api.ts"
import * as Answers from "./AttemptAnswers.ts"
import { isCollected } from "./Collecting.ts"
import { render } from "./PayloadPreviews.ts"
import { timelineOf } from "./Timeline.ts"

const collectingOf = (
  delivery: DeliveryStatus,
  { sinks }: RelayConfig,
): Pick<Api.Event["sinks"][number], "collecting"> => (isCollected(delivery, sinks) ? { collecting: true } : {})

export const eventOf = (found: FoundEvent, config: RelayConfig, routes?: ReadonlyArray<string>): Api.Event => {
  const { sequence, origin, event, deliveries, copyOf, copies } = found
  return {
    sequence,
    origin,
    id: event.id,
    type: event.type,
    accountId: event.accountId,
    webhook: event.webhook,
    receivedAt: event.receivedAt,
    ...(event.erased !== undefined && { erased: event.erased.at }),
    sinks: deliveries.map((delivery) => ({
      ...delivery,
      ...collectingOf(delivery, config),
      attempts: Answers.without(delivery.attempts),
    })),
    ...(copyOf !== undefined && { copyOf }),
    ...(copies !== undefined && { copies }),
    timeline: timelineOf(found, routes),
  }
}

/** Returns the event as it may be shown, or `undefined` if its body can't be shown at all. */
const shownEntry = ({ sequence, origin, event, body, deliveries }: FoundEvent, reveal: boolean): Entry | undefined => {
  if (body === undefined || event.erased !== undefined) return undefined
  // The relay's own events have no personal data.
  const shown = reveal || event.webhook === ownWebhook ? body : Envelope.maskedBody(body)
  const sinks = deliveries.map(({ sink }) => sink)
  return shown && { sequence, event: { ...event, body: shown }, sinks, replayed: origin === "replayed" }
}

type Payload = Pick<Api.EventReport["sinks"][number], "payload" | "sentIn" | "note">

const sentIn = ({ type, digest, config }: LaneConfig): Pick<Payload, "sentIn"> => {
  if (digest !== undefined) return { sentIn: "digest" }
  return sinkTypes[type]?.isBatched?.(config) === true ? { sentIn: "batch" } : {}
}

const payloadOf = (config: RelayConfig, sink: string, entry: Entry | undefined, erased?: Erased): Payload => {
  if (sink === quarantine) return {}
  if (erased !== undefined) return { note: `its body was erased on ${instant(erased.at)}` }
  const lane = config.sinks.find(({ name }) => name === sink)
  if (lane === undefined) return { note: "no sink in the config has this name" }
  if (entry === undefined) return { note: "its body is not an envelope, so it can't be shown without personal data" }
  const rendered = Option.liftThrowable(render)(lane, sinkTypes[lane.type], entry)
  if (Option.isNone(rendered)) return { note: "it can't be rendered for this sink" }
  if (rendered.value === undefined) return { note: `a sink of the type ${lane.type} can't show its payload` }
  return { payload: rendered.value, ...sentIn(lane) }
}

const laneOf = (lanes: ReadonlyArray<LaneStatus>, sink: string): string => {
  const lane = lanes.find(({ name }) => name === sink)
  return lane === undefined || lane.condition === "running" ? "" : `${lane.condition}: ${lane.message}`
}

const routesOf = (router: Router.Router, { event, body }: FoundEvent): Api.EventReport["routes"] => {
  const envelope = body && Result.getOrUndefined(Envelope.decode(body, Numbers.parse))
  return event.type === "" ? [] : router.explain(event.webhook, event.type, envelope)
}

/**
 * Returns the reports on events. Payloads are rendered for deliveries, and for
 * copies only if the delivery itself is no longer kept.
 */
export const reportsOf = (
  found: ReadonlyArray<FoundEvent>,
  { config, lanes, reveal }: { config: RelayConfig; lanes: ReadonlyArray<LaneStatus>; reveal: boolean },
): ReadonlyArray<Api.EventReport> => {
  const router = Router.of(config)
  const hasDelivery = found.some(({ origin }) => origin === "delivered")
  return found.map((one) => {
    const { event, body, deliveries, origin } = one
    const isRendered = origin === "delivered" || !hasDelivery
    const entry = isRendered ? shownEntry(one, reveal) : undefined
    const sinks = deliveries.map((delivery) => {
      const lane = delivery.outcome === "pending" || delivery.outcome === "retrying" ? laneOf(lanes, delivery.sink) : ""
      return {
        ...delivery,
        ...collectingOf(delivery, config),
        attempts: reveal ? delivery.attempts : Answers.masked(delivery.attempts),
        ...(lane !== "" && { lane }),
        ...(isRendered && payloadOf(config, delivery.sink, entry, event.erased)),
      }
    })
    const routes = routesOf(router, one)
    const taking = routes.filter((route) => takes(route) && route.sinks.length > 0).map(({ route }) => route)
    return {
      ...eventOf(one, config, taking),
      webhookId: event.webhookId,
      signature: event.signature,
      secret: event.secret,
      ...(event.problem !== undefined && { problem: event.problem }),
      size: body?.length ?? 0,
      sinks,
      routes,
    }
  })
}
