/**
 * The counters of ingest. They are plain numbers, because updating a metric costs
 * more. They only grow, survive a reload, and are published when metrics are
 * scraped. Event ids are never labels.
 */
import type { SignatureRefusal } from "../event/Signature.ts"

/** The counts of a webhook, since the process started. */
export interface WebhookCounters {
  /** Answers by status. */
  readonly answers: Map<number, number>
  readonly signatureFailures: Map<SignatureRefusal, number>
  /**
   * Accepted deliveries by event type, including duplicates, which the journal counts. Types beyond a thousand count as
   * `other`.
   */
  readonly events: Map<string, number>
  /**
   * By the secret's name: epoch milliseconds at which it last verified a delivery. `SenderSilence.ts` adds those from
   * before the start.
   */
  readonly secretsLastUsed: Map<string, number>
  /** By the field's name: client objects in which it should have been null and was not. */
  readonly unredacted: Map<string, number>
  quarantined: number
}

/** Upper bounds of the commit durations' buckets, in seconds. */
export const commitBuckets = [0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 3] as const

/** All counts of ingest, since the process started. */
export interface Counters {
  /** By webhook name; `""` counts requests to no webhook. */
  readonly webhooks: Map<string, WebhookCounters>
  /** Events that were accepted but match no route. */
  unrouted: number
  /** Epoch milliseconds of the last such event, or 0 if there is none. */
  unroutedAt: number
  /** Durations of commits: a count for each of `commitBuckets`, a count above them, and the sum in seconds. */
  readonly commits: { readonly counts: Array<number>; sum: number }
  /** Bytes of bodies that are being read or committed. */
  bytesInFlight: number
}

const maxTypes = 1000
/** The label of event types beyond the first thousand. */
export const otherTypes = "other"

/** Makes counters that are all zero. */
export const make = (): Counters => ({
  webhooks: new Map(),
  unrouted: 0,
  unroutedAt: 0,
  commits: { counts: Array.from({ length: commitBuckets.length + 1 }, () => 0), sum: 0 },
  bytesInFlight: 0,
})

/** Returns the counts of a webhook by its name in the config, and creates them at the first call. */
export const ofWebhook = (counters: Counters, name: string): WebhookCounters => {
  let found = counters.webhooks.get(name)
  if (found === undefined) {
    found = {
      answers: new Map(),
      signatureFailures: new Map(),
      events: new Map(),
      secretsLastUsed: new Map(),
      unredacted: new Map(),
      quarantined: 0,
    }
    counters.webhooks.set(name, found)
  }
  return found
}

/** Returns the time of a webhook's last accepted delivery in epoch milliseconds, or 0 if there is no recent one. */
export const lastDelivery = ({ webhooks }: Counters, name: string): number =>
  Math.max(0, ...(webhooks.get(name)?.secretsLastUsed.values() ?? []))

/** Adds one to the count of a key. */
export const add = <Key>(counts: Map<Key, number>, key: Key): void => {
  counts.set(key, (counts.get(key) ?? 0) + 1)
}

/** Counts an event type. The number of labels is limited, because a sender may invent any number of types. */
export const addType = (events: Map<string, number>, type: string): void =>
  add(events, events.size < maxTypes || events.has(type) ? type : otherTypes)

/** Adds a commit's duration, in seconds, to its bucket. */
export const observeCommit = (commits: Counters["commits"], seconds: number): void => {
  const above = commitBuckets.findIndex((bound) => seconds <= bound)
  const bucket = above === -1 ? commitBuckets.length : above
  commits.counts[bucket] = (commits.counts[bucket] ?? 0) + 1
  commits.sum += seconds
}
