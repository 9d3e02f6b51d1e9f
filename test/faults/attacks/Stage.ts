/**
 * The stage of hostile content: one relay with a sink of every form, and a receiver that keeps every request. An event
 * goes to the sink that its account names, and to the sink `steady` as well: whatever one sink makes of it, the other
 * has the bytes.
 */
import { createHash } from "node:crypto"
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { bodies } from "../../lib/lines.ts"
import type { Relay } from "../../lib/relay.ts"
import type { Options } from "../Line.ts"
import { Subject } from "../relay/Subject.ts"
import { path, secret } from "../relay/Traffic.ts"
import { deliver } from "./Attack.ts"

export interface Request {
  readonly sink: string
  /** Path and query below the sink's own. */
  readonly target: string
  readonly headers: Headers
  readonly body: Uint8Array
}

const retry = { initial: "100 millis", max: "300 millis", maxAttempts: 3 }
const hash = (body: string | Uint8Array): string => createHash("sha256").update(body).digest("base64")

/** Answers of services that accepted a request. */
const answers: Readonly<Record<string, () => Response>> = {
  slack: () => new Response("ok"),
  pager: () => new Response("{}", { status: 202 }),
}

/** Every form of sink, by the name that an event's account has. */
const sinksAt = (url: (name: string) => string, file: string) => ({
  steady: { type: "http", url: url("steady") },
  keyed: { type: "http", url: url("keyed"), order: "key", key: "{{/data/object/key}}" },
  headers: { type: "http", url: url("headers"), headers: { "x-note": "{{/data/object/note}}" } },
  path: { type: "http", url: `${url("path")}/{{/data/object/path}}/end?q={{/data/object/q}}` },
  body: {
    type: "http",
    url: url("body"),
    format: "template",
    body: {
      id: "{{id}}",
      note: "{{/data/object/note}}",
      text: "note: {{/data/object/note}}",
      own: "{{/data/object/__proto__}}",
    },
  },
  digest: {
    type: "http",
    url: url("digest"),
    format: "template",
    body: { id: "{{id}}", count: "{{count}}", group: "{{/data/object/group}}", events: "{{events}}" },
    digest: { by: ["/data/object/group"], wait: "300 millis", maxEvents: 100 },
  },
  cloud: { type: "http", url: url("cloud"), format: "cloudevents" },
  structured: { type: "http", url: url("structured"), format: "cloudevents", mode: "structured" },
  pager: { type: "pagerduty", routingKey: "R", url: url("pager"), details: { Note: "{{/data/object/note}}" } },
  slack: { type: "slack", url: url("slack"), summary: "{{/data/object/note}}" },
  discord: { type: "discord", url: url("discord"), summary: "{{/data/object/note}}" },
  teams: { type: "teams", url: url("teams"), summary: "{{/data/object/note}}" },
  archive: { type: "file", path: file },
  /** Also the sink of a route that looks into the event. */
  chosen: { type: "http", url: url("chosen") },
})

export type SinkName = keyof ReturnType<typeof sinksAt>

export class Stage {
  readonly #server: Bun.Server<undefined>
  readonly #all: Array<Request> = []
  readonly #bodies = new Map<string, number>()
  readonly subject: Subject
  readonly relay: Relay
  readonly #file: string
  #honest = 0

  private constructor(
    subject: Subject,
    relay: Relay,
    server: Bun.Server<undefined>,
    file: string,
    kept: Array<Request>,
  ) {
    this.subject = subject
    this.relay = relay
    this.#server = server
    this.#file = file
    this.#all = kept
  }

  static async make(options: Options): Promise<Stage> {
    const kept: Array<Request> = []
    const server = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      maxRequestBodySize: 64 * 1024 * 1024,
      fetch: async (request) => {
        if (request.method !== "POST") return new Response()
        const { pathname, search } = new URL(request.url)
        const sink = pathname.split("/")[1] ?? ""
        const body = new Uint8Array(await request.arrayBuffer())
        kept.push({ sink, target: pathname.slice(sink.length + 1) + search, headers: request.headers, body })
        return answers[sink]?.() ?? new Response(null, { status: 204 })
      },
    })
    const subject = await Subject.make(options, { sinks: {}, delivery: { timeout: "5 seconds", retry } })
    const file = join(subject.directory, "archive.ndjson")
    const sinks = sinksAt((name) => `http://127.0.0.1:${server.port}/${name}`, file)
    const own = Object.keys(sinks).filter((name) => name !== "steady" && name !== "chosen")
    subject.write("relay.config.json", {
      sinks,
      webhooks: {
        scheduling: { path, secrets: [{ name: "faults", value: secret }], maxBody: "4 MiB" },
        picky: {
          path: "/hooks/picky",
          secrets: [{ name: "faults", value: secret }],
          unknownTypes: "reject",
          undecodable: "reject",
        },
        catalogue: {
          path: "/hooks/catalogue",
          secrets: [{ name: "faults", value: secret }],
          unknownTypes: "quarantine",
        },
      },
      routes: [
        { name: "everything", match: "**", to: "steady" },
        ...own.map((name) => ({ name, match: "**", where: { "/account_id": `acct_${name}` }, to: name })),
        { name: "chosen", match: "**", where: { "/data/object/flag": ["yes", 1, true, null] }, to: "chosen" },
      ],
    })
    return new Stage(subject, await subject.start(), server, file, kept)
  }

  /** Sends a signed body to a webhook. */
  send(body: string | Uint8Array, webhook = "scheduling", headers = {}): Promise<number | undefined> {
    return deliver(`http://127.0.0.1:${this.subject.port}/hooks/${webhook}`, body, headers)
  }

  /** Requests that a sink received. */
  at(sink: string): ReadonlyArray<Request> {
    return this.#all.filter((request) => request.sink === sink)
  }

  /** How often a sink was sent these very bytes. */
  times(sink: string, body: string | Uint8Array): number {
    const wanted = hash(body)
    if (sink === "archive") {
      return existsSync(this.#file) ? bodies(readFileSync(this.#file)).filter((one) => hash(one) === wanted).length : 0
    }
    // Hashes only the requests that are new since the last call.
    for (let index = this.#hashed; index < this.#all.length; index++) {
      const { sink: at, body: bytes } = this.#all[index] as Request
      const key = `${at} ${hash(bytes)}`
      this.#bodies.set(key, (this.#bodies.get(key) ?? 0) + 1)
    }
    this.#hashed = this.#all.length
    return this.#bodies.get(`${sink} ${wanted}`) ?? 0
  }
  #hashed = 0

  /** An honest event for a sink: its id and its body. */
  honest(sink: string): { readonly id: string; readonly body: string } {
    const id = `evtHonest${++this.#honest}x`
    const object = {
      id: `apt_${this.#honest}`,
      note: "an honest note",
      key: id,
      group: id,
      path: id,
      q: "q",
      flag: "yes",
    }
    const envelope = { id, account_id: `acct_${sink}`, version: "1", created_at: "2026-11-21T00:00:00Z" }
    return { id, body: JSON.stringify({ ...envelope, data: { type: "appointment.created", object } }) }
  }

  /** Reports whether a sink got an event's bytes, or its id in any request. */
  has(sink: string, id: string, body: string | Uint8Array): boolean {
    if (this.times(sink, body) > 0) return true
    return this.at(sink).some((request) => Buffer.from(request.body).includes(id))
  }

  async close(): Promise<void> {
    await this.relay.kill()
    await this.#server.stop(true)
  }
}
