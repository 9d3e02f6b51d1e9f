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
    wrong: {
      "a broker that is not there": [
        openKafka(() => ({ ...base(), brokers: ["127.0.0.1:1"] })),
        "SinkUnavailable",
        ["127.0.0.1:1", /can't be reached/],
      ],
      "a wrong password": [
        openKafka(() => ({ ...base(), ...login(canary) })),
        "SinkMisconfigured",
        [/127\.0\.0\.1:\d+/, /password/, '"sasl"'],
      ],
      "an authority that is not trusted": [
        openKafka(() => ({ ...base(), tls: { ca: broker().certificates.strangerCa } })),
        "SinkMisconfigured",
        [/certificate can't be trusted/, '"tls": { "ca"'],
      ],
      "a certificate file that is not there": [
        openKafka(() => ({ ...base(), tls: { ca: "no-such.pem" } })),
        "SinkMisconfigured",
        ["tls.ca", "no-such.pem"],
      ],
      "a topic that is not there": [
        openKafka(() => ({ ...base(), topic: "nowhere" })),
        "SinkMisconfigured",
        ["topic nowhere", /no such topic/, '"createTopics"'],
      ],
      "a topic out of a template that is not there": [
        openKafka(() => ({ ...base(), topic: "nowhere.{{resource}}" })),
        "DeliveryFailed",
        ["topic nowhere.appointment", /no such topic/, '"createTopics"'],
      ],
      "a name that is too long once the event has filled it in": [
        openKafka(() => ({ ...base(), topic: `${"n".repeat(240)}.{{resource}}` })),
        "DeliveryRejected",
        ["topic nnn", /at most 249 letters, digits/],
      ],
    },
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
    schema: {
      type: "json",
      registry: { url: "https://registry.example.com", headers: { authorization: `Bearer ${canary}` } },
    },
  },
})

withBroker("the Kafka sink's contract against a real broker", (started) => {
  contract(started, "platformatic", "SCRAM-SHA-512")
  contract(started, "kafkajs", "SCRAM-SHA-256")
})
