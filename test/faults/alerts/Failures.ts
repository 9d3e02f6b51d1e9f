/**
 * Failures and their recoveries, by number, and their alerts at Slack and at PagerDuty, identified by the text that a
 * person sees.
 */

/** How long the window of a digest is, in seconds, and how many events fill one. */
export const digest = { wait: 3, maxEvents: 200 } as const

const recoveries = 1_000_000_000
/** The event that ends failure `number`. */
export const recoveryOf = (number: number): number => recoveries + number
/** One failure in seven is over some time later. */
export const recovers = (number: number): boolean => number % 7 === 0

const types = [
  ["appointment.meeting.create_failed", "appointment.meeting.created"],
  ["connected_account.refresh_failed", "connected_account.reconnected"],
] as const

/** Half of all are of one group, which fills its digests before they are due; the other five are smaller. */
const kindOf = (number: number): readonly [type: number, account: number] =>
  number % 2 === 0 ? [0, 0] : [Math.floor(number / 2) % 2, 1 + (Math.floor(number / 4) % 3)]

export const groupOf = (number: number): string => {
  const [type, account] = kindOf(number)
  return `${types[type]?.[0]} acct_${account}`
}

export const bodyOf = (number: number): string => {
  const failure = number % recoveries
  const [type, account] = kindOf(failure)
  return JSON.stringify({
    id: `evt_${number}`,
    account_id: `acct_${account}`,
    version: "1",
    created_at: "2026-11-21T00:00:00Z",
    data: { type: types[type]?.[number < recoveries ? 0 : 1], object: { id: `obj_${failure}` } },
  })
}

/** A digest as Slack shows it. */
export interface Digest {
  readonly group: string
  readonly count: number
  /** The number of its first event: a digest that is sent again has the same. */
  readonly first: number
  /** `performance.now()`. */
  readonly at: number
  /** The life of the relay that sent it, from 1. */
  readonly life: number
}

type Json = Readonly<Record<string, unknown>>
const list = (value: unknown): ReadonlyArray<Json> => (Array.isArray(value) ? value : [])

/** Reads a message to Slack. Each field is a name with its value on the next line. */
export const readDigest = (body: Uint8Array): Omit<Digest, "at" | "life"> => {
  const message = JSON.parse(Buffer.from(body).toString("utf8")) as Json
  const texts = list(message.blocks).flatMap(({ fields }) => list(fields).map(({ text }) => String(text)))
  const fact = (name: string) => texts.find((text) => text.startsWith(`${name}\n`))?.slice(name.length + 1)
  return {
    group: `${fact("Type")} ${fact("Account")}`,
    count: Number(fact("Events") ?? 1),
    first: Number(/\bEvent\sevt_(\d+)/.exec(texts.join("\n"))?.[1] ?? Number.NaN),
  }
}

export interface Told {
  readonly failure: number
  readonly action: string
}

/** Reads an event to PagerDuty: the object's id is in its key. */
export const readAlert = (body: Uint8Array): Told => {
  const event = JSON.parse(Buffer.from(body).toString("utf8")) as Json
  return {
    failure: Number(/\/obj_(\d+)$/.exec(String(event.dedup_key))?.[1] ?? Number.NaN),
    action: String(event.event_action),
  }
}
