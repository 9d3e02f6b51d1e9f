/**
 * The senders outlive the relay, send each body until it is acknowledged, and remember nothing of a refusal's reason.
 *
 * They repeat ingest's work on a body in short (decode, route or quarantine, append), because ingest's own reading of a
 * request needs promises, and this world has none.
 */
import { Cause, Clock, Effect, Exit, Result } from "effect"
import * as Envelope from "../../../src/event/Envelope.ts"
import { type Event, quarantine } from "../../../src/event/Event.ts"
import { isRelayEvent } from "../../../src/event/EventType.ts"
import { Journal } from "../../../src/journal/Journal.ts"
import type { Router } from "../../../src/routing/Router.ts"
import { Draw } from "./Draw.ts"
import { accounts, type Plan, scene, types } from "./Plan.ts"

/** A body that a sender has yet to see acknowledged. */
interface Delivery {
  readonly body: Uint8Array
  /** When it is sent, or sent again. */
  at: number
}

const utf8 = new TextEncoder()
/** How long a sender waits for an answer. */
const answerTimeout = 3_000

export class Senders {
  /** Not acknowledged yet; the next first. */
  readonly #waiting: Array<Delivery>
  /** On their way; a crash leaves them without an answer. */
  readonly #open = new Set<Delivery>()
  readonly #draw: Draw

  constructor(plan: Plan) {
    const draw = new Draw(plan.seed, "senders")
    this.#draw = draw
    const bodies: Array<Uint8Array> = []
    const [from, until] = plan.burst ? [scene.from, scene.until] : [0, plan.faultsUntil]
    this.#waiting = Array.from({ length: plan.events }, (_, index): Delivery => {
      const again = bodies.length > 0 && draw.chance(0.1)
      const body = again ? (bodies[draw.int(0, bodies.length - 1)] ?? bodies[0]) : this.#body(index, plan.burst)
      if (!again && body !== undefined) bodies.push(body)
      return { body: body ?? utf8.encode("?"), at: draw.real(from, until) }
    }).sort((a, b) => a.at - b.at)
  }

  get idle(): boolean {
    return this.#waiting.length + this.#open.size === 0
  }

  #body(index: number, burst: boolean): Uint8Array {
    const draw = this.#draw
    const kind = draw.next()
    if (kind < 0.03) return utf8.encode(`no envelope ${index} ${draw.next()}`)
    if (kind < 0.05) return new Uint8Array([0xff, 0xfe, index & 0xff, index >> 8])
    // Now and then the id of another event: other bytes make it an event of its own.
    const id = kind < 0.09 && index > 0 ? draw.int(0, index - 1) : index
    const type = kind >= 0.09 && kind < 0.1 ? "relay.dead_letter" : draw.pick(types)
    const size = burst ? 0 : draw.pick([0, 0, 100, 3_000, 20_000])
    return utf8.encode(
      JSON.stringify({
        id: `evt_${id}`,
        account_id: draw.pick(accounts),
        version: "1",
        created_at: "2026-01-01T00:00:00Z",
        data: { type, object: { index, text: "é".repeat(size / 2) } },
      }),
    )
  }

  /** Sends due deliveries, for as long as this life lasts. `now` is monotonic. */
  run(router: () => Router, now: () => number): Effect.Effect<never, never, Journal> {
    for (const delivery of this.#open) this.#later(delivery, now() + 100)
    this.#open.clear()
    return Effect.forever(
      Effect.suspend(() => {
        const next = this.#waiting[0]
        if (next === undefined) return Effect.sleep(100)
        if (next.at > now()) return Effect.sleep(Math.min(Math.ceil(next.at - now()), 100))
        this.#waiting.shift()
        this.#open.add(next)
        return Effect.forkChild(this.#send(next, router, now))
      }),
    )
  }

  #send(delivery: Delivery, router: () => Router, now: () => number): Effect.Effect<void, never, Journal> {
    return Effect.gen({ self: this }, function* () {
      const journal = yield* Journal
      const { event, sinks } = decide(delivery.body, yield* Clock.currentTimeMillis, router())
      const exit = yield* Effect.exit(Effect.timeout(journal.append(event, sinks), answerTimeout))
      this.#open.delete(delivery)
      if (Exit.isSuccess(exit) || Cause.hasDies(exit.cause)) return
      // A few give up: what nobody acknowledged, nobody promised.
      if (this.#draw.chance(0.05)) return
      this.#later(delivery, now() + this.#draw.real(100, 1_000))
    })
  }

  #later(delivery: Delivery, at: number): void {
    delivery.at = at
    const index = this.#waiting.findIndex((other) => other.at > at)
    this.#waiting.splice(index === -1 ? this.#waiting.length : index, 0, delivery)
  }
}

const decide = (
  body: Uint8Array,
  receivedAt: number,
  router: Router,
): { readonly event: Event; readonly sinks: ReadonlyArray<string> } => {
  const facts = { webhook: "scheduling", webhookId: "wh_1", signature: "sha256=…", secret: "one", receivedAt, body }
  const decoded = Envelope.decode(body)
  if (Result.isFailure(decoded)) {
    const { problem } = decoded.failure
    return { event: { ...facts, id: "", type: "", accountId: "", problem }, sinks: [quarantine] }
  }
  const { id, account_id, data } = decoded.success
  const event = { ...facts, id, type: data.type, accountId: account_id }
  return isRelayEvent(data.type)
    ? { event: { ...event, problem: "event types that begin with relay. are the relay's own" }, sinks: [quarantine] }
    : { event, sinks: router.route("scheduling", decoded.success, receivedAt) }
}
