/**
 * Makes sample events for `trigger`, `test` and `explain`. They are valid envelopes
 * with a plausible object of the resource.
 *
 * **Gotcha.** The interface publishes no schema of the objects, so these are
 * invented. Use them to try routes and sinks, not to derive a schema. In client
 * objects, the four redacted fields are null, as the interface states.
 */
import type { Envelope } from "./Envelope.ts"
import { isRelayEvent, resource } from "./EventType.ts"
import type { EpochMillis } from "./Quantities.ts"

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

const unique = (): string => {
  let text = ""
  for (const byte of crypto.getRandomValues(new Uint8Array(20))) text += alphabet[byte % alphabet.length]
  return text
}

/** Formats a time as ISO 8601 UTC with second precision (webhook interface, section 2.1). */
export const timestamp = (millis: EpochMillis): string => `${new Date(millis).toISOString().slice(0, 19)}Z`

const hour = 3_600_000

type Fields = Readonly<Record<string, unknown>>
/** Formats the time this many hours from now. */
type At = (hours: number) => string
/** Makes an object; `suffix` returns the end of an id. */
type Make = (at: At, suffix: () => string) => Fields

const changed = (at: At) => ({ created_at: at(-1), updated_at: at(0) })

const objects: Readonly<Record<string, Make>> = {
  account_user: (at, suffix) => ({ id: `usr_${suffix()}`, role: "member", ...changed(at) }),
  appointment: (at, suffix) => ({
    id: `apt_${suffix()}`,
    service_id: "svc_sample",
    provider_id: "prv_sample",
    client_id: "cli_sample",
    start_at: at(24),
    end_at: at(25),
    time_zone: "Europe/Berlin",
    ...changed(at),
  }),
  booking_intent: (at, suffix) => ({
    id: `bki_${suffix()}`,
    service_id: "svc_sample",
    start_at: at(24),
    created_at: at(-1),
  }),
  block: (at, suffix) => ({ id: `blk_${suffix()}`, provider_id: "prv_sample", start_at: at(24), end_at: at(26) }),
  client: (at, suffix) => ({
    id: `cli_${suffix()}`,
    first_name: null,
    last_name: null,
    email: null,
    phone: null,
    ...changed(at),
  }),
  connected_account: (at, suffix) => ({
    id: `cna_${suffix()}`,
    provider_id: "prv_sample",
    kind: "calendar",
    created_at: at(-1),
  }),
  provider: (at, suffix) => ({ id: `prv_${suffix()}`, time_zone: "Europe/Berlin", ...changed(at) }),
  provider_schedule: (at, suffix) => ({
    id: `psc_${suffix()}`,
    provider_id: "prv_sample",
    weekday: 1,
    created_at: at(-1),
  }),
  service: (at, suffix) => ({ id: `svc_${suffix()}`, duration_minutes: 60, ...changed(at) }),
  service_provider: (at, suffix) => ({
    id: `svp_${suffix()}`,
    service_id: "svc_sample",
    provider_id: "prv_sample",
    created_at: at(0),
  }),
}

/** Sample objects of the relay's own events, with the fields that `RelayEvents` sets. */
const own: Readonly<Record<string, (at: At) => Fields>> = {
  "relay.dead_letter": () => ({
    sink: "sample",
    count: 1,
    reason: "DeliveryRejected",
    message: "POST https://example.com answered 400",
    event_id: "evt_sample",
    event_type: "appointment.created",
  }),
  "relay.lane_paused": () => ({ sink: "sample", message: "POST https://example.com can't be reached" }),
  "relay.lane_resumed": () => ({ sink: "sample", message: "it delivers again" }),
  "relay.sender_silent": () => ({ webhook: "sample", message: "no delivery for 2 h" }),
  "relay.sender_resumed": () => ({ webhook: "sample", message: "it sends again" }),
  "relay.journal_filling": () => ({ percent: 80, used_bytes: 8_589_934_592, max_bytes: 10_737_418_240 }),
  "relay.journal_red": () => ({
    problem: "Events 5 to 9 of the journal ./data/journal.db are lost: their rows are missing.",
  }),
  "relay.secret_expiring": (at) => ({ webhook: "sample", secret: "sample", expires_at: at(14 * 24) }),
  "relay.certificate_expiring": (at) => ({
    certificate: "tls.certificate",
    subject: "hooks.example.com",
    expires_at: at(14 * 24),
  }),
  "relay.certificate_expired": (at) => ({
    certificate: "tls.certificate",
    subject: "hooks.example.com",
    expires_at: at(0),
  }),
}

const objectOf = (type: string, at: At, suffix: () => string): Fields => {
  const facts = own[type]?.(at)
  if (facts !== undefined) return facts
  const object = objects[resource(type)]?.(at, suffix) ?? { id: `obj_${suffix()}` }
  const meeting = type.startsWith("appointment.meeting.") ? { meeting: { id: `mtg_${suffix()}`, kind: "video" } } : {}
  const failure = type.endsWith("_failed") ? { failure: { reason: "sample", failed_at: at(0) } } : {}
  return { ...object, ...meeting, ...failure }
}

interface SampleOptions {
  readonly accountId?: string | undefined
  /** Replaces the random id. */
  readonly objectId?: string | undefined
  /** Replaces the sample's own object. */
  readonly object?: Fields | undefined
  /** Makes ids constant, for golden files. */
  readonly isFixed?: boolean
}

/** Makes a sample envelope of any event type. */
export const sample = (
  type: string,
  now: EpochMillis,
  { accountId, objectId, object, isFixed }: SampleOptions = {},
): Envelope => {
  const suffix = isFixed === true ? () => "sample" : unique
  const made = object ?? objectOf(type, (hours) => timestamp(now + hours * hour), suffix)
  return {
    id: `evt_${suffix()}`,
    account_id: accountId ?? (isRelayEvent(type) ? "" : "acct_sample"),
    version: "1",
    created_at: timestamp(now),
    data: { type, object: objectId === undefined ? made : { ...made, id: objectId } },
  }
}
