/** A relay with a webhook of each kind, the bodies that it kept, and deliveries to send to it. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { envelope as bodyOf, sign } from "../../lib/kit.ts"
import { freePort } from "../../lib/port.ts"
import { type Relay, type StartOptions, startRelay } from "../../lib/relay.ts"

export const secret = "whsec_http_suite"
/** An expired signing secret. */
export const expiredSecret = "whsec_http_suite_2024"

export interface Target {
  readonly relay: Relay
  /** The directory of its config, its `journal.db` and the sink's `events.ndjson`. */
  readonly directory: string
  readonly port: number
  readonly admin: number
  readonly url: (path?: string) => string
  /** Bodies that reached the file sink, as text, in the order of the journal. */
  readonly kept: () => ReadonlyArray<string>
  /**
   * Waits until the relay has read the bytes written to other connections before. This works because it reads them in
   * order of arrival, and the wait sends a request on another connection.
   */
  readonly hasRead: () => Promise<void>
  /** Waits until the file sink has a body, at most fifty seconds. */
  readonly keeps: (body: string) => Promise<boolean>
  readonly stop: () => Promise<void>
}

const unmarked = (line: string): string => {
  const marked = /^\{"relay_base64":"([^"]*)"/.exec(line)
  return marked === null ? line : Buffer.from(marked[1] ?? "", "base64").toString("utf8")
}

export interface TargetOptions extends Pick<StartOptions, "binary" | "under" | "env"> {
  readonly tls?: { readonly certificate: string; readonly key: string }
  readonly drain?: { readonly delay: string; readonly refuse: string }
  /** The journal (default: a file in its directory). */
  readonly journal?: Readonly<Record<string, unknown>>
}

export const startTarget = async ({
  tls,
  drain,
  journal = { path: "./journal.db" },
  ...options
}: TargetOptions = {}): Promise<Target> => {
  const cwd = mkdtempSync(join(tmpdir(), "relay-http-"))
  const [port, admin] = [await freePort(), await freePort()]
  const secrets = [
    { name: "suite", value: secret },
    { name: "old", value: expiredSecret, expires: "2025-01-01T00:00:00Z" },
  ]
  const config = {
    listen: `127.0.0.1:${port}`,
    addressHeader: "x-forwarded-for",
    ...(tls === undefined ? {} : { tls }),
    ...(drain === undefined ? {} : { drain }),
    admin: { listen: `127.0.0.1:${admin}` },
    journal,
    webhooks: {
      scheduling: { path: "/hooks/scheduling", secrets, maxBody: "256 KiB" },
      small: { path: "/hooks/small", secrets, maxBody: "64 KiB" },
      careful: { path: "/hooks/careful", secrets, unknownTypes: "quarantine" },
      picky: { path: "/hooks/picky", secrets, unknownTypes: "reject", undecodable: "reject", respond: 200 },
      strict: { path: "/hooks/strict", id: "wh_known", secrets, strictId: true },
    },
    sinks: { audit: { type: "file", path: "./events.ndjson" } },
    routes: [{ name: "everything", match: "**", to: ["audit"] }],
  }
  const file = join(cwd, "relay.config.json")
  writeFileSync(file, JSON.stringify(config))
  const relay = await startRelay(file, { cwd, ...options })

  const url = (path = "/hooks/scheduling") => `${tls === undefined ? "http" : "https"}://127.0.0.1:${port}${path}`
  const kept = () => {
    try {
      const lines = readFileSync(join(cwd, "events.ndjson"), "utf8").split("\n")
      return lines.filter((line) => line !== "").map(unmarked)
    } catch {
      return []
    }
  }
  return {
    relay,
    directory: cwd,
    port,
    admin,
    url,
    hasRead: async () => {
      await (await fetch(url(), { keepalive: false })).text()
    },
    kept,
    keeps: async (body) => {
      for (let tries = 0; tries < 2_500; tries++) {
        if (kept().includes(body)) return true
        await new Promise((resolve) => setTimeout(resolve, 20))
      }
      return false
    },
    stop: async () => {
      await relay.kill()
      rmSync(cwd, { recursive: true, force: true })
    },
  }
}

let ids = 0

export const envelope = (type = "appointment.created", object: unknown = { id: "apt_1" }): string => {
  ids += 1
  return bodyOf(`evt_http_${ids}`, { type, object })
}

export const signature = (body: string | Uint8Array, by: string = secret): string => sign(body, by)

export type Changes = Readonly<Record<string, string | undefined>>

/** The headers of a delivery. A change to `undefined` removes a header. */
export const headers = (body: string | Uint8Array, changes: Changes = {}): Record<string, string> => {
  const all: Changes = {
    "content-type": "application/json",
    "x-service-signature": signature(body),
    "x-service-webhook-id": "wh_known",
    ...changes,
  }
  return Object.fromEntries(Object.entries(all).filter((entry): entry is [string, string] => entry[1] !== undefined))
}

/** A delivery as text for a socket. `framing` replaces the lines that frame it. */
export const rawDelivery = (
  body: string,
  framing: ReadonlyArray<string> = ["Host: relay.example", `Content-Length: ${Buffer.byteLength(body)}`],
  changes: Changes = {},
): string => {
  const lines = Object.entries(headers(body, changes)).map(([name, value]) => `${name}: ${value}`)
  return ["POST /hooks/scheduling HTTP/1.1", ...framing, ...lines, "", body].join("\r\n")
}

/** A body as one chunk, which `lastChunk` ends. */
export const chunk = (body: string): string => `${Buffer.byteLength(body).toString(16)}\r\n${body}\r\n`
export const lastChunk = "0\r\n\r\n"
