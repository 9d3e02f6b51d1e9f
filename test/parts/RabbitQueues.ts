/** Queues of a test's own, and the messages in them. */
import { type ConsumeMessage, connect } from "amqplib"
import { Effect, type Scope } from "effect"

let made = 0

/** Opens a channel, which closes with the scope. */
export const channelTo = (url: string) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.promise(async () => {
        const model = await connect(url)
        model.on("error", () => {})
        return { model, channel: await model.createChannel() }
      }),
      ({ model }) => Effect.promise(() => model.close().catch(() => undefined)),
    ),
    ({ channel }) => channel,
  )

/** Makes a durable queue bound to a topic exchange (default: by all keys). Returns its name. */
export const makeQueue = (
  url: string,
  {
    exchange = "amq.topic",
    key = "#",
    ...more
  }: { readonly exchange?: string; readonly key?: string } & Readonly<Record<string, unknown>> = {},
): Effect.Effect<string> =>
  Effect.scoped(
    Effect.flatMap(channelTo(url), (channel) =>
      Effect.promise(async () => {
        const queue = `queue-${made++}`
        await channel.assertQueue(queue, { durable: true, arguments: more })
        if (exchange !== "") await channel.bindQueue(queue, exchange, key)
        return queue
      }),
    ),
  )

/** Makes a topic exchange for one test. Returns its name. */
export const makeExchange = (url: string): Effect.Effect<string> =>
  Effect.scoped(
    Effect.flatMap(channelTo(url), (channel) =>
      Effect.promise(async () => {
        const exchange = `exchange-${made++}`
        await channel.assertExchange(exchange, "topic", { durable: true })
        return exchange
      }),
    ),
  )

/** Reads a queue. Waits for `count` messages, and returns all that were received since the start, in order. */
export const follow = (
  url: string,
  queue: string,
): Effect.Effect<(count: number) => Effect.Effect<ReadonlyArray<ConsumeMessage>>, never, Scope.Scope> =>
  Effect.flatMap(channelTo(url), (channel) =>
    Effect.promise(async () => {
      const all: Array<ConsumeMessage> = []
      await channel.consume(queue, (message) => message && all.push(message), { noAck: true })
      return (count) =>
        Effect.promise(async () => {
          while (all.length < count) await Bun.sleep(2)
          return [...all]
        })
    }),
  )

/** Removes all messages that are in a queue now. Returns their bodies, in order. */
export const drain = (url: string, queue: string): Promise<ReadonlyArray<Buffer>> =>
  Effect.runPromise(
    Effect.scoped(
      Effect.flatMap(channelTo(url), (channel) =>
        Effect.promise(async () => {
          const all: Array<Buffer> = []
          await channel.consume(queue, (message) => message && all.push(message.content))
          let seen = -1
          while (seen < all.length || (await channel.checkQueue(queue)).messageCount > 0) {
            seen = all.length
            await Bun.sleep(200)
          }
          if (all.length > 0) channel.ackAll()
          // The answer to this comes after all acknowledgements.
          await channel.close()
          return all
        }),
      ),
    ),
  )
