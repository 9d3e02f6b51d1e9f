/**
 * The RabbitMQ sink: one persistent message an event, by AMQP 0-9-1, delivered when
 * the broker has confirmed it.
 *
 * **Guarantee.** If the lane keeps `order: key`, events of one key are received in
 * order, also across retries: of each key one message waits for its confirm at a
 * time, and nothing overtakes a failed message. A message that no queue is bound for
 * fails alone: it is published as mandatory, unless the config says otherwise.
 *
 * **Gotcha.** Confirmed does not mean durable. It depends on the broker's queues
 * whether messages survive its restart.
 */
import { Clock, Duration, Effect, Redacted, type Scope } from "effect"
import * as Address from "../../config/Address.ts"
import type { Entry } from "../../event/Event.ts"
import { displayBytes } from "../../formats/Rendering.ts"
import * as Template from "../../formats/Template.ts"
import * as Certificates from "../Certificates.ts"
import * as Connections from "../Connections.ts"
import { smaller } from "../MessageKeys.ts"
import { type Placed, renderEach } from "../Rendered.ts"
import { type Failures, isFinal, passed, type Sink, type SinkError, type SinkType, unacceptable } from "../Sink.ts"
import { doubts, encoder, longestKey, type Message, RabbitMqConfig, urlOf } from "./RabbitMqConfig.ts"
import * as RabbitMqErrors from "./RabbitMqErrors.ts"
import { type AmqpError, amqpError, blocked, timedOut } from "./RabbitMqErrors.ts"

/** The first message of each key, and every message without a key. */
const firstOfEachKey = (waiting: ReadonlyArray<Placed<Message>>): ReadonlyArray<Placed<Message>> => {
  const keys = new Set<string>()
  return waiting.filter(({ message: { key } }) => key === "" || (!keys.has(key) && keys.add(key)))
}

const noKey = unacceptable(`a routing key has ${longestKey} bytes at most: shorten "routingKey"`)
const unfit = (message: Message) => (Buffer.byteLength(message.routingKey) > longestKey ? noKey : undefined)

const make = Effect.fnUntraced(function* (config: RabbitMqConfig): Effect.fn.Return<Sink, SinkError, Scope.Scope> {
  const url = urlOf(config)
  const tls = config.tls && (yield* Certificates.read(config.tls))
  const { open } = yield* Effect.promise(() => import("./AmqpSession.ts"))
  const { exchange = "", routingKey = "{{type}}", mandatory = true, order } = config
  const timeout = Duration.toMillis(config.requestTimeout)
  const opening = open({ url, password: config.password && Redacted.value(config.password), tls, timeout })
  const isTemplated = Template.hasPlaceholder(routingKey)
  const server = Address.format(url.address)
  const place = { server, isTls: url.isTls, vhost: url.vhost, exchange, isTemplated, smaller: smaller(config) }
  const clock = yield* Clock.Clock
  const encode = encoder(config, () => clock.currentTimeMillisUnsafe())
  const use = yield* Connections.pooled(opening, "10 minutes")

  const fault = (error: AmqpError, message?: Message): SinkError =>
    RabbitMqErrors.sinkErrorOf(error, {
      ...place,
      ...(message !== undefined ? { routingKey: message.routingKey } : !isTemplated && { routingKey }),
      bytes: message?.body.length ?? 0,
    })

  /** Publishes some messages, within a number of milliseconds. Returns their errors by index in the lane's batch. */
  const publish = (
    some: ReadonlyArray<Placed<Message>>,
    left: number,
  ): Effect.Effect<ReadonlyMap<number, AmqpError>> => {
    const ofAll = (error: AmqpError) => new Map(some.keys().map((at) => [at, error] as const))
    const messages = some.map(({ message }) => message)
    return use(
      (session) => {
        // A message published to a broker that currently reads nothing would be published twice.
        const alarm = session.blocked()
        if (alarm !== undefined) return Effect.succeed(ofAll(amqpError(blocked, alarm)))
        return session.publish({ exchange, mandatory }, messages, left)
      },
      (errors, session) =>
        session.isOpen() && ![...errors].some(([at, error]) => Connections.mayHaveMoved(fault(error, messages[at]))),
    ).pipe(
      Effect.catch((error) => Effect.succeed(ofAll(error))),
      Effect.map((errors) => new Map([...errors].map(([at, error]) => [(some[at] as Placed<Message>).index, error]))),
    )
  }

  const deliver = Effect.fnUntraced(function* (
    placed: ReadonlyArray<Placed<Message>>,
    failures: Map<number, SinkError>,
  ) {
    const deadline = performance.now() + timeout
    const ofKey = order === "key"
    let waiting = placed
    let isAlone = false
    while (waiting.length > 0) {
      const some: ReadonlySet<Placed<Message>> = new Set(
        isAlone ? waiting.slice(0, 1) : ofKey ? firstOfEachKey(waiting) : waiting,
      )
      const errors: ReadonlyMap<number, AmqpError> = yield* publish(
        [...some],
        Math.max(1, deadline - performance.now()),
      )
      const end = [...errors.values()].find(RabbitMqErrors.isConnections)
      const isForOne = end !== undefined && RabbitMqErrors.isOneMessages(end)
      // One of them closed the channel, but it isn't known which. Those without a confirm are sent again, each alone.
      const isAgain = isForOne && some.size > 1
      isAlone ||= isAgain
      const stops = new Map<string, SinkError>()
      for (const { index, message } of some) {
        const error = errors.get(index)
        if (error === undefined || (isAgain && error === end)) continue
        const failure = fault(error, message)
        failures.set(index, failure)
        if (ofKey && message.key !== "" && !isFinal(failure)) stops.set(message.key, failure)
      }
      const stop = end !== undefined && !isForOne ? fault(end) : undefined
      waiting = waiting.filter((one) => {
        if (some.has(one)) return isAgain && errors.get(one.index) === end
        const failure = stop ?? stops.get(one.message.key)
        if (failure !== undefined) failures.set(one.index, failure)
        return failure === undefined
      })
    }
  })

  const send = Effect.fnUntraced(function* (batch: ReadonlyArray<Entry>): Effect.fn.Return<Failures, SinkError> {
    const failures = new Map<number, SinkError>()
    const placed = renderEach(batch, encode, failures, unfit)
    if (placed.length > 0) yield* deliver(placed, failures)
    return failures
  })

  const { maxEvents, maxBytes, linger } = config.batch
  return {
    batch: { maxEvents, maxBytes, linger: Duration.toMillis(linger) },
    send: (batch) => (batch.length === 0 ? passed : send(batch)),
    check: Effect.scoped(
      Effect.flatMap(opening, (session) => session.check(exchange, isTemplated ? undefined : routingKey)),
    ).pipe(
      Effect.timeoutOrElse({ duration: timeout, orElse: () => Effect.fail(amqpError(timedOut)) }),
      Effect.mapError((error) => fault(error)),
    ),
  }
})

export const RabbitMq: SinkType<RabbitMqConfig> = {
  config: RabbitMqConfig,
  doubts,
  libraries: ["amqplib"],
  concurrency: 1,
  open: make,
  preview: (config, batch) =>
    batch.map(encoder(config)).map(({ routingKey, messageId, type, contentType, timestamp, headers, body }) => ({
      ...(config.exchange !== undefined && { exchange: config.exchange }),
      routingKey,
      properties: { contentType, messageId, ...(type !== "" && { type }), timestamp },
      headers,
      body: displayBytes(body),
    })),
}
