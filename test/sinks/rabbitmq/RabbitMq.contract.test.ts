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
    wrong: {
      "a broker that is not there": [
        openRabbitMq(() => ({ url: `amqp://relay:${canary}@127.0.0.1:1`, exchange: "events" })),
        "SinkUnavailable",
        ["127.0.0.1:1", /can't be reached/, /refused/],
      ],
      "what is no broker": [
        openRabbitMq(() => ({ url: `amqp://127.0.0.1:${other.port}`, exchange: "events" })),
        "SinkMisconfigured",
        [/no RabbitMQ/, '"url"'],
      ],
      "a wrong password": [
        openRabbitMq(() => ({ url: `amqp://relay:${canary}@${rabbit().address}`, exchange: "events" })),
        "SinkMisconfigured",
        [/refuses the user or its password/, '"password"'],
      ],
      "a virtual host that is not there": [
        openRabbitMq(() => ({ url: rabbit().url(users.relay, "nowhere"), exchange: "events" })),
        "SinkMisconfigured",
        [/virtual host nowhere is not there/, '"url"'],
      ],
      "a virtual host that does not let the user in": [
        openRabbitMq(() => ({ url: rabbit().url(users.relay, "closed"), exchange: "events" })),
        "SinkMisconfigured",
        [/virtual host closed .*does not let the user in/],
      ],
      "an exchange that is not there": [
        to("nowhere"),
        "SinkMisconfigured",
        ["exchange nowhere", /no such exchange/, '"exchange"'],
      ],
      "an exchange that the user may not write to": [
        to("amq.topic", () => ({ url: rabbit().url(users.reader) })),
        "SinkMisconfigured",
        ["exchange amq.topic", /may not write/, "set_permissions"],
      ],
      "a routing key that the user may not write with": [
        to("amq.topic", () => ({ url: rabbit().url(users.limited), routingKey: "client.all" })),
        "SinkMisconfigured",
        [/may not write with the routing key "client.all"/, "set_topic_permissions"],
      ],
      "a routing key out of a template that the user may not write with": [
        to("amq.topic", () => ({ url: rabbit().url(users.limited), routingKey: "client.{{id}}" })),
        "DeliveryFailed",
        [/may not write with the routing key "client.evt_1"/, "set_topic_permissions"],
      ],
      "a routing key that no queue is bound for": [
        to("amq.direct", () => ({ routingKey: "nobody" })),
        "SinkMisconfigured",
        ["exchange amq.direct", /no queue is bound for the routing key "nobody"/, '"routingKey"'],
      ],
      "a routing key out of a template that no queue is bound for": [
        to("amq.direct", () => ({ routingKey: "nobody.{{id}}" })),
        "DeliveryRejected",
        ["exchange amq.direct", /no queue is bound for the routing key "nobody.evt_1"/],
      ],
      "a queue that is not there": [
        openRabbitMq(() => ({ url: rabbit().url(), routingKey: "no-queue" })),
        "SinkMisconfigured",
        [/there is no queue "no-queue"/],
      ],
      "a routing key that is too long once the event has filled it in": [
        to("amq.topic", () => ({ routingKey: `${"k".repeat(255)}{{type}}` })),
        "DeliveryRejected",
        [/255 bytes at most/],
      ],
      "headers that are larger than a message can have": [
        to("amq.topic", () => ({ headers: { large: "x".repeat(70_000) } })),
        "DeliveryRejected",
        [/headers or routing key are larger/],
      ],
      "an authority that is not trusted": [
        openRabbitMq(() => ({
          ...tls(),
          exchange: "events",
          tls: { ca: rabbit().certificates.strangerCa },
        })),
        "SinkMisconfigured",
        [/certificate can't be trusted/, '"tls": { "ca"'],
      ],
      "TLS to a port that speaks none": [
        openRabbitMq(() => ({ url: rabbit().url().replace("amqp:", "amqps:"), exchange: "events" })),
        "SinkMisconfigured",
        [/speaks no TLS at this port/, '"amqp://"'],
      ],
      "no TLS to a port that speaks it": [
        openRabbitMq(() => ({ url: rabbit().tlsUrl().replace("amqps:", "amqp:"), exchange: "events" })),
        "SinkUnavailable",
        [/closes the connection at once/, '"amqps://"'],
      ],
      "a certificate file that is not there": [
        openRabbitMq(() => ({ ...tls(), exchange: "events", tls: { ca: "no-such.pem" } })),
        "SinkMisconfigured",
        ["tls.ca", "no-such.pem"],
      ],
    },
  })
})
