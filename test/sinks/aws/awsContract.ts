/** The tests that the sinks of SNS, SQS and EventBridge share, against a server that fails on request. */
import { describe, expect, test } from "bun:test"
import { HTTP } from "cloudevents"
import { type Effect, Redacted, Schema, type Scope } from "effect"
import type { Entry } from "../../../src/event/Event.ts"
import type { Failures, Reason, Sink, SinkError } from "../../../src/sinks/Sink.ts"
import { it } from "../../lib/effect.ts"
import type { Received } from "../../parts/Queues.ts"
import { entries, entry, envelope, reasonOf } from "../samples.ts"
import type { Fate, Refusal } from "./awsServer.ts"

/** The server's failures: refused entries by their event's id, or the fate of each batch. */
export interface Failing {
  readonly refuse?: Readonly<Record<string, Refusal>>
  readonly fate?: Fate
}

export interface Started {
  readonly sink: Sink
  readonly url: string
  /** The ids of the events in each request. */
  readonly requests: () => ReadonlyArray<ReadonlyArray<string>>
  /** The bytes of each request, as AWS counts them. */
  readonly sizes: () => ReadonlyArray<number>
  /** The ids of the accepted events, in order. */
  readonly passed: () => ReadonlyArray<string>
}

/** An answer, the reason of the failure, and its message. */
export type Answer = readonly [title: string, fate: Fate, reason: Reason["_tag"], says: RegExp]

export interface AwsContract {
  readonly service: string
  readonly start: (failing?: Failing) => Effect.Effect<Started, SinkError, Scope.Scope>
  /** The largest request, in bytes. */
  readonly largest: number
  /** An event whose entry has about this many bytes. */
  readonly sized: (sequence: number, size: number) => Entry
  /** Sizes of events that need several requests. */
  readonly sizes: ReadonlyArray<number>
  /** Refusals of entries by their event's id, the reason of each, and parts of messages. */
  readonly refused: {
    readonly codes: Readonly<Record<string, Refusal>>
    readonly reasons: Readonly<Record<string, Reason["_tag"]>>
    readonly says: Readonly<Record<string, string>>
  }
  readonly answers: ReadonlyArray<Answer>
  /** Whether a check gets the same answers. */
  readonly checks: boolean
  /**
   * Whether the sink has already used the connection to query the target. If that connection is reset, Bun may send the
   * request again.
   */
  readonly keepsConnection?: boolean
  /** The name of the target in messages. */
  readonly target: (url: string) => string
  readonly config: Schema.Decoder<unknown>
  /** Keys of a config that works. */
  readonly valid: Readonly<Record<string, unknown>>
  /** Keys that can never work, each with a part of the message. */
  readonly wrong: ReadonlyArray<readonly [config: Readonly<Record<string, unknown>>, says: string]>
}

export const canary = "canary-of-an-answer"

/** The answer of a server that isn't the service. */
export const page = `<html>${canary}</html>`

export const reasons = (failures: Failures) =>
  Object.fromEntries([...failures].map(([index, { reason }]) => [index, reason._tag]))

export const awsContract = (contract: AwsContract): void => {
  const { service, start, largest, sized, refused, answers } = contract

  describe(`a request to ${service}`, () => {
    it.live(`holds ten messages, and never more bytes than ${service} counts`, function* () {
      const { sink, passed, requests, sizes } = yield* start()
      expect(sink.batch).toMatchObject({ maxEvents: 10, maxBytes: largest })
      const batch = contract.sizes.map((size, index) => sized(index + 1, size))
      expect((yield* sink.send(batch)).size).toBe(0)
      expect(passed()).toEqual(batch.map(({ event }) => event.id))
      expect(Math.max(...sizes())).toBeLessThanOrEqual(largest)
      expect((yield* sink.send(entries(25, 20))).size).toBe(0)
      expect(
        requests()
          .slice(-3)
          .map((ids) => ids.length),
      ).toEqual([10, 10, 5])
    })
  })

  describe(`a message that ${service} refuses`, () => {
    it.live("is settled by itself, by its code, or by SenderFault if the code doesn't decide", function* () {
      const { sink, passed } = yield* start({ refuse: refused.codes })
      const sent = entries(10)
      const failures = yield* sink.send(sent)
      expect(reasons(failures)).toEqual(refused.reasons)
      for (const [index, text] of Object.entries(refused.says)) {
        expect(failures.get(Number(index))?.message).toContain(text)
      }
      for (const { message } of failures.values()) expect(message).not.toContain("canary")
      const answers = [...failures.values()].flatMap(({ reason }) => reason.answer ?? []).map(Redacted.value)
      expect(answers).toContain("canary")
      expect(passed()).toEqual(sent.filter((_, index) => !failures.has(index)).map(({ event }) => event.id))
    })

    it.live("is not taken for passed when the answer forgets it", function* () {
      const { sink } = yield* start({ refuse: { evt_1: ["InternalError", false] }, fate: "forgets" })
      expect(reasons(yield* sink.send(entries(2)))).toEqual({ 0: "DeliveryFailed", 1: "DeliveryFailed" })
    })
  })

  describe(`an answer of ${service}`, () => {
    for (const [title, fate, reason, says] of answers) {
      it.live(
        `${title} is ${reason}${contract.checks ? ", to a check as well" : ""}, and is asked for once`,
        function* () {
          const { sink, url, requests } = yield* start({ fate })
          const failure = (yield* sink.send([entry(1)])).get(0)
          expect(failure?.reason._tag).toBe(reason)
          expect(failure?.message).toMatch(says)
          expect(failure?.message).toContain(contract.target(url))
          expect(failure?.message).not.toContain(canary)
          const most = fate === "reset" && contract.keepsConnection === true ? 2 : 1
          expect(requests().length).toBeLessThanOrEqual(most)
          expect(requests().length).toBeGreaterThan(0)
          if (contract.checks) expect((yield* reasonOf(sink.check))?._tag).toBe(reason)
        },
      )
    }
  })

  test(`the config of a sink of ${service} refuses values that could never work, with a reason`, () => {
    const decode = Schema.decodeUnknownSync(contract.config)
    expect(() => decode(contract.valid)).not.toThrow()
    for (const [config, says] of contract.wrong) expect(() => decode({ ...contract.valid, ...config })).toThrow(says)
  })
}

/** Tests the order of messages at a FIFO target. `start` opens a sink to one. */
export const fifoContract = (service: string, start: AwsContract["start"]): void => {
  const two = (sequence: number) => entry(sequence, { accountId: `acct_${sequence % 2}` })

  describe(`a FIFO target of ${service}`, () => {
    it.live("gets no message after a failed one of its key, and messages of other keys", function* () {
      const { sink, requests } = yield* start({ refuse: { evt_3: ["InternalError", false] } })
      const failures = yield* sink.send([1, 2, 3, 4, 5, 6, 7].map(two))
      expect(reasons(failures)).toEqual({ 2: "DeliveryFailed", 4: "DeliveryFailed", 6: "DeliveryFailed" })
      expect(requests()).toEqual([["evt_1", "evt_2"], ["evt_3", "evt_4"], ["evt_6"]])
    })
  })
}

export interface Opened {
  readonly sink: Sink
  readonly received: (count: number) => Effect.Effect<ReadonlyArray<Received>>
}

/** Tests the messages that reach a target of moto, which emulates AWS. `open` makes a target and opens a sink to it. */
export const messagesContract = (
  open: (fifo: boolean, config?: Record<string, unknown>) => Effect.Effect<Opened, SinkError, Scope.Scope>,
): void => {
  it.live("sends the signed bytes, and the facts about the event as attributes", function* () {
    const { sink, received } = yield* open(false)
    expect((yield* sink.send([entry(1)])).size).toBe(0)
    const [first] = yield* received(1)
    expect(first?.body).toBe(Buffer.from(entry(1).event.body).toString())
    expect(first?.attributes).toEqual({
      type: "appointment.created",
      resource: "appointment",
      account_id: "acct_1",
      event_id: "evt_1",
      idempotency_key: "evt_1",
      webhook_id: "wh_1",
      signature: entry(1).event.signature,
    })
  })

  it.live("sends CloudEvents that the official SDK reads", function* () {
    const { sink, received } = yield* open(false, { format: "cloudevents" })
    yield* sink.send([entry(7)])
    const [one] = yield* received(1)
    const headers = { "content-type": "application/cloudevents+json" }
    expect(HTTP.toEvent({ headers, body: one?.body ?? "" })).toMatchObject({
      specversion: "1.0",
      id: "evt_7",
      source: "/webhooks/scheduling",
      type: "appointment.created",
      data: envelope(7),
    })
  })

  it.live("keeps the order of each key on a FIFO target, which drops repeats", function* () {
    const { sink, received } = yield* open(true)
    const all = Array.from({ length: 30 }, (_, n) => entry(n + 1, { accountId: `acct_${n % 3}` }))
    for (const from of [0, 10, 20]) expect((yield* sink.send(all.slice(from, from + 10))).size).toBe(0)
    expect((yield* sink.send(all.slice(0, 10))).size).toBe(0)
    const kept = yield* received(30)
    expect(kept).toHaveLength(30)
    for (const [group, messages] of Map.groupBy(kept, (message) => message.group)) {
      const sent = all.filter(({ event }) => event.accountId === group).map(({ event }) => event.id)
      expect(messages.map(({ attributes }) => attributes.event_id)).toEqual(sent)
      expect(messages.map(({ deduplication }) => deduplication)).toEqual(sent.map((id) => `scheduling:${id}`))
    }
  })
}
