/**
 * Signed deliveries as the sender makes them (webhook interface, sections 2
 * and 5.1), as whole HTTP requests ready to be written to a socket.
 *
 * All of them have the same length, so a file of them needs no index. Every id
 * is new: a relay answers a known id from its duplicates and would look faster
 * than it is.
 */
import { createHmac } from "node:crypto"
import { closeSync, openSync, writeSync } from "node:fs"

export const path = "/hooks/scheduling"
export const secret = "a-secret-only-the-benchmark-knows"
/** The body of a usual delivery. */
export const bodyBytes = 898

/** Data that a receiver uses to check order and lag, in `data.object`. */
export interface Stamp {
  /** The delivery's number within its run. */
  readonly number: number
  /** Epoch milliseconds at which it was due to be sent. */
  readonly sentAt: number
}

/**
 * The number of accounts, which are the keys of sinks that keep order. A multiple of the connections, so that a key
 * always uses the same connection.
 */
export const accounts = 1024

const suffix = (run: string, stamp: Stamp): string => `${run}${stamp.number.toString(36).padStart(6, "0")}`

export const id = (run: string, stamp: Stamp): string => `evt_${suffix(run, stamp)}`

/** Returns the id of the appointment that an event is about. */
export const objectOf = (event: string): string => event.replace(/^evt_/, "apt_")

const envelope = (run: string, stamp: Stamp, padding: string): string =>
  JSON.stringify({
    id: id(run, stamp),
    account_id: `acct_${stamp.number % accounts}`,
    version: "1.0.0",
    created_at: "2026-11-21T01:44:33Z",
    data: {
      type: "appointment.created",
      object: {
        id: objectOf(id(run, stamp)),
        stamp,
        status: "confirmed",
        client: { id: `cli_${suffix(run, stamp)}`, first_name: null, last_name: null, email: null, phone: null },
        provider_id: "prv_8812",
        service_id: "svc_113",
        starts_at: "2026-12-01T09:30:00Z",
        ends_at: "2026-12-01T10:00:00Z",
        time_zone: "Europe/Amsterdam",
        tags: ["web", "returning", "priority"],
        price: { amount: 8500, currency: "EUR" },
        custom_fields: [
          { key: "referral", value: "newsletter" },
          { key: "room", value: "2B" },
        ],
        notes: padding,
      },
    },
  })

/** A name for a run's ids: ten characters that no other run has. */
export const newRun = (): string => crypto.randomUUID().replaceAll("-", "").slice(0, 10)

/** One delivery's body; exactly `bodyBytes` long. */
export const body = (run: string, stamp: Stamp): string =>
  envelope(run, stamp, "n".repeat(bodyBytes - envelope(run, stamp, "").length))

/** A POST as the text of an HTTP/1.1 request. The body has no character beyond ASCII. */
export const post = (path: string, headers: Readonly<Record<string, string>>, body: string): string =>
  `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: Service Webhooks (https://service.example)\r\n` +
  `${Object.entries(headers)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join("")}` +
  `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`

/** A body as the scheduling service delivers it, as the text of an HTTP/1.1 request. */
export const signed = (body: string): string => {
  const digest = createHmac("sha256", secret).update(body).digest("hex").toUpperCase()
  return post(path, { "x-service-signature": `sha256=${digest}`, "x-service-webhook-id": "wh_bench01" }, body)
}

export const request = (run: string, stamp: Stamp): string => signed(body(run, stamp))

export const requestBytes = request(newRun(), { number: 0, sentAt: 0 }).length

/** Writes `count` new deliveries, one after the other: about 5 µs each. */
export const writeFile = (file: string, count: number): void => {
  const run = newRun()
  const fd = openSync(file, "w")
  try {
    for (let number = 0; number < count; ) {
      let chunk = ""
      for (const end = Math.min(count, number + 1000); number < end; number++) {
        chunk += request(run, { number, sentAt: 0 })
      }
      writeSync(fd, chunk)
    }
  } finally {
    closeSync(fd)
  }
}
