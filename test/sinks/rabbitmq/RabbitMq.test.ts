import { expect } from "bun:test"
import { Effect } from "effect"
import type { Event } from "../../../src/event/Event.ts"
import { canary, entry } from "../../contract/sinkEntries.ts"
import { readPage } from "../../lib/docs.ts"
import { it } from "../../lib/effect.ts"
import { makeProxy } from "../../parts/Proxy.ts"
import { largest, rights, users } from "../../parts/RabbitMq.ts"
import { follow, makeExchange, makeQueue } from "../../parts/RabbitQueues.ts"
import { entry as sample } from "../samples.ts"
import { shapes } from "../shapes.ts"
import { openRabbitMq, withRabbit } from "./rabbitMqSink.ts"

withRabbit("the RabbitMQ sink against a real broker", (rabbit) => {
  const url = () => rabbit().url()

  /** An exchange, a queue behind it, and a sink to it. */
  const opened = Effect.fnUntraced(function* (
    more: () => object = () => ({}),
    queueMore: Readonly<Record<string, unknown>> = {},
  ) {
    const exchange = yield* makeExchange(url())
    const queue = yield* makeQueue(url(), { exchange, ...queueMore })
    const sink = yield* openRabbitMq(() => ({ url: url(), exchange, ...more() }))
    return { exchange, queue, sink }
  })

  const reasons = (failures: ReadonlyMap<number, { readonly reason: { readonly _tag: string } }>) =>
    [...failures].map(([index, { reason }]) => [index, reason._tag])
  const idsOf = (all: ReadonlyArray<{ readonly content: Buffer }>): ReadonlyArray<string> =>
    all.map(({ content }) => JSON.parse(content.toString()).id)
  const ofKey = (sequence: number, accountId: string, more: Partial<Event> = {}) =>
    entry(sequence, { accountId, ...more })

  it.live("a refusal of the target opens another connection: the name may lead to another broker now", function* () {
    const at = new URL(url())
    const proxy = yield* Effect.acquireRelease(
      Effect.promise(() => makeProxy(Number(at.port))),
      ({ close }) => Effect.promise(close),
    )
    at.port = String(proxy.port)
    const sink = yield* openRabbitMq(() => ({ url: at.href, routingKey: "no-queue" }))
    for (const number of [1, 2]) {
      expect(reasons(yield* sink.send([entry(number)]))).toEqual([[0, "SinkMisconfigured"]])
    }
    expect(proxy.taken()).toBeGreaterThan(1)
  })

  it.live(
    "a user with only the right to write to the exchange can publish, as docs/reference/rights.md says",
    function* () {
      const [, configure, write, read] =
        /set_permissions -p \/ relay '(.*)' '(.*)' '(.*)'/.exec(readPage("docs/reference/rights.md")) ?? []
      expect([configure, write, read]).toEqual([
        rights.configure,
        rights.write.replace("amq\\.topic", "bookings"),
        rights.read,
      ])
      const queue = yield* makeQueue(url(), { exchange: "amq.topic" })
      const limited = rabbit().url(users.limited)
      const sink = yield* openRabbitMq(() => ({
        url: limited,
        exchange: "amq.topic",
        routingKey: "appointment.created",
      }))
      yield* sink.check
      expect((yield* sink.send([entry(1)])).size).toBe(0)
      expect(yield* (yield* follow(url(), queue))(1)).toHaveLength(1)
    },
  )

  it.live("a message is persistent, has its type and its idempotency key, and the headers of its format", function* () {
    const { exchange, queue, sink } = yield* opened(() => ({
      routingKey: "events.{{type}}",
      headers: { region: "eu", account: "{{account_id}}" },
    }))
    const events = yield* openRabbitMq(() => ({ url: url(), exchange, format: "cloudevents" }))
    const received = yield* follow(url(), queue)
    const trace = { traceparent: `00-${"a".repeat(32)}-${"b".repeat(16)}-01` }
    const one = entry(1, { accountId: "acct_ü", trace, webhookId: "wh_1", signature: "sha256=AB" })
    yield* sink.send([one])
    yield* events.send([one])
    const [raw, event] = yield* received(2)
    expect(raw?.fields.routingKey).toBe(`events.${one.event.type}`)
    expect(raw?.properties).toMatchObject({
      contentType: "application/json",
      deliveryMode: 2,
      messageId: "evt_1",
      type: one.event.type,
      appId: "relay",
      timestamp: Math.floor(one.event.receivedAt / 1_000),
    })
    expect({ ...raw?.properties.headers }).toEqual({
      "idempotency-key": "evt_1",
      "x-relay-event-id": "evt_1",
      "x-relay-event-type": one.event.type,
      "x-service-signature": "sha256=AB",
      "x-service-webhook-id": "wh_1",
      traceparent: trace.traceparent,
      region: "eu",
      account: "acct_ü",
    })
    expect(event?.fields.routingKey).toBe(one.event.type)
    expect({ ...event?.properties.headers }).toMatchObject({
      "cloudEvents:specversion": "1.0",
      "cloudEvents:id": "evt_1",
      "cloudEvents:type": one.event.type,
      "cloudEvents:accountid": "acct_ü",
      "x-service-signature": "sha256=AB",
    })
    expect(event?.content.equals(raw?.content ?? Buffer.alloc(0))).toBe(true)
  })

  it.live("without an exchange events go to the routing key's queue; a virtual host may hold a slash", function* () {
    const other = rabbit().url(users.relay, "a/b")
    const queue = yield* makeQueue(other, { exchange: "" })
    const sink = yield* openRabbitMq(() => ({ url: other, routingKey: queue }))
    const received = yield* follow(other, queue)
    yield* sink.check
    yield* sink.send([entry(1)])
    expect(idsOf(yield* received(1))).toEqual(["evt_1"])
  })

  it.live("a client certificate is the login if the url names no user, with or without a password", function* () {
    const { ca, client, clientKey } = rabbit().certificates
    const bare = rabbit()
      .tlsUrl()
      .replace(/\/\/.*@/, "//")
    const queue = yield* makeQueue(rabbit().url(users.relay, "a/b"), { exchange: "" })
    // A virtual host that guest may not use.
    const url = bare.replace(/\/[^/]*$/, "/a%2Fb")
    const tls = { ca, certificate: client, key: clientKey }
    const sink = yield* openRabbitMq(() => ({ url, routingKey: queue, tls }))
    expect(reasons(yield* sink.send([entry(1)]))).toEqual([])
    const user = bare.replace("//", `//${users.relay}@`)
    const { sink: other } = yield* opened(() => ({ url: user, password: users.password, tls: { ca } }))
    expect(reasons(yield* other.send([entry(1)]))).toEqual([])
  })

  it.live("an event without a bound queue is rejected alone, and the rest of its batch arrives", function* () {
    const { queue, sink } = yield* opened(undefined, { key: "appointment.#" })
    const received = yield* follow(url(), queue)
    const failures = yield* sink.send([
      entry(1, { type: "appointment.created" }),
      entry(2, { type: "client.created" }),
      entry(3, { type: "appointment.created" }),
      // Another webhook's event with the same id.
      entry(3, { type: "client.created", webhook: "other" }),
    ])
    expect(reasons(failures)).toEqual([
      [1, "DeliveryRejected"],
      [3, "DeliveryRejected"],
    ])
    expect(failures.get(1)?.message).toMatch(/no queue is bound for the routing key "client.created"/)
    expect(idsOf(yield* received(2))).toEqual(["evt_1", "evt_3"])
  })

  it.live("a message that need not be mandatory is delivered once the exchange has it", function* () {
    const exchange = yield* makeExchange(url())
    const delayed = { headers: { "x-delay": "5000" }, mandatory: false }
    const sink = yield* openRabbitMq(() => ({ url: url(), exchange, ...delayed }))
    // An exchange that delays messages has no queue for them yet, and neither has this one.
    expect(reasons(yield* sink.send([entry(1)]))).toEqual([])
  })

  it.live("an event larger than the broker takes is rejected, and the rest of its batch is in order", function* () {
    const { queue, sink } = yield* opened()
    const received = yield* follow(url(), queue)
    const body = Buffer.alloc(largest + 1, "x")
    const failures = yield* sink.send([entry(1), entry(2), entry(3, { body }), entry(4), entry(5)])
    expect(reasons(failures)).toEqual([[2, "DeliveryRejected"]])
    expect(failures.get(2)?.message).toMatch(
      `of ${largest + 1} bytes is larger than the ${largest} that the broker takes`,
    )
    // Messages published before it may arrive again.
    let all: ReadonlyArray<string> = []
    for (let count = 4; new Set(all).size < 4; count++) all = idsOf(yield* received(count))
    expect([...new Set(all)]).toEqual(["evt_1", "evt_2", "evt_4", "evt_5"])
  })

  for (const { title, config, value } of shapes) {
    it.live(`a message has a body of the user's own, and not the sender's signature: ${title}`, function* () {
      const { queue, sink } = yield* opened(() => ({ sign: { secret: "one" }, ...config }))
      const received = yield* follow(url(), queue)
      expect(reasons(yield* sink.send([sample(1)]))).toEqual([])
      const [one] = yield* received(1)
      expect(JSON.parse(String(one?.content))).toEqual(value)
      expect(one?.properties.headers).not.toHaveProperty("x-service-signature")
      expect(one?.properties.headers).toHaveProperty("x-relay-signature")
    })
  }

  it.live("with order by key nothing overtakes an event that a full queue refused; other keys continue", function* () {
    const full = { "x-max-length": 1, "x-overflow": "reject-publish", key: "full" }
    const { exchange, sink } = yield* opened(() => ({ order: "key", routingKey: "{{resource}}" }), full)
    const open = yield* makeQueue(url(), { exchange, key: "open" })
    const received = yield* follow(url(), open)
    yield* sink.send([entry(1, { type: "full.x" })])
    const failures = yield* sink.send([
      ofKey(2, "a", { type: "open.x" }),
      ofKey(3, "a", { type: "full.x" }),
      ofKey(4, "a", { type: "open.x" }),
      ofKey(5, "b", { type: "open.x" }),
      ofKey(6, "b", { type: "open.x" }),
      ofKey(7, "", { type: "full.x" }),
      ofKey(8, "", { type: "open.x" }),
    ])
    expect(reasons(failures).toSorted()).toEqual([
      [1, "DeliveryFailed"],
      [2, "DeliveryFailed"],
      [5, "DeliveryFailed"],
    ])
    expect(failures.get(1)?.message).toMatch(/reject-publish/)
    expect(new Set(idsOf(yield* received(4)))).toEqual(new Set(["evt_2", "evt_5", "evt_6", "evt_8"]))
  })

  it.live("a check fails for missing parts, and sends nothing", function* () {
    const { exchange, queue, sink } = yield* opened()
    const failing = (more: object) =>
      Effect.flatMap(
        openRabbitMq(() => ({ url: url(), exchange, ...more })),
        ({ check }) => Effect.map(Effect.flip(check), ({ message }) => message),
      )
    expect(yield* failing({ exchange: "nowhere" })).toMatch(/exchange nowhere: there is no such exchange/)
    expect(yield* failing({ url: rabbit().url(users.reader) })).toMatch(/may not write to the exchange/)
    const limited = { url: rabbit().url(users.limited), exchange: "amq.topic" }
    expect(yield* failing({ ...limited, routingKey: "client.x" })).toMatch(/routing key "client.x": grant it/)
    expect(yield* failing({ url: rabbit().url(users.relay, "nowhere") })).toMatch(/virtual host nowhere/)
    const { check } = yield* openRabbitMq(() => ({ ...limited, routingKey: "appointment.x" }))
    yield* check
    // The routing key of a template is not known in advance.
    const { check: other } = yield* openRabbitMq(() => limited)
    yield* other
    const direct = yield* openRabbitMq(() => ({ url: url(), routingKey: "no-queue" }))
    expect((yield* Effect.flip(direct.check)).message).toMatch(/there is no queue "no-queue"/)
    yield* sink.check
    yield* sink.send([entry(1)])
    const received = yield* follow(url(), queue)
    expect(idsOf(yield* received(1))).toEqual(["evt_1"])
  })

  it.live("waits for a broker that is low on memory, and sends it the unconfirmed messages again", function* () {
    const { queue, sink } = yield* opened()
    const alarm = "{{resource_limit, memory, node()}, []}"
    // The alarm clears itself, so that no test leaves it set.
    const clears = "timer:sleep(3000), rabbit_alarm:clear_alarm({resource_limit, memory, node()})"
    yield* Effect.promise(() =>
      rabbit().evaluate(`rabbit_alarm:set_alarm(${alarm}), spawn(fun() -> ${clears} end), ok.`),
    )
    const told = yield* Effect.flip(sink.check)
    expect(told.reason._tag).toBe("SinkThrottled")
    // Messages that the broker read before the alarm are confirmed. After that, the sink publishes nothing.
    let failures = yield* sink.send([entry(1), entry(2)])
    if (failures.size === 0) failures = yield* sink.send([entry(3), entry(4)])
    expect(reasons(failures)[0]).toEqual([expect.any(Number), "SinkThrottled"])
    expect([...failures.values()][0]?.message).toMatch(/takes no messages, of anybody: low on memory/)
    expect(reasons(yield* sink.send([entry(5)]))).toEqual([[0, "SinkThrottled"]])
    let last = yield* sink.send([entry(6)])
    while (last.size > 0) {
      yield* Effect.sleep("100 millis")
      last = yield* sink.send([entry(6)])
    }
    const received = yield* follow(url(), queue)
    let all: ReadonlyArray<string> = []
    for (let count = 1; !all.includes("evt_6"); count++) all = idsOf(yield* received(count))
    expect(all).not.toContain("evt_5")
    expect(JSON.stringify([...failures.values()])).not.toContain(canary)
  })
})
