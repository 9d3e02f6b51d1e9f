/** Kafka, by both clients, against Apache Kafka. */
import { once } from "node:events"
import { readFileSync } from "node:fs"
import { type AddressInfo, createServer } from "node:net"
import { createServer as createTlsServer } from "node:tls"
import { Effect } from "effect"
import { reasonToSkip, sharedBroker, user } from "../../parts/Kafka.ts"
import { forbid, makeTopic } from "../../parts/Topics.ts"
import { clients, openKafka } from "../kafka/kafkaSink.ts"
import { reasonOf } from "../samples.ts"
import type { Cause, Part } from "./Cause.ts"

const causes = async (): Promise<ReadonlyArray<Cause>> => {
  const { plain, tls, mutual, sasl, scram, certificates } = await sharedBroker()
  const [topic, closed] = [await makeTopic(plain), await makeTopic(plain)]
  await forbid(plain, closed, `User:${user.name}`)
  const deaf = createServer((socket) => socket.destroy())
    .listen(0, "127.0.0.1")
    .unref()
  await once(deaf, "listening")
  const { ca, client: certificate, clientKey: key, strangerCa } = certificates
  // The certificate is for the host `client`.
  const misnamed = createTlsServer({ cert: readFileSync(certificate), key: readFileSync(key) }, (socket) =>
    socket.end(),
  )
    .listen(0, "127.0.0.1")
    .unref()
  await once(misnamed, "listening")
  const login = { username: user.name, password: user.password }
  const own = { ca, certificate, key }
  const stranger = { ...own, certificate: strangerCa, key: strangerCa.replace(/pem$/, "key") }
  const [PLAIN, SCRAM] = [
    { mechanism: "PLAIN", ...login },
    { mechanism: "SCRAM-SHA-512", ...login },
  ]
  const wrong: ReadonlyArray<readonly [name: string, todo: string, config: Record<string, unknown>]> = [
    [
      "a wrong password (PLAIN)",
      'correct "sasl"',
      { brokers: [sasl], tls: { ca }, sasl: { ...PLAIN, password: "no" } },
    ],
    [
      "a wrong password (SCRAM)",
      'correct "sasl"',
      { brokers: [sasl], tls: { ca }, sasl: { ...SCRAM, password: "no" } },
    ],
    ["a mechanism that is not enabled", 'change "sasl.mechanism"', { brokers: [scram], tls: own, sasl: PLAIN }],
    ["a login is wanted, none is set", 'set "sasl"', { brokers: [sasl], tls: { ca } }],
    ["a login at a port without one", 'take "sasl" out', { brokers: [plain], sasl: PLAIN }],
    ["a login at a port with TLS alone", 'take "sasl" out', { brokers: [tls], tls: { ca }, sasl: PLAIN }],
    ["TLS is wanted, none is set", 'set "tls"', { brokers: [tls] }],
    ["TLS is wanted for the login, none is set", 'set "tls"', { brokers: [sasl], sasl: PLAIN }],
    ["TLS at a port without it", 'take "tls" out', { brokers: [plain], tls: {} }],
    ["TLS and a login at a port without either", 'take "tls" out', { brokers: [plain], tls: {}, sasl: PLAIN }],
    ["a client certificate is wanted, none is set", '"certificate" and "key"', { brokers: [mutual], tls: { ca } }],
    [
      "a client certificate is wanted for the login, none is set",
      '"certificate" and "key"',
      { brokers: [scram], tls: { ca }, sasl: SCRAM },
    ],
    ["a client certificate that the broker refuses", '"certificate" and "key"', { brokers: [mutual], tls: stranger }],
    [
      "a broker's certificate for another host name",
      'correct the host in "brokers"',
      { brokers: [`127.0.0.1:${(misnamed.address() as AddressInfo).port}`], tls: { ca } },
    ],
    ["a broker's certificate of another authority", '"ca"', { brokers: [tls], tls: { ca: strangerCa } }],
    [
      "a topic that the user may not write to",
      "grant it",
      { brokers: [sasl], tls: { ca }, sasl: PLAIN, topic: closed },
    ],
    ["a topic that is missing", '"createTopics"', { brokers: [plain], topic: "no-such-topic" }],
    [
      "a broker that closes the connection at once",
      "",
      { brokers: [`127.0.0.1:${(deaf.address() as AddressInfo).port}`] },
    ],
    ["nothing listens there", "", { brokers: ["127.0.0.1:1"] }],
  ]
  return clients.flatMap((client) =>
    wrong.map(([name, todo, config]) => ({
      name: `${client}: ${name}`,
      todo,
      reason: Effect.flatMap(
        openKafka(() => ({ client, topic, requestTimeout: "5 seconds", ...config })),
        ({ check }) => reasonOf(check),
      ),
    })),
  )
}

export const kafka: Part = { title: "Kafka", lacking: reasonToSkip, causes }
