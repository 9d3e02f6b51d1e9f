/**
 * Slack's Web API on this machine, by its documentation and public reports: `chat.postMessage`, `chat.update` and
 * `auth.test`, their errors with status 200, and their limits.
 */
import { Effect } from "effect"
import { fields, parse } from "../localService.ts"
import { slack } from "./slackService.ts"

export const botToken = "xoxb-0000-canary-5772156649"

interface Message {
  readonly ts: string
  text: string
  blocks: string
  /** The `ts` of its parent; absent in the channel. */
  readonly thread?: string
  readonly isBroadcast: boolean
  /** Number of edits. */
  edits: number
}

/** The answer to too many messages. */
export const limited = (seconds = 1): Response =>
  Response.json({ ok: false, error: "ratelimited" }, { status: 429, headers: { "retry-after": String(seconds) } })

/** A workspace with the channel `C1`, which is called `alerts`. */
export class FakeSlack {
  readonly channel = "C1"
  /** Milliseconds before each answer. */
  latency = 0
  /** Maximum messages per second in a channel. */
  perSecond = Number.POSITIVE_INFINITY
  readonly messages = new Map<string, Message>()
  /** Accepted and refused requests, such as `chat.update: ok`. */
  readonly calls: Array<string> = []
  /** Planned answers to the next requests to a method: `ok`, an error, or a response. */
  readonly planned: Array<readonly [method: string, answer: string | Response]> = []
  readonly bodies: Array<Readonly<Record<string, unknown>>> = []
  #at = 0
  #second = { from: 0, posts: 0 }
  readonly #server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: (request) => this.#take(request) })

  get api(): string {
    return `http://127.0.0.1:${this.#server.port}/api`
  }

  /** The messages in the channel, such as `Resolved: … (2 replies)`. */
  get shown(): ReadonlyArray<string> {
    return this.inChannel.map(({ text, ts }) => `${text} (${this.repliesTo(ts).length} replies)`)
  }

  get inChannel(): ReadonlyArray<Message> {
    return [...this.messages.values()].filter(({ thread, isBroadcast }) => thread === undefined || isBroadcast)
  }

  repliesTo(ts: string): ReadonlyArray<Message> {
    return [...this.messages.values()].filter(({ thread }) => thread === ts)
  }

  async close(): Promise<void> {
    await this.#server.stop(true)
  }

  async #take(request: Request): Promise<Response> {
    if (request.method === "HEAD") return new Response()
    const method = new URL(request.url).pathname.replace("/api/", "")
    const body = fields(parse(new Uint8Array(await request.arrayBuffer())))
    this.bodies.push(body)
    const index = this.planned.findIndex(([one]) => one === method)
    const planned = index < 0 ? undefined : this.planned.splice(index, 1)[0]?.[1]
    const isLimited = method === "chat.postMessage" && this.#isOverLimit()
    const answer = isLimited
      ? limited()
      : planned === undefined || planned === "ok"
        ? this.#answer(method, request, body)
        : planned
    const name = typeof answer === "string" ? answer : answer instanceof Response ? String(answer.status) : "ok"
    this.calls.push(`${method}: ${name}`)
    if (this.latency > 0) await Bun.sleep(this.latency)
    if (answer instanceof Response) return answer
    return Response.json(typeof answer === "string" ? { ok: false, error: answer } : { ok: true, ...answer })
  }

  #isOverLimit(): boolean {
    const now = performance.now()
    if (now - this.#second.from >= 1_000) this.#second = { from: now, posts: 0 }
    this.#second.posts += 1
    return this.#second.posts > this.perSecond
  }

  #answer(method: string, request: Request, body: Readonly<Record<string, unknown>>): string | object {
    if (request.headers.get("content-type") !== "application/json; charset=utf-8") return "invalid_form_data"
    if (request.headers.get("authorization") !== `Bearer ${botToken}`) return "invalid_auth"
    if (method === "auth.test") return { bot_id: "B1" }
    const { channel, ts, thread_ts, text, blocks, reply_broadcast } = body
    const refused = slack.problems(Buffer.from(JSON.stringify({ text, blocks })))
    if (refused.length > 0) return "invalid_blocks"
    if (method === "chat.update") {
      // Unlike chat.postMessage, it doesn't accept a channel's name.
      if (channel !== this.channel) return "channel_not_found"
      const message = this.messages.get(String(ts))
      if (message === undefined) return "message_not_found"
      Object.assign(message, { text, blocks: JSON.stringify(blocks), edits: message.edits + 1 })
      return { channel, ts }
    }
    if (method !== "chat.postMessage") return "unknown_method"
    if (channel !== this.channel && channel !== "alerts" && channel !== "#alerts") return "channel_not_found"
    // A reply to a deleted message becomes a message in the channel, without an error.
    const thread = this.messages.has(String(thread_ts)) ? String(thread_ts) : undefined
    this.#at += 1
    const message: Message = {
      ...{ ts: `1700000000.${String(this.#at).padStart(6, "0")}`, text: String(text), blocks: JSON.stringify(blocks) },
      ...(thread !== undefined && { thread }),
      ...{ isBroadcast: reply_broadcast === true, edits: 0 },
    }
    this.messages.set(message.ts, message)
    return {
      channel: this.channel,
      ts: message.ts,
      message: { text, ...(thread !== undefined && { thread_ts: thread }) },
    }
  }
}

/** A workspace for a test. */
export const fakeSlack = Effect.acquireRelease(
  Effect.sync(() => new FakeSlack()),
  (slack) => Effect.promise(() => slack.close()),
)
