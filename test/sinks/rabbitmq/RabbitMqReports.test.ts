/** Cases from public reports about RabbitMQ (`test/reports/sinks.md`), with a real broker. */
import { expect } from "bun:test"
import { Effect } from "effect"
import { it } from "../../lib/effect.ts"
import { users } from "../../parts/RabbitMq.ts"
import { channelTo, makeQueue } from "../../parts/RabbitQueues.ts"
import { entry } from "../samples.ts"
import { openRabbitMq, withRabbit } from "./rabbitMqSink.ts"

withRabbit("RabbitMQ as reported", (rabbit) => {
  const url = () => rabbit().url()

  it.live("a queue that is full makes the lane wait, because every event goes to it", function* () {
    const queue = yield* makeQueue(url(), { exchange: "", "x-max-length": 1, "x-overflow": "reject-publish" })
    const sink = yield* openRabbitMq(() => ({ url: url(), routingKey: queue }))
    expect((yield* sink.send([entry(1)])).size).toBe(0)
    const failure = (yield* sink.send([entry(2)])).get(0)
    expect(failure?.reason).toMatchObject({
      _tag: "SinkThrottled",
      message: expect.stringContaining("reject-publish"),
    })
  })

  it.live("a queue that another connection owns gets events, so a check finds no problem", function* () {
    const channel = yield* channelTo(url())
    const { queue } = yield* Effect.promise(() => channel.assertQueue("", { exclusive: true }))
    const sink = yield* openRabbitMq(() => ({ url: url(), routingKey: queue }))
    yield* sink.check
    expect((yield* sink.send([entry(1)])).size).toBe(0)
  })

  it.live("an internal exchange needs another exchange, not a right", function* () {
    const channel = yield* channelTo(url())
    yield* Effect.promise(() => channel.assertExchange("inner", "topic", { internal: true, autoDelete: true }))
    const sink = yield* openRabbitMq(() => ({ url: url(), exchange: "inner", routingKey: "x" }))
    for (const failure of [(yield* sink.send([entry(1)])).get(0), yield* Effect.flip(sink.check)]) {
      expect(failure?.reason._tag).toBe("SinkMisconfigured")
      expect(failure?.message).toMatch(/the exchange is internal, .* \(ACCESS_REFUSED - cannot publish to internal/)
    }
  })

  it.live(
    "a virtual host without a connection left is not reported as missing",
    function* () {
      const limit = (call: string) => rabbit().evaluate(`rabbit_vhost_limit:${call}, <<"test">>).`)
      yield* Effect.acquireRelease(
        Effect.promise(() => limit('set(<<"a/b">>, [{<<"max-connections">>, 0}]')),
        () => Effect.promise(() => limit('clear(<<"a/b">>')),
      )
      const sink = yield* openRabbitMq(() => ({ url: rabbit().url(users.relay, "a/b"), routingKey: "x" }))
      const failure = yield* Effect.flip(sink.check)
      expect(failure.reason._tag).toBe("SinkUnavailable")
      expect(failure.message).toMatch(
        /has no connection left for the relay: raise the limit \(NOT_ALLOWED - .*connection limit \(0\) is reached\)$/,
      )
    },
    30_000,
  )

  it.live(
    "a user who may open no more channels is reported in the broker's words",
    function* () {
      const limits = (call: string) => rabbit().evaluate(`rabbit_auth_backend_internal:${call}, <<"test">>).`)
      yield* Effect.acquireRelease(
        Effect.promise(() => limits(`set_user_limits(<<"${users.reader}">>, #{<<"max-channels">> => 0}`)),
        () => Effect.promise(() => limits(`clear_user_limits(<<"${users.reader}">>, <<"max-channels">>`)),
      )
      const sink = yield* openRabbitMq(() => ({ url: rabbit().url(users.reader), routingKey: "x" }))
      const failure = (yield* sink.send([entry(1)])).get(0)
      expect(failure?.reason._tag).toBe("SinkUnavailable")
      expect(failure?.message).toMatch(/NOT_ALLOWED - number of channels opened for user 'reader' has reached/)
    },
    30_000,
  )
})
