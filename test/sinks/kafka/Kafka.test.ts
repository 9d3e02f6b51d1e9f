import { describe, expect } from "bun:test"
import { Kafka as CloudEventsSdk, type KafkaMessage } from "cloudevents"
import { Effect } from "effect"
import type { Entry } from "../../../src/event/Event.ts"
import { partitionOf } from "../../../src/sinks/kafka/Kafka.ts"
import type { Failures } from "../../../src/sinks/Sink.ts"
import { it } from "../../lib/effect.ts"
import { consoleConsumer, largestRequest, user } from "../../parts/Kafka.ts"
import { makeProxy } from "../../parts/Proxy.ts"
import {
  allowWrite,
  follow,
  forbid,
  forbidCreate,
  type Kept,
  makeTopic,
  partitionsOf,
  settingsOf,
} from "../../parts/Topics.ts"
import { bytes, entries, entry, envelope, reasonOf } from "../samples.ts"
import { clients, openKafka, withBroker } from "./kafkaSink.ts"

const headersOf = ({ headers }: Kept): Record<string, string> =>
  Object.fromEntries([...headers].map(([name, value]) => [name.toString(), value.toString()]))

const reasons = (failures: Failures) =>
  Object.fromEntries([...failures].map(([index, { reason }]) => [index, reason._tag]))

const ids = (all: ReadonlyArray<Kept>) => all.map((message) => headersOf(message)["x-relay-event-id"])

/** An event with a body of about `size` bytes. */
const large = (sequence: number, size: number): Entry =>
  entry(sequence, { body: bytes(JSON.stringify(envelope(sequence, { text: "x".repeat(size) }))) })

withBroker("the Kafka sink against a real broker", (broker) => {
  for (const client of clients) {
    const plain = (more: Record<string, unknown>) => () => ({ client, brokers: [broker().plain], ...more })

    describe(client, () => {
      it.live("fans out by topic and places each key where any Kafka producer would", function* () {
        const topic = yield* Effect.promise(() => makeTopic(broker().plain, 5))
        const sink = yield* openKafka(
          plain({ topic: `${topic.split("-")[0]}-{{/data/object/to}}`, key: "{{account_id}}" }),
        )
        const received = yield* follow(broker().plain, [topic])
        const all = Array.from({ length: 40 }, (_, n) =>
          entry(n, {
            accountId: `acct_${n % 7}`,
            body: bytes(JSON.stringify(envelope(n, { to: topic.split("-")[1] }))),
          }),
        )
        expect((yield* sink.send(all)).size).toBe(0)
        for (const { key, partition } of yield* Effect.promise(() => received(40))) {
          expect(partition).toBe(partitionOf(key.toString(), 5))
        }
      })

      it.live("begins with the brokers of the config again after a refusal of the target", function* () {
        const wire = yield* Effect.acquireRelease(
          Effect.promise(() => makeProxy(Number(broker().plain.split(":")[1]))),
          ({ close }) => Effect.promise(close),
        )
        const sink = yield* openKafka(plain({ brokers: [`127.0.0.1:${wire.port}`], topic: "no-topic" }))
        const refused = Effect.gen(function* () {
          expect(reasons(yield* sink.send([entry(1)]))).toEqual({ 0: "SinkMisconfigured" })
          return wire.taken()
        })
        expect(yield* refused).toBeLessThan(yield* refused)
      })

      it.live("sends the signed bytes, with the sender's headers", function* () {
        const topic = yield* Effect.promise(() => makeTopic(broker().plain))
        const sink = yield* openKafka(plain({ topic, headers: { origin: "{{webhook}}/{{resource}}" } }))
        const received = yield* follow(broker().plain, [topic])
        yield* sink.send([entry(7)])
        const [one] = yield* Effect.promise(() => received(1))
        expect(one?.value).toEqual(Buffer.from(entry(7).event.body))
        expect(one && headersOf(one)).toEqual({
          "content-type": "application/json",
          "idempotency-key": "evt_7",
          "x-relay-event-id": "evt_7",
          "x-relay-event-type": "appointment.created",
          "x-service-signature": entry(7).event.signature,
          "x-service-webhook-id": "wh_1",
          origin: "scheduling/appointment",
        })
      })

      it.live("sends CloudEvents that the official SDK reads, and still the signed bytes", function* () {
        const topic = yield* Effect.promise(() => makeTopic(broker().plain))
        const sink = yield* openKafka(plain({ topic, format: "cloudevents" }))
        const received = yield* follow(broker().plain, [topic])
        yield* sink.send([entry(7)])
        const [one] = yield* Effect.promise(() => received(1))
        if (one === undefined) throw new Error("nothing came")
        expect(one.value).toEqual(Buffer.from(entry(7).event.body))
        const headers = headersOf(one)
        expect(headers["x-service-signature"]).toBe(entry(7).event.signature)
        const value = one.value.toString()
        const message: KafkaMessage = { headers, key: one.key.toString(), value, body: value }
        const read = CloudEventsSdk.toEvent(message)
        expect(read).toMatchObject({
          specversion: "1.0",
          id: "evt_7",
          source: "/webhooks/scheduling",
          type: "appointment.created",
          data: envelope(7),
        })
      })

      it.live("an event over the broker's limit is rejected alone; the others are delivered, in order", function* () {
        const topic = yield* Effect.promise(() => makeTopic(broker().plain, 1, { "max.message.bytes": "20000" }))
        const sink = yield* openKafka(plain({ topic }))
        const received = yield* follow(broker().plain, [topic])
        const all = [...entries(30), large(31, 30_000), ...entries(30, 32), large(62, 25_000), entry(63)]
        const failures = yield* sink.send(all)
        expect(reasons(failures)).toEqual({ 30: "DeliveryRejected", 61: "DeliveryRejected" })
        expect(failures.get(30)?.message).toMatch(/event of 30\d+ bytes .* max\.message\.bytes/)
        const expected = all.filter((_, index) => !failures.has(index)).map(({ event }) => event.id)
        expect(ids(yield* Effect.promise(() => received(expected.length)))).toEqual(expected)
      })

      it.live(
        "an event at which the broker disconnects is retried alone, and the message names the probable cause",
        function* () {
          const topic = yield* Effect.promise(() => makeTopic(broker().plain, 2))
          const sink = yield* openKafka(plain({ topic, key: "{{account_id}}" }))
          const received = yield* follow(broker().plain, [topic])
          const all = [entry(1), large(2, largestRequest), entry(3), entry(4, { accountId: "other" })]
          const failures = yield* sink.send(all)
          expect(reasons(failures)).toEqual({ 1: "DeliveryFailed", 2: "DeliveryFailed" })
          expect(failures.get(1)?.message).toMatch(
            /event of 4\d+ bytes.* probably larger than socket\.request\.max\.bytes/,
          )
          const sent = ids(yield* Effect.promise(() => received(2)))
          expect(new Set(sent)).toEqual(new Set(["evt_1", "evt_4"]))
        },
      )

      it.live("a compacted topic waits for a key in the config; events with a key pass", function* () {
        const topic = yield* Effect.promise(() => makeTopic(broker().plain, 1, { "cleanup.policy": "compact" }))
        const sink = yield* openKafka(plain({ topic, key: "{{account_id}}" }))
        const received = yield* follow(broker().plain, [topic])
        const of = (sequence: number, accountId: string) => entry(sequence, { accountId })
        const failures = yield* sink.send([of(1, "a"), of(2, ""), of(3, "b"), of(4, ""), of(5, "a")])
        expect(reasons(failures)).toEqual({ 1: "SinkMisconfigured", 3: "SinkMisconfigured" })
        const words = client === "platformatic" ? "Compacted topic cannot accept message without key" : "INVALID_RECORD"
        expect(failures.get(1)?.message).toContain(words)
        expect(failures.get(1)?.message).toMatch(/compacted \(cleanup\.policy\) .* set "key"/)
        expect(ids(yield* Effect.promise(() => received(3)))).toEqual(["evt_1", "evt_3", "evt_5"])
      })

      it.live("a tombstone without a key is a dead letter", function* () {
        const topic = yield* Effect.promise(() => makeTopic(broker().plain))
        const sink = yield* openKafka(plain({ topic, key: "{{/data/object/nowhere}}", tombstone: ["*.deleted"] }))
        const failures = yield* sink.send([entry(1, { type: "client.deleted" })])
        expect(failures.get(0)?.reason).toMatchObject({ _tag: "DeliveryRejected", ofEvent: true })
        expect(failures.get(0)?.message).toMatch(/a tombstone and has no key.*set "key"/)
      })

      it.live(
        "a tombstone removes its key from a compacted topic",
        function* () {
          const topic = yield* Effect.promise(() =>
            makeTopic(broker().plain, 1, {
              "cleanup.policy": "compact",
              "min.cleanable.dirty.ratio": "0.01",
              "segment.ms": "1000",
              "delete.retention.ms": "0",
            }),
          )
          const sink = yield* openKafka(plain({ topic, key: "{{id}}", tombstone: ["*.deleted"] }))
          const send = (id: string, type = "client.created") => sink.send([entry(1, { id, type })])
          /** The keys that a new consumer reads, up to this one. */
          const keysTo = (last: string) =>
            Effect.scoped(
              Effect.flatMap(follow(broker().plain, [topic]), (received) =>
                Effect.promise(async () => {
                  for (let count = 1; ; count++) {
                    const keys = (await received(count)).map(({ key }) => String(key))
                    if (keys.includes(last)) return keys
                  }
                }),
              ),
            )
          for (const id of ["kept", "removed"]) expect(yield* send(id)).toEqual(new Map())
          expect(yield* keysTo("removed")).toEqual(["kept", "removed"])
          expect(yield* send("removed", "client.deleted")).toEqual(new Map())
          // Kafka compacts a segment once a later record has started the next segment.
          for (let turn = 1; ; turn++) {
            yield* Effect.sleep("1100 millis")
            yield* send(`turn-${turn}`)
            const keys = yield* keysTo(`turn-${turn}`)
            expect(keys).toContain("kept")
            if (!keys.includes("removed")) break
          }
        },
        60_000,
      )

      it.live("a topic that is missing fails its own events; those to other topics pass", function* () {
        const topic = yield* Effect.promise(() => makeTopic(broker().plain))
        const sink = yield* openKafka(plain({ topic: "{{account_id}}" }))
        const received = yield* follow(broker().plain, [topic])
        const to = (sequence: number, accountId: string) => entry(sequence, { accountId })
        const failures = yield* sink.send([to(1, topic), to(2, "no-such-topic"), to(3, topic), to(4, "..")])
        expect(reasons(failures)).toEqual({ 1: "DeliveryFailed", 3: "DeliveryRejected" })
        expect(failures.get(1)?.message).toContain("topic no-such-topic: there is no such topic")
        expect(ids(yield* Effect.promise(() => received(2)))).toEqual(["evt_1", "evt_3"])
      })

      it.live("a topic that the user may not write to is named with the missing permission", function* () {
        const [open, closed] = yield* Effect.promise(() =>
          Promise.all([makeTopic(broker().plain), makeTopic(broker().plain)]),
        )
        yield* Effect.promise(() => forbid(broker().plain, closed, `User:${user.name}`))
        const login = {
          brokers: [broker().sasl],
          tls: { ca: broker().certificates.ca },
          sasl: { mechanism: "PLAIN", username: user.name, password: user.password },
        }
        const fixed = yield* openKafka(plain({ topic: closed, ...login }))
        const failure = (yield* fixed.send([entry(1)])).get(0)
        expect(failure?.reason._tag).toBe("SinkMisconfigured")
        expect(failure?.message).toContain(`topic ${closed}: the user lacks Write`)
        const templated = yield* openKafka(plain({ topic: "{{account_id}}", ...login }))
        const failures = yield* templated.send([entry(1, { accountId: closed }), entry(2, { accountId: open })])
        expect(reasons(failures)).toEqual({ 0: "DeliveryFailed" })
        if (client === "platformatic") {
          expect(yield* reasonOf(fixed.check)).toMatchObject({ _tag: "SinkMisconfigured" })
        }
      })

      it.live("a topic that the user may not create: the message names the missing right", function* () {
        const topic = `denied-to-${client}`
        yield* Effect.promise(() => forbidCreate(broker().plain, topic, `User:${user.name}`))
        const { sasl, certificates } = broker()
        const login = { mechanism: "PLAIN", username: user.name, password: user.password }
        const createTopics = { partitions: 1, replication: 1 }
        const sink = yield* openKafka(
          plain({ topic, createTopics, brokers: [sasl], tls: { ca: certificates.ca }, sasl: login }),
        )
        expect((yield* sink.send([entry(1)])).get(0)?.reason).toMatchObject({
          _tag: "SinkMisconfigured",
          message: expect.stringContaining(`topic ${topic}: the user lacks Create on the topic: grant it, or make`),
        })
      })

      it.live("creates missing topics only if configured, with partitions and copies", function* () {
        const name = `made-by-${client}.appointment`
        const sink = yield* openKafka(
          plain({ topic: `made-by-${client}.{{resource}}`, createTopics: { partitions: 4, replication: 1 } }),
        )
        yield* sink.check
        expect((yield* sink.send([entry(1)])).size).toBe(0)
        expect(yield* Effect.promise(() => partitionsOf(broker().plain, name))).toBe(4)
        const copies = yield* openKafka(
          plain({ topic: `copies-by-${client}`, createTopics: { partitions: 1, replication: 3 } }),
        )
        expect(yield* reasonOf(copies.send([entry(1)]))).toMatchObject({
          _tag: "SinkMisconfigured",
          message: expect.stringContaining("createTopics.replication"),
        })
      })

      it.live("creates compacted topics with a retention", function* () {
        const topic = `compacted-by-${client}`
        const createTopics = { partitions: 1, replication: 1, retention: "30 days", compact: true }
        const sink = yield* openKafka(plain({ topic, createTopics, key: "{{id}}" }))
        expect((yield* sink.send([entry(1)])).size).toBe(0)
        const settings = yield* Effect.promise(() => settingsOf(broker().plain, topic))
        expect(settings).toMatchObject({ "retention.ms": "2592000000", "cleanup.policy": "compact,delete" })
        expect(yield* sink.advise?.({ maxBody: 1_000 }) ?? Effect.succeed(["?"])).toEqual([])
      })

      it.live("warns of a compacted topic whose records have the account as the key", function* () {
        const topic = yield* Effect.promise(() => makeTopic(broker().plain, 1, { "cleanup.policy": "compact" }))
        const other = yield* Effect.promise(() => makeTopic(broker().plain))
        const advice = (of: string) =>
          Effect.flatMap(openKafka(plain({ topic: of })), ({ advise }) => advise?.({ maxBody: 1_000 }) ?? Effect.never)
        expect(yield* advice(topic)).toEqual([
          expect.stringMatching(
            /^topic \S+ is compacted .* all events of an account have the same key; name the object/,
          ),
        ])
        expect(yield* advice(other)).toEqual([])
      })

      it.live("checks only the topics of the types that routes send to the sink", function* () {
        const prefix = yield* Effect.promise(() => makeTopic(broker().plain))
        yield* Effect.promise(() => makeTopic(broker().plain, 1, {}, 1, `${prefix}.client`))
        const sink = yield* openKafka(plain({ topic: `${prefix}.{{resource}}` }))
        const advice = (eventTypes: ReadonlyArray<string>) =>
          sink.advise?.({ maxBody: 1_000, eventTypes }) ?? Effect.never
        expect(yield* advice(["client.created", "client.deleted"])).toEqual([])
        expect(yield* advice(["client.created", "block.created"])).toEqual([
          expect.stringContaining(`topic ${prefix}.block: there is no such topic`),
        ])
      })

      it.live("shows a client certificate if the broker requires one, and reports a missing one", function* () {
        const topic = yield* Effect.promise(() => makeTopic(broker().plain))
        const { ca, client: certificate, clientKey: key } = broker().certificates
        const at = { topic, brokers: [broker().mutual], requestTimeout: "3 seconds" }
        const own = yield* openKafka(plain({ ...at, tls: { ca, certificate, key } }))
        expect((yield* own.send([entry(1)])).size).toBe(0)
        const none = yield* openKafka(plain({ ...at, tls: { ca } }))
        const reason = yield* reasonOf(none.check)
        expect(reason?.message).toContain("certificate")
      })

      it.live("reports that one side speaks TLS and the other does not", function* () {
        const silent = yield* openKafka(plain({ topic: "t", brokers: [broker().tls] }))
        expect((yield* reasonOf(silent.check))?.message).toContain('"tls"')
        const secret = yield* openKafka(plain({ topic: "t", tls: {} }))
        expect((yield* reasonOf(secret.check))?.message).toContain('"tls"')
      })

      it.live("warns if the broker's limit is below the limit for deliveries, and if a topic is missing", function* () {
        const topic = yield* Effect.promise(() => makeTopic(broker().plain, 1, { "max.message.bytes": "50000" }))
        const sink = yield* openKafka(plain({ topic }))
        expect(yield* sink.advise?.({ maxBody: 40_000 }) ?? Effect.succeed(["?"])).toEqual([])
        const [warning] = (yield* sink.advise?.({ maxBody: 60_000 }) ?? Effect.succeed([])) ?? []
        expect(warning).toMatch(/takes 50000 bytes at most.*60000.*max\.message\.bytes.*maxBody/)
        const templated = yield* openKafka(plain({ topic: "gone.{{resource}}" }))
        const warnings = (yield* templated.advise?.({ maxBody: 1_000 }) ?? Effect.succeed([])) ?? []
        expect(warnings).toContainEqual(expect.stringContaining("topic gone.appointment: there is no such topic"))
      })

      it.live("the rights that docs/reference/rights.md names are enough, without a warning", function* () {
        const topic = yield* Effect.promise(() => makeTopic(broker().plain))
        yield* Effect.promise(() => allowWrite(broker().plain, topic, `User:${user.name}`))
        const { sasl, certificates } = broker()
        const login = { mechanism: "SCRAM-SHA-512", username: user.name, password: user.password }
        const sink = yield* openKafka(plain({ topic, brokers: [sasl], tls: { ca: certificates.ca }, sasl: login }))
        yield* sink.check
        expect(yield* sink.advise?.({ maxBody: 1_000 }) ?? Effect.succeed(["?"])).toEqual([])
        expect((yield* sink.send([entry(1)])).size).toBe(0)
      })

      it.live("warns of a broker that can't be reached while another can", function* () {
        const topic = yield* Effect.promise(() => makeTopic(broker().plain))
        const sink = yield* openKafka(plain({ topic, brokers: [broker().plain, "127.0.0.1:1"] }))
        yield* sink.check
        const warnings = (yield* sink.advise?.({ maxBody: 1_000 }) ?? Effect.succeed([])) ?? []
        expect(warnings).toEqual([expect.stringMatching(/^kafka 127\.0\.0\.1:1 can't be reached .*; .*correct it/)])
      })
    })
  }

  it.live(
    "Kafka's own console consumer reads what both clients send in every compression, byte for byte",
    function* () {
      const topic = yield* Effect.promise(() => makeTopic(broker().plain, 3))
      const sent: Array<string> = []
      const compressions = { platformatic: ["none", "gzip", "snappy", "lz4", "zstd"], kafkajs: ["none", "gzip"] }
      for (const client of clients) {
        for (const compression of compressions[client]) {
          const sink = yield* openKafka(() => ({ client, brokers: [broker().plain], topic, compression }))
          const some = entries(20, sent.length + 1)
          expect((yield* sink.send(some)).size).toBe(0)
          for (const { event } of some) sent.push(`${event.accountId}\t${Buffer.from(event.body).toString()}`)
        }
      }
      const read = consoleConsumer(broker().plain, topic, sent.length)
      const lines = read.split("\n").filter((line) => line !== "")
      expect(lines.map((line) => line.split("\t").slice(2).join("\t"))).toEqual(sent)
      expect(lines[0]).toContain(`x-service-signature:${entry(1).event.signature}`)
    },
    60_000,
  )
})
