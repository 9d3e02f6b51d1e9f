/** A query on events as the tests that it comes to. Pure, and the same for every journal. */
import type { Event } from "../event/Event.ts"
import * as Pattern from "../routing/Pattern.ts"
import type { DeliveryStatus, EventQuery } from "./Journal.ts"

/** What many events have in common. */
export interface Kind {
  readonly type: string
  readonly webhook: string
  readonly sinks: ReadonlyArray<string>
}

export interface Match {
  readonly kind: (kind: Kind) => boolean
  readonly event: (sequence: number, event: Omit<Event, "body">, sinks: ReadonlyArray<string>) => boolean
  readonly fates: (fates: ReadonlyArray<DeliveryStatus>) => boolean
}

const isOr = <A>(wanted: A | undefined, value: A): boolean => wanted === undefined || wanted === value

export const make = (query: EventQuery): Match => {
  const { id, sequence, account, webhook, since = 0, until = Number.POSITIVE_INFINITY, outcome } = query
  const patterns = (query.types ?? []).map(Pattern.make)
  const kind = ({ type, webhook: by, sinks }: Kind): boolean =>
    isOr(webhook, by) &&
    (patterns.length === 0 || patterns.some((pattern) => pattern.matches(type))) &&
    (outcome === undefined || (sinks.length === 0) === (outcome === "unrouted"))
  return {
    kind,
    event: (at, event, sinks) =>
      isOr(id, event.id) &&
      isOr(sequence, at) &&
      isOr(account, event.accountId) &&
      event.receivedAt >= since &&
      event.receivedAt < until &&
      kind({ type: event.type, webhook: event.webhook, sinks }),
    fates: (fates) => outcome === undefined || outcome === "unrouted" || fates.some((fate) => fate.outcome === outcome),
  }
}
