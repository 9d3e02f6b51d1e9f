/**
 * Sample events for `trigger` and `test`: correct envelopes with an object that
 * is plausible for its resource.
 *
 * The interface publishes no schema of the objects, so these are our own
 * invention: good for trying routes and sinks, nothing to build a schema on.
 * What it does state holds: client objects carry the four redacted fields null.
 */
import type { Envelope } from "../event/Envelope.ts"
import { resource } from "../event/EventType.ts"

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

/** An opaque suffix that won't come twice. */
const suffix = (): string => {
  let text = ""
  for (const byte of crypto.getRandomValues(new Uint8Array(20))) text += alphabet[byte % alphabet.length]
  return text
}

/** ISO 8601 UTC with second precision (webhook interface, section 2.1). */
export const timestamp = (millis: number): string => `${new Date(millis).toISOString().slice(0, 19)}Z`

const hour = 3_600_000

type Fields = Readonly<Record<string, unknown>>
/** `at` formats a time so many hours from now. */
type Make = (at: (hours: number) => string) => Fields

const objects: Readonly<Record<string, Make>> = {
  account_user: (at) => ({ id: `usr_${suffix()}`, role: "member", created_at: at(-1), updated_at: at(0) }),
  appointment: (at) => ({
    id: `apt_${suffix()}`,
    service_id: "svc_sample",
    provider_id: "prv_sample",
    client_id: "cli_sample",
    start_at: at(24),
    end_at: at(25),
    time_zone: "Europe/Berlin",
    created_at: at(-1),
    updated_at: at(0),
  }),
  booking_intent: (at) => ({ id: `bki_${suffix()}`, service_id: "svc_sample", start_at: at(24), created_at: at(-1) }),
  block: (at) => ({ id: `blk_${suffix()}`, provider_id: "prv_sample", start_at: at(24), end_at: at(26) }),
  client: (at) => ({
    id: `cli_${suffix()}`,
    first_name: null,
    last_name: null,
    email: null,
    phone: null,
    created_at: at(-1),
    updated_at: at(0),
  }),
  connected_account: (at) => ({
    id: `cna_${suffix()}`,
    provider_id: "prv_sample",
    kind: "calendar",
    created_at: at(-1),
  }),
  provider: (at) => ({ id: `prv_${suffix()}`, time_zone: "Europe/Berlin", created_at: at(-1), updated_at: at(0) }),
  provider_schedule: (at) => ({ id: `psc_${suffix()}`, provider_id: "prv_sample", weekday: 1, created_at: at(-1) }),
  service: (at) => ({ id: `svc_${suffix()}`, duration_minutes: 60, created_at: at(-1), updated_at: at(0) }),
  service_provider: (at) => ({
    id: `svp_${suffix()}`,
    service_id: "svc_sample",
    provider_id: "prv_sample",
    created_at: at(0),
  }),
}

const objectOf = (type: string, at: (hours: number) => string): Fields => {
  const object = objects[resource(type)]?.(at) ?? { id: `obj_${suffix()}` }
  const meeting = type.startsWith("appointment.meeting.") ? { meeting: { id: `mtg_${suffix()}`, kind: "video" } } : {}
  const failure = type.endsWith("_failed") ? { failure: { reason: "sample", failed_at: at(0) } } : {}
  return { ...object, ...meeting, ...failure }
}

export interface SampleOptions {
  readonly accountId?: string | undefined
  /** Instead of the sample's own object. */
  readonly object?: Fields | undefined
}

/** A sample envelope of any event type. `now` is in epoch milliseconds. */
export const sample = (type: string, now: number, { accountId, object }: SampleOptions = {}): Envelope => ({
  id: `evt_${suffix()}`,
  account_id: accountId ?? "acct_sample",
  version: "1",
  created_at: timestamp(now),
  data: { type, object: object ?? objectOf(type, (hours) => timestamp(now + hours * hour)) },
})
