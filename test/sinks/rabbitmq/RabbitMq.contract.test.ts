import { afterAll } from "bun:test"
import { Effect } from "effect"
import { sinkContract } from "../../contract/sinkContract.ts"
import { canary } from "../../contract/sinkEntries.ts"
import { sinkTypeContract } from "../../contract/sinkTypeContract.ts"
import { connectionsTo } from "../../lib/connections.ts"
import { largest, users } from "../../parts/RabbitMq.ts"
import { follow, makeExchange, makeQueue } from "../../parts/RabbitQueues.ts"
import { openRabbitMq, withRabbit } from "./rabbitMqSink.ts"

sinkTypeContract({
  type: "rabbitmq",
  carriesTrace: true,
  config: {
    url: `amqps://relay:${canary}@rabbit.example.com/events`,
    exchange: "events",
    tls: { certificate: "cert.pem", key: canary },
  },
})

withRabbit("the RabbitMQ sink's contract against a real broker", (rabbit) => {
  const other = Bun.listen({
    hostname: "127.0.0.1",
    port: 0,
    socket: { open: (socket) => void socket.write("SSH-2.0-OpenSSH_9.9\r\n"), data: () => {} },
  })
  afterAll(() => other.stop(true))

  const tls = () => ({ url: rabbit().tlsUrl(), tls: { ca: rabbit().certificates.ca } })
  const port = () => Number(new URL(rabbit().tlsUrl()).port)
  const to = (exchange: string, more: () => object = () => ({})) =>
    openRabbitMq(() => ({ url: rabbit().url(), exchange, ...more() }))

  sinkContract("the RabbitMQ sink, over TLS", {
    maxBody: largest,
    make: Effect.gen(function* () {
      const exchange = yield* makeExchange(rabbit().url())
      const queue = yield* makeQueue(rabbit().url(), { exchange })
      const received = yield* follow(rabbit().url(), queue)
      return {
        open: openRabbitMq(() => ({ ...tls(), exchange })),
        received: (count) => Effect.map(received(count), (all) => all.map(({ content }) => content)),
        held: Effect.sync(() => connectionsTo(port())),
      }
    }),
    wrong: [
      {
        title: "a broker that is not there",
        open: openRabbitMq(() => ({ url: `amqp://relay:${canary}@127.0.0.1:1`, exchange: "events" })),
        reason: "SinkUnavailable",
        says: ["127.0.0.1:1", /can't be reached/, /refused/],
      },
      {
        title: "what is no broker",
        open: openRabbitMq(() => ({ url: `amqp://127.0.0.1:${other.port}`, exchange: "events" })),
        reason: "SinkMisconfigured",
        says: [/no RabbitMQ/, '"url"'],
      },
      {
        title: "a wrong password",
        open: openRabbitMq(() => ({ url: `amqp://relay:${canary}@${rabbit().address}`, exchange: "events" })),
        reason: "SinkMisconfigured",
        says: [/refuses the user or its password/, '"password"'],
      },
      {
        title: "a virtual host that is not there",
        open: openRabbitMq(() => ({ url: rabbit().url(users.relay, "nowhere"), exchange: "events" })),
        reason: "SinkMisconfigured",
        says: [/virtual host nowhere is not there/, '"url"'],
      },
      {
        title: "a virtual host that does not let the user in",
        open: openRabbitMq(() => ({ url: rabbit().url(users.relay, "closed"), exchange: "events" })),
        reason: "SinkMisconfigured",
        says: [/virtual host closed .*does not let the user in/],
      },
      {
        title: "an exchange that is not there",
        open: to("nowhere"),
        reason: "SinkMisconfigured",
        says: ["exchange nowhere", /no such exchange/, '"exchange"'],
      },
      {
        title: "an exchange that the user may not write to",
        open: to("amq.topic", () => ({ url: rabbit().url(users.reader) })),
        reason: "SinkMisconfigured",
        says: ["exchange amq.topic", /may not write/, "set_permissions"],
      },
      {
        title: "a routing key that the user may not write with",
        open: to("amq.topic", () => ({ url: rabbit().url(users.limited), routingKey: "client.all" })),
        reason: "SinkMisconfigured",
        says: [/may not write with the routing key "client.all"/, "set_topic_permissions"],
      },
      {
        title: "a routing key out of a template that the user may not write with",
        open: to("amq.topic", () => ({ url: rabbit().url(users.limited), routingKey: "client.{{id}}" })),
        reason: "DeliveryFailed",
        says: [/may not write with the routing key "client.evt_1"/, "set_topic_permissions"],
      },
      {
        title: "a routing key that no queue is bound for",
        open: to("amq.direct", () => ({ routingKey: "nobody" })),
        reason: "SinkMisconfigured",
        says: ["exchange amq.direct", /no queue is bound for the routing key "nobody"/, '"routingKey"'],
      },
      {
        title: "a routing key out of a template that no queue is bound for",
        open: to("amq.direct", () => ({ routingKey: "nobody.{{id}}" })),
        reason: "DeliveryRejected",
        says: ["exchange amq.direct", /no queue is bound for the routing key "nobody.evt_1"/],
      },
      {
        title: "a queue that is not there",
        open: openRabbitMq(() => ({ url: rabbit().url(), routingKey: "no-queue" })),
        reason: "SinkMisconfigured",
        says: [/there is no queue "no-queue"/],
      },
      {
        title: "a routing key that is too long once the event has filled it in",
        open: to("amq.topic", () => ({ routingKey: `${"k".repeat(255)}{{type}}` })),
        reason: "DeliveryRejected",
        says: [/255 bytes at most/],
      },
      {
        title: "headers that are larger than a message can have",
        open: to("amq.topic", () => ({ headers: { large: "x".repeat(70_000) } })),
        reason: "DeliveryRejected",
        says: [/headers or routing key are larger/],
      },
      {
        title: "an authority that is not trusted",
        open: openRabbitMq(() => ({
          ...tls(),
          exchange: "events",
          tls: { ca: rabbit().certificates.strangerCa },
        })),
        reason: "SinkMisconfigured",
        says: [/certificate can't be trusted/, '"tls": { "ca"'],
      },
      {
        title: "TLS to a port that speaks none",
        open: openRabbitMq(() => ({ url: rabbit().url().replace("amqp:", "amqps:"), exchange: "events" })),
        reason: "SinkMisconfigured",
        says: [/speaks no TLS at this port/, '"amqp://"'],
      },
      {
        title: "no TLS to a port that speaks it",
        open: openRabbitMq(() => ({ url: rabbit().tlsUrl().replace("amqps:", "amqp:"), exchange: "events" })),
        reason: "SinkUnavailable",
        says: [/closes the connection at once/, '"amqps://"'],
      },
      {
        title: "a certificate file that is not there",
        open: openRabbitMq(() => ({ ...tls(), exchange: "events", tls: { ca: "no-such.pem" } })),
        reason: "SinkMisconfigured",
        says: ["tls.ca", "no-such.pem"],
      },
    ],
  })
})
