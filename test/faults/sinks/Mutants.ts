/** Guards against sinks, each removed on purpose. */
import { mutantsOf } from "../Line.ts"

const transport = "src/runtime/HttpTransport.ts"
const answer = "src/sinks/http/HttpAnswer.ts"

export const mutants = mutantsOf({
  "sink-500": {
    "an event is given up after one attempt": ["src/delivery/lane/Outcome.ts", "(retry.maxAttempts ?? endless)", "1"],
  },
  "sink-429-retry-after": {
    "a throttled sink is asked all the same": [
      "src/delivery/lane/CircuitBreaker.ts",
      "Math.max(this.#until, now + throttled(reason.retryAfter))",
      "now",
    ],
  },
  "sink-slow": {
    "an attempt has no deadline": [
      "src/delivery/lane/InFlight.ts",
      "if (!this.#isOverdue(batch, now)) continue",
      "if (fiber !== undefined) continue",
    ],
  },
  "sink-endless": {
    "an answer is read to its end": [
      "src/runtime/HttpTransport.ts",
      "!(await endsWithin(response.body, limit, chunks))",
      "(await response.arrayBuffer()).byteLength > limit",
    ],
  },
  "sink-redirects": {
    "redirects are followed": [
      transport,
      `{ redirect: "manual", decompress: false,`,
      `{ redirect: "follow", decompress: false,`,
    ],
  },
  "sink-tls-expired": {
    "certificates are not verified": [
      transport,
      "isPlain && pool === 0 ? {} : { tls: { ...tls, ...poolOptions(pool) } }",
      "{ tls: { ...tls, rejectUnauthorized: false } }",
    ],
  },
  "sink-poison": {
    "a refused event is tried for ever": [answer, `? "misconfigured" : "reject"`, `? "misconfigured" : "retry"`],
  },
  "sink-away": {
    "what can't be reached is given up": [answer, "? new SinkUnavailable(", "? new DeliveryRejected("],
  },
  "mail-server-killed": {
    "a mail counts as sent when its server goes away": [
      "src/sinks/email/Email.ts",
      "Effect.mapError((error) => EmailErrors.sinkErrorOf(error, place)),",
      "Effect.catch(() => Effect.succeed([])),",
    ],
  },
  "nats-killed": {
    "a message counts as sent that no stream has acknowledged": [
      "src/sinks/nats/Nats.ts",
      "if (Result.isSuccess(result)) continue",
      "if (Result.isResult(result)) continue",
    ],
  },
  "rabbitmq-killed": {
    "a message counts as sent that the broker has not confirmed": [
      "src/sinks/rabbitmq/AmqpSession.ts",
      "queueMicrotask(() => settle(index, ended()))",
      "queueMicrotask(() => settle(index))",
    ],
  },
})
