/** Guards against sinks, each removed on purpose. */
import type { Mutant } from "../Line.ts"

const transport = "src/runtime/HttpTransport.ts"
const answer = "src/sinks/http/HttpAnswer.ts"

export const mutants: ReadonlyArray<Mutant> = [
  {
    line: "sink-500",
    gone: "an event is given up after one attempt",
    file: "src/delivery/lane/Outcome.ts",
    find: "(retry.maxAttempts ?? endless)",
    replace: "1",
  },
  {
    line: "sink-429-retry-after",
    gone: "a throttled sink is asked all the same",
    file: "src/delivery/lane/CircuitBreaker.ts",
    find: "Math.max(this.#until, now + throttled(reason.retryAfter))",
    replace: "now",
  },
  {
    line: "sink-slow",
    gone: "an attempt has no deadline",
    file: "src/delivery/lane/InFlight.ts",
    find: "if (!this.#isOverdue(batch, now)) continue",
    replace: "if (fiber !== undefined) continue",
  },
  {
    line: "sink-endless",
    gone: "an answer is read to its end",
    file: "src/runtime/HttpTransport.ts",
    find: "!(await endsWithin(response.body, maxResponse, chunks))",
    replace: "(await response.arrayBuffer()).byteLength > maxResponse",
  },
  {
    line: "sink-redirects",
    gone: "redirects are followed",
    file: transport,
    find: `{ redirect: "manual", decompress: false,`,
    replace: `{ redirect: "follow", decompress: false,`,
  },
  {
    line: "sink-tls-expired",
    gone: "certificates are not verified",
    file: transport,
    find: "isPlain && pool === 0 ? {} : { tls: { ...tls, ...poolOptions(pool) } }",
    replace: "{ tls: { ...tls, rejectUnauthorized: false } }",
  },
  {
    line: "sink-poison",
    gone: "a refused event is tried for ever",
    file: answer,
    find: `? "misconfigured" : "reject"`,
    replace: `? "misconfigured" : "retry"`,
  },
  {
    line: "sink-away",
    gone: "what can't be reached is given up",
    file: answer,
    find: "? new SinkUnavailable(",
    replace: "? new DeliveryRejected(",
  },
  {
    line: "mail-server-killed",
    gone: "a mail counts as sent when its server goes away",
    file: "src/sinks/email/Email.ts",
    find: "Effect.mapError((error) => EmailErrors.sinkErrorOf(error, place)),",
    replace: "Effect.catch(() => Effect.succeed([])),",
  },
  {
    line: "nats-killed",
    gone: "a message counts as sent that no stream has acknowledged",
    file: "src/sinks/nats/Nats.ts",
    find: "if (Result.isSuccess(result)) continue",
    replace: "if (Result.isResult(result)) continue",
  },
  {
    line: "rabbitmq-killed",
    gone: "a message counts as sent that the broker has not confirmed",
    file: "src/sinks/rabbitmq/AmqpSession.ts",
    find: "queueMicrotask(() => settle(index, ended()))",
    replace: "queueMicrotask(() => settle(index))",
  },
]
