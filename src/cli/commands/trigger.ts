/** `relay trigger TYPE`: sends correctly signed samples of an event type to a running relay. */
import { Clock, Duration, Effect, Option, Redacted, Schema } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import * as Address from "../../config/Address.ts"
import type { RelayConfig, Webhook } from "../../config/Config.ts"
import { isKnown, isRelayEvent } from "../../event/EventType.ts"
import * as Monotonic from "../../event/Monotonic.ts"
import { hmacSha256 } from "../../event/Signature.ts"
import { failed, unreachable, usage } from "../support/CommandError.ts"
import type { Answer } from "../support/deliver.ts"
import { Json, text, toggle } from "../support/flags.ts"
import { loadAsService } from "../support/loadConfig.ts"
import { count as counted, plain, print, printJson, say } from "../support/output.ts"
import { lazily } from "../support/Program.ts"
import { suggestType } from "../support/values.ts"

/** With more events than this, a summary is printed instead of each answer. */
const listed = 10
/** Maximum deliveries in flight. */
const inFlight = 64

const urlOf = ({ listen, tls }: RelayConfig, webhook: Webhook): string => {
  // The name does not matter for a socket, but Deno sends requests for localhost to a port.
  const host = listen.unix === undefined ? Address.format(Address.reachable(listen)) : "unix"
  return `${tls === undefined ? "http" : "https"}://${host}${webhook.path}`
}

/** Returns the name on the listener's certificate. */
const subjectOf = ({ certificates }: RelayConfig): string | undefined =>
  certificates.find(({ key }) => key === "tls.certificate")?.subject

const noneSuch = (name: Option.Option<string>): string =>
  Option.isNone(name) ? "the config has no webhook" : `there is no webhook ${plain(name.value)} in the config`

const pick = (config: RelayConfig, name: Option.Option<string>) => {
  const names = config.webhooks.map((webhook) => webhook.name)
  const [first] = config.webhooks
  const webhook = Option.isNone(name) ? first : config.webhooks.find((webhook) => webhook.name === name.value)
  return webhook === undefined
    ? Effect.fail(usage(`${noneSuch(name)}; it has ${names.join(", ") || "none"}`))
    : Effect.succeed(webhook)
}

/** Returns a secret that has not expired. */
const secretOf = (webhook: Webhook, now: number) => {
  const secret = webhook.secrets.find(({ expires }) => expires === undefined || now < expires)
  return secret === undefined
    ? Effect.fail(failed(`every secret of the webhook ${webhook.name} has expired`))
    : Effect.succeed(secret)
}

const percentile = (sorted: ReadonlyArray<number>, share: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0

const summarize = (answers: ReadonlyArray<Answer>, millis: number) => {
  const statuses = new Map<number, number>()
  for (const { status } of answers) statuses.set(status, (statuses.get(status) ?? 0) + 1)
  const latencies = answers.map((answer) => answer.millis).toSorted((a, b) => a - b)
  return {
    sent: answers.length,
    seconds: millis / 1000,
    statuses: Object.fromEntries(statuses),
    p50: percentile(latencies, 0.5),
    p99: percentile(latencies, 0.99),
  }
}

const unanswered = (url: string, patience: Duration.Duration): string =>
  `the server at ${url} does not answer within ${Duration.format(patience)}\n  A relay there hangs, or a firewall drops what is sent to it: \`relay status\` says whether the relay of this machine answers.`

const positive = Schema.Finite.check(Schema.isGreaterThan(0, { expected: "a number above 0" }))

export const trigger = Command.make(
  "trigger",
  {
    type: Argument.String("type").pipe(Argument.withDescription("Any event type, such as appointment.created")),
    count: Flag.Int("count").pipe(
      Flag.withAlias("n"),
      Flag.withDescription("Number of events, each with its own id"),
      Flag.withSchema(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 10_000_000 }))),
      Flag.withDefault(1),
    ),
    rate: Flag.Finite("rate").pipe(
      Flag.withDescription("Events per second (default: as fast as the relay responds)"),
      Flag.withSchema(positive),
      Flag.optional,
    ),
    tamper: toggle("tamper", "Change the body after signing; succeeds when the relay refuses it"),
    force: toggle("force", "Send a type that is not in the sender's catalogue"),
    webhook: text("webhook", "NAME", "The webhook to deliver to (default: the first of the config)"),
    account: text("account", "ID", "The account_id of the samples"),
    object: text("object", "ID", "The id of the samples' object, to match a recovery with its failure"),
    url: Flag.String("url").pipe(
      Flag.withMetavar("URL"),
      Flag.withDescription("The URL to send to (default: the config's listener)"),
      Flag.withSchema(
        Schema.String.check(Schema.isPattern(/^https?:\/\/[^\s]+$/, { expected: "an http or https URL" })),
      ),
      Flag.optional,
    ),
    ca: text("ca", "FILE", "PEM file of the authorities to trust, instead of the system's"),
  },
  Effect.fn(function* (flags) {
    const { type, count, tamper } = flags
    const json = yield* Json
    const { file, config } = yield* loadAsService
    if (!type.includes(".")) return yield* usage(`${plain(type)} is not an event type${suggestType(type)}`)
    if (!isKnown(type)) {
      const what = isRelayEvent(type)
        ? `${plain(type)} is an event of the relay itself, which no sender sends`
        : `${plain(type)} is not in the sender's catalogue${suggestType(type)}`
      if (!flags.force) return yield* usage(`${what}\n  --force sends it anyway.`)
      yield* say(what)
    }
    const webhook = yield* pick(config, flags.webhook)
    const secret = yield* secretOf(webhook, yield* Clock.currentTimeMillis)
    const url = Option.getOrElse(flags.url, () => urlOf(config, webhook))
    const unix = Option.isNone(flags.url) ? config.listen.unix : undefined
    const target = unix === undefined ? url : Address.format(config.listen)
    const [{ deliver, distrust, fetchTrusting, patience }, { failureOf, makeAt }] = yield* Effect.all([
      lazily(() => import("../support/deliver.ts")),
      lazily(() => import("../../runtime/HttpTransport.ts")),
    ])
    const delivery = {
      url,
      type,
      accountId: Option.getOrUndefined(flags.account),
      objectId: Option.getOrUndefined(flags.object),
      hmac: hmacSha256(Redacted.value(secret.value)),
      headers: webhook.headers,
      webhookId: webhook.ids[0],
      fetch: unix === undefined ? yield* fetchTrusting(flags.ca) : yield* makeAt(unix),
      tamper,
    }
    const started = yield* Monotonic.now
    const send = Effect.fnUntraced(function* (index: number) {
      if (Option.isSome(flags.rate)) {
        const due = started + (index * 1000) / flags.rate.value
        yield* Effect.sleep(Math.max(0, due - (yield* Monotonic.now)))
      }
      const answer = yield* Effect.mapError(deliver(delivery), (error) => {
        if (error._tag === "TimeoutError") return unreachable(unanswered(target, patience))
        return unreachable(
          distrust(failureOf(error), url, Option.isNone(flags.url) ? subjectOf(config) : undefined) ??
            `no relay answers at ${target}\n  Is it running? \`relay run\` starts it. The address is from ${file}; \`--config\` or \`--url\` choose another.`,
        )
      })
      if (!json && count <= listed) {
        yield* print(`${answer.status}  ${answer.eventId}${answer.detail === "" ? "" : `  ${plain(answer.detail)}`}`)
      }
      return answer
    })
    const answers = yield* Effect.forEach(Array(count).keys(), send, { concurrency: inFlight })
    const summary = summarize(answers, (yield* Monotonic.now) - started)
    if (json) yield* printJson(count <= listed ? { ...summary, answers } : summary)
    else if (count > listed) {
      const statuses = Object.entries(summary.statuses).map(([status, times]) => `${times} × ${status}`)
      yield* print(
        `${counted(count, "event")} in ${summary.seconds.toFixed(1)} s: ${statuses.join(", ")}; answered in ${summary.p50} ms (median), ${summary.p99} ms (99 %)`,
      )
    }
    const accepted = answers.filter(({ status }) => status >= 200 && status < 300).length
    if (tamper && accepted > 0) {
      return yield* failed(`${counted(accepted, "tampered delivery")} accepted, which must never happen`)
    }
    if (!tamper && accepted < count) {
      const refused = answers.find(({ status }) => status < 200 || status >= 300)
      return yield* failed(
        `${count - accepted} of ${count} refused; the first by ${refused?.status}: ${plain(refused?.detail ?? "")}${refused?.status === 404 ? `\n  Nothing receives at ${target}: another program listens there, or a relay with another config.` : ""}`,
      )
    }
  }, Effect.scoped),
).pipe(
  Command.withExamples([
    { command: "relay trigger appointment.created", description: "One event" },
    { command: "relay trigger client.updated --count 1000 --rate 100", description: "A thousand, a hundred a second" },
    {
      command: "relay trigger connected_account.reconnected --object cna_1",
      description: "The recovery of the refresh_failed that was sent with this id",
    },
    { command: "relay trigger client.updated --ca ca.pem", description: "To a relay with a custom certificate" },
    { command: "relay trigger service.deleted --tamper", description: "A forged delivery, which must be refused" },
  ]),
)
