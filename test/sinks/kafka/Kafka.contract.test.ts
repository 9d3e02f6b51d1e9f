import { Effect } from "effect"
import { sinkContract } from "../../contract/sinkContract.ts"
import { canary } from "../../contract/sinkEntries.ts"
import { sinkTypeContract } from "../../contract/sinkTypeContract.ts"
import { connectionsTo } from "../../lib/connections.ts"
import { type Broker, user } from "../../parts/Kafka.ts"
import { follow, makeTopic } from "../../parts/Topics.ts"
import { openKafka, withBroker } from "./kafkaSink.ts"

const contract = (broker: () => Broker, client: "platformatic" | "kafkajs", mechanism: string): void => {
  const login = (password = user.password) => ({
    tls: { ca: broker().certificates.ca },
    sasl: { mechanism, username: user.name, password },
  })
  const base = () => ({ client, brokers: [broker().sasl], topic: "events", ...login() })
  sinkContract(`the Kafka sink by ${client}, ${mechanism} over TLS`, {
    maxBody: 1024 * 1024,
    make: Effect.gen(function* () {
      const topic = yield* Effect.promise(() => makeTopic(broker().plain))
      const received = yield* follow(broker().plain, [topic])
      return {
        open: openKafka(() => ({ ...base(), topic })),
        received: (count) =>
          Effect.map(
            Effect.promise(() => received(count)),
            (all) => all.map(({ value }) => value),
          ),
        held: Effect.sync(() => connectionsTo(Number(broker().sasl.split(":")[1]))),
      }
    }),
    wrong: [
      {
        title: "a broker that is not there",
        open: openKafka(() => ({ ...base(), brokers: ["127.0.0.1:1"] })),
        reason: "SinkUnavailable",
        says: ["127.0.0.1:1", /can't be reached/],
      },
      {
        title: "a wrong password",
        open: openKafka(() => ({ ...base(), ...login(canary) })),
        reason: "SinkMisconfigured",
        says: [/127\.0\.0\.1:\d+/, /password/, '"sasl"'],
      },
      {
        title: "an authority that is not trusted",
        open: openKafka(() => ({ ...base(), tls: { ca: broker().certificates.strangerCa } })),
        reason: "SinkMisconfigured",
        says: [/certificate can't be trusted/, '"tls": { "ca"'],
      },
      {
        title: "a certificate file that is not there",
        open: openKafka(() => ({ ...base(), tls: { ca: "no-such.pem" } })),
        reason: "SinkMisconfigured",
        says: ["tls.ca", "no-such.pem"],
      },
      {
        title: "a topic that is not there",
        open: openKafka(() => ({ ...base(), topic: "nowhere" })),
        reason: "SinkMisconfigured",
        says: ["topic nowhere", /no such topic/, '"createTopics"'],
      },
      {
        title: "a topic out of a template that is not there",
        open: openKafka(() => ({ ...base(), topic: "nowhere.{{resource}}" })),
        reason: "DeliveryFailed",
        says: ["topic nowhere.appointment", /no such topic/, '"createTopics"'],
      },
      {
        title: "a name that is too long once the event has filled it in",
        open: openKafka(() => ({ ...base(), topic: `${"n".repeat(240)}.{{resource}}` })),
        reason: "DeliveryRejected",
        says: ["topic nnn", /at most 249 letters, digits/],
      },
    ],
  })
}

sinkTypeContract({
  type: "kafka",
  carriesTrace: true,
  config: {
    brokers: ["broker:9092"],
    topic: "events",
    sasl: { mechanism: "PLAIN", username: "relay", password: canary },
    tls: { certificate: "cert.pem", key: canary },
  },
})

withBroker("the Kafka sink's contract against a real broker", (started) => {
  contract(started, "platformatic", "SCRAM-SHA-512")
  contract(started, "kafkajs", "SCRAM-SHA-256")
})
