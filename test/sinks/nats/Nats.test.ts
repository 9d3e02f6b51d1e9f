import { describe, expect } from "bun:test"
import { DiscardPolicy } from "@nats-io/jetstream"
import { connect } from "@nats-io/transport-node"
import { HTTP } from "cloudevents"
import { Effect } from "effect"
import type { Event } from "../../../src/event/Event.ts"
import { connectionsTo } from "../../lib/connections.ts"
import { it } from "../../lib/effect.ts"
import { startNats } from "../../parts/Nats.ts"
import { makeProxy } from "../../parts/Proxy.ts"
import { type Stored, streamName } from "../../parts/Streams.ts"
import { preview } from "../preview.ts"
import { bytes, entry, envelope, reasonOf } from "../samples.ts"
import { shapes } from "../shapes.ts"
import { openNats, reasons, streamOn, withNats } from "./natsSink.ts"

const ids = (all: ReadonlyArray<Stored>) => all.map(({ headers }) => headers["x-relay-event-id"])

/** An event with a body of about `size` bytes. */
const large = (sequence: number, size: number) =>
  entry(sequence, { body: bytes(JSON.stringify(envelope(sequence, { text: "x".repeat(size) }))) })

withNats("the NATS sink against a real server", (plain) => {
  const stream = streamOn(plain)
  const open = (config: () => Record<string, unknown>) => openNats(() => ({ servers: [plain().server], ...config() }))

  it.live("a refusal of the target opens another connection: the name may lead to another server now", function* () {
    const proxy = yield* Effect.acquireRelease(
      Effect.promise(() => makeProxy(plain().port)),
      ({ close }) => Effect.promise(close),
    )
    const sink = yield* open(() => ({ servers: [`127.0.0.1:${proxy.port}`], subject: "no.stream" }))
    for (const number of [1, 2]) {
      expect(reasons(yield* sink.send([entry(number)]))).toEqual({ 0: "SinkMisconfigured" })
    }
    expect(proxy.taken()).toBeGreaterThan(1)
  })

  describe("a message", () => {
    it.live("is the signed bytes, with the sender's headers", function* () {
      const { name, received } = yield* stream()
      const sink = yield* open(() => ({
        subject: `${name}.{{type}}`,
        headers: { origin: "{{webhook}}/{{resource}}" },
      }))
      yield* sink.send([entry(7, { id: "evt_ü" })])
      const [one] = yield* Effect.promise(() => received(1))
      expect(one?.body).toEqual(new Uint8Array(entry(7).event.body))
      expect(one).toMatchObject({ subject: `${name}.appointment.created` })
      expect(one?.headers).toEqual({
        "content-type": "application/json",
        "idempotency-key": "evt_%C3%BC",
        "x-relay-event-id": "evt_%C3%BC",
        "x-relay-event-type": "appointment.created",
        "x-service-signature": entry(7).event.signature,
        "x-service-webhook-id": "wh_1",
        origin: "scheduling/appointment",
        "Nats-Msg-Id": `scheduling:evt_%C3%BC ${name}.appointment.created`,
      })
    })

    it.live("is a CloudEvent in binary mode that the official SDK reads, and still the signed bytes", function* () {
      const { name, received } = yield* stream()
      const sink = yield* open(() => ({ subject: `${name}.events`, format: "cloudevents" }))
      yield* sink.send([entry(7)])
      const [one] = yield* Effect.promise(() => received(1))
      expect(one?.body).toEqual(new Uint8Array(entry(7).event.body))
      const { "ce-datacontenttype": contentType = "", ...headers } = one?.headers ?? {}
      expect(headers).not.toHaveProperty("content-type")
      // The SDK has the HTTP binding only, which differs in this header alone.
      const read = HTTP.toEvent({ headers: { ...headers, "content-type": contentType }, body: String(one?.body) })
      expect(read).toMatchObject({ id: "evt_7", source: "/webhooks/scheduling", type: "appointment.created" })
    })

    it.live("to another subject of the same stream is not a duplicate", function* () {
      const { name, received } = yield* stream()
      const [one, other] = yield* Effect.all([
        open(() => ({ subject: `${name}.one` })),
        open(() => ({ subject: `${name}.other` })),
      ])
      for (const sink of [one, other, one]) expect((yield* sink.send([entry(1)])).size).toBe(0)
      expect((yield* Effect.promise(() => received(2))).map(({ subject }) => subject)).toEqual([
        `${name}.one`,
        `${name}.other`,
      ])
    })

    it.effect("has the values of an event as one or more legal words in its subject", () =>
      Effect.sync(() => {
        const subjectOf = (event: Partial<Event>) =>
          preview("nats", { servers: ["nats:4222"], subject: "events.{{account_id}}" }, entry(1, event)).subject
        expect(subjectOf({ accountId: "acct 1 *>\r\nPUB x 0" })).toBe("events.acct_1_____PUB_x_0")
      }),
    )

    for (const { title, config, value } of shapes) {
      it.live(`has a body of the user's own, and not the sender's signature: ${title}`, function* () {
        const { name, received } = yield* stream()
        const sink = yield* open(() => ({ subject: `${name}.events`, sign: { secret: "one" }, ...config }))
        expect((yield* sink.send([entry(1)])).size).toBe(0)
        const [one] = yield* Effect.promise(() => received(1))
        expect(JSON.parse(Buffer.from(one?.body ?? "").toString())).toEqual(value)
        expect(one?.headers).not.toHaveProperty("x-service-signature")
        expect(one?.headers).toHaveProperty("x-relay-signature")
      })
    }

    it.live("without a legal subject is rejected by itself", function* () {
      const { name, received } = yield* stream()
      const sink = yield* open(() => ({ subject: `${name}.{{account_id}}` }))
      const all = ["a", "", "..", "b"].map((accountId, index) => entry(index, { accountId }))
      expect(reasons(yield* sink.send(all))).toEqual({ 1: "DeliveryRejected", 2: "DeliveryRejected" })
      expect(ids(yield* Effect.promise(() => received(2))).toSorted()).toEqual(["evt_0", "evt_3"])
    })
  })

  describe("a batch", () => {
    it.live("keeps the order of each key", function* () {
      const { name, received } = yield* stream()
      const sink = yield* open(() => ({ subject: `${name}.events` }))
      const all = Array.from({ length: 200 }, (_, n) => entry(n, { accountId: `acct_${n % 7}` }))
      expect((yield* sink.send(all)).size).toBe(0)
      const numbers = ids(yield* Effect.promise(() => received(200))).map((id) => Number(id?.slice(4)))
      for (const one of Map.groupBy(numbers, (number) => number % 7).values())
        expect(one).toEqual(one.toSorted((a, b) => a - b))
    })

    it.live(
      "sends nothing of a key past a retried message; other keys, and events without one, are delivered",
      function* () {
        const prefix = streamName()
        const { received } = yield* stream({ subjects: [`${prefix}.open`] })
        const sink = yield* open(() => ({ subject: `${prefix}.{{type}}`, key: "{{account_id}}" }))
        const to = (sequence: number, type: string, accountId: string) => entry(sequence, { type, accountId })
        const failures = yield* sink.send([
          to(1, "open", "a"),
          to(2, "closed", "a"),
          to(3, "open", "a"),
          to(4, "open", "b"),
          to(5, "closed", ""),
          to(6, "open", ""),
        ])
        expect(reasons(failures)).toEqual({ 1: "DeliveryFailed", 2: "DeliveryFailed", 4: "DeliveryFailed" })
        expect(ids(yield* Effect.promise(() => received(3))).toSorted()).toEqual(["evt_1", "evt_4", "evt_6"])
      },
    )
    it.live(
      "rejects a message that is too large for the server or the stream, alone; the others are delivered, in order",
      function* () {
        const { name, received } = yield* stream({ max_msg_size: 20_000 })
        const sink = yield* open(() => ({ subject: `${name}.events` }))
        const all = [entry(1), large(2, 30_000), entry(3), large(4, 1024 * 1024), entry(5)]
        const failures = yield* sink.send(all)
        expect(reasons(failures)).toEqual({ 1: "DeliveryRejected", 3: "DeliveryRejected" })
        expect(failures.get(1)?.message).toMatch(/event of 30\d+ bytes.* max_msg_size.* 10054/)
        expect(failures.get(3)?.message).toMatch(/event of 10\d+ bytes.* max_payload/)
        expect(ids(yield* Effect.promise(() => received(3)))).toEqual(["evt_1", "evt_3", "evt_5"])
      },
    )

    it.live("waits for a full stream, and continues when there is space", function* () {
      const { name, purge } = yield* stream({ max_msgs: 2, discard: DiscardPolicy.New })
      const sink = yield* open(() => ({ subject: `${name}.events` }))
      const failures = yield* sink.send([entry(1), entry(2), entry(3), entry(4)])
      expect(reasons(failures)).toEqual({ 2: "SinkThrottled", 3: "SinkThrottled" })
      expect(failures.get(2)?.message).toMatch(/the stream is full/)
      yield* Effect.promise(purge)
      expect((yield* sink.send([entry(3)])).size).toBe(0)
      const templated = yield* open(() => ({ subject: `${name}.{{type}}` }))
      expect(reasons(yield* templated.send([entry(5), entry(6)]))).toEqual({ 1: "DeliveryFailed" })
    })

    it.live("is not acknowledged by another listener on its subject", function* () {
      const subject = `${streamName()}.service`
      const service = yield* Effect.acquireRelease(
        Effect.promise(() => connect({ servers: plain().server })),
        (service) => Effect.promise(() => service.close()),
      )
      for (const answer of ['{"ok":true}', "ok"]) {
        const answering = service.subscribe(subject, { callback: (_, message) => void message.respond(answer) })
        yield* Effect.promise(() => service.flush())
        const sink = yield* open(() => ({ subject }))
        const failure = (yield* sink.send([entry(1)])).get(0)
        expect(failure?.reason._tag).toBe("SinkMisconfigured")
        expect(failure?.message).toContain("what answers on this subject is no stream")
        answering.unsubscribe()
      }
    })
  })

  describe("check and advice", () => {
    it.live("report the limits of a stream and the server, and types without a stream", function* () {
      const prefix = streamName()
      const { name } = yield* stream({ subjects: [`${prefix}.appointment.>`], max_msg_size: 50_000 })
      const sink = yield* open(() => ({ subject: `${prefix}.{{type}}` }))
      yield* sink.check
      const advice = (yield* sink.advise?.({ maxBody: 2 * 1024 * 1024 }) ?? Effect.succeed([])).join("\n")
      expect(advice).toContain(`the stream ${name} takes 50000 bytes at most`)
      expect(advice).toMatch(/NATS 127\.0\.0\.1:\d+ takes 1048576 bytes at most, .* raise max_payload/)
      expect(advice).toContain(`subject ${prefix}.client.updated: no stream takes this subject`)
      const fits = yield* open(() => ({ subject: `${prefix}.appointment.created` }))
      expect(yield* fits.advise?.({ maxBody: 10_000 }) ?? Effect.succeed(["none"])).toEqual([])
    })

    it.live("report a stream that acknowledges nothing", function* () {
      const { name } = yield* stream({ no_ack: true })
      const sink = yield* open(() => ({ subject: `${name}.events` }))
      expect((yield* reasonOf(sink.check))?.message).toContain("acknowledges nothing (no_ack)")
    })
  })

  describe("a connection", () => {
    it.live("that ends is reopened for the undelivered events", function* () {
      const own = yield* Effect.acquireRelease(
        Effect.promise(() => startNats()),
        (own) => Effect.promise(own.stop),
      )
      const { name, received } = yield* streamOn(() => own)()
      const sink = yield* openNats(() => ({ servers: ["127.0.0.1:1", own.server], subject: `${name}.events` }))
      expect((yield* sink.send([entry(1)])).size).toBe(0)
      yield* Effect.promise(own.kill)
      // The first message reveals the lost connection. The second finds no server to connect to.
      for (const _ of [1, 2]) {
        const failed = Effect.flatMap(sink.send([entry(2)]), (failures) => failures.get(0) ?? Effect.void)
        expect((yield* reasonOf(failed))?._tag).toBe("SinkUnavailable")
      }
      yield* Effect.promise(own.start)
      expect((yield* sink.send([entry(2), entry(3)])).size).toBe(0)
      expect(ids(yield* Effect.promise(() => received(3)))).toEqual(["evt_1", "evt_2", "evt_3"])
    })

    it.live("to a server that hangs is abandoned, and no part of it stays open", function* () {
      const own = yield* Effect.acquireRelease(
        Effect.promise(() => startNats()),
        (own) => Effect.promise(own.stop),
      )
      own.signal("SIGSTOP")
      const sink = yield* openNats(() => ({ servers: [own.server], subject: "events" }))
      const reason = yield* reasonOf(sink.check)
      expect(reason).toMatchObject({ _tag: "SinkUnavailable", message: `NATS ${own.server} does not answer` })
      expect(connectionsTo(own.port)).toBe(0)
    })

    it.live("to a server that isn't NATS is reported as such", function* () {
      const other = yield* Effect.acquireRelease(
        Effect.sync(() =>
          Bun.listen({
            hostname: "127.0.0.1",
            port: 0,
            socket: { open: (socket) => void socket.write("SSH-2.0-OpenSSH_9.9\r\n"), data: () => {} },
          }),
        ),
        (other) => Effect.sync(() => other.stop(true)),
      )
      const sink = yield* openNats(() => ({ servers: [`127.0.0.1:${other.port}`], subject: "events" }))
      expect(yield* reasonOf(sink.check)).toMatchObject({
        _tag: "SinkMisconfigured",
        message: expect.stringContaining("no NATS server"),
      })
    })
  })
})
