/** The whole program with RabbitMQ sinks, as a process. RELAY_UNDER selects the runtime, or the binary. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import type { Channel } from "amqplib"
import { Effect } from "effect"
import { bodies, deliver, writeConfig } from "../../lib/kit.ts"
import { suiteUnless } from "../../lib/lacking.ts"
import { relay, startRelay } from "../../lib/relay.ts"
import { temporaryDirectory } from "../../lib/temporaryRoot.ts"
import { bound, makeRabbit, type Rabbit, reasonToSkip, users } from "../../parts/RabbitMq.ts"
import { channelTo, follow } from "../../parts/RabbitQueues.ts"

suiteUnless(reasonToSkip(), "relay run with RabbitMQ sinks", () => {
  const cwd = temporaryDirectory("rabbitmq-run-")
  let rabbit: Rabbit
  beforeAll(async () => {
    rabbit = await makeRabbit()
  }, 60_000)
  afterAll(() => rabbit.stop())

  const onChannel = <A>(use: (channel: Channel) => Promise<A>): Promise<A> =>
    Effect.runPromise(Effect.scoped(Effect.flatMap(channelTo(rabbit.url()), (it) => Effect.promise(() => use(it)))))

  /** Reads until all of these have arrived. Returns all bodies read. */
  const readAll = (queue: string, sent: ReadonlyArray<string>): Promise<ReadonlyArray<string>> =>
    Effect.runPromise(
      Effect.scoped(
        Effect.gen(function* () {
          const received = yield* follow(rabbit.url(), queue)
          let all: ReadonlyArray<string> = []
          for (let count = sent.length; !sent.every((body) => all.includes(body)); count++) {
            all = (yield* received(count)).map(({ content }) => content.toString())
          }
          return all
        }),
      ),
    )

  test("starts while the broker is unavailable, and delivers when it is back, also after a kill and a freeze", async () => {
    const { config, url } = await writeConfig(cwd, {
      events: {
        type: "rabbitmq",
        url: rabbit.url(),
        exchange: bound.exchange,
        routingKey: "bound.{{resource}}",
        order: "key",
        requestTimeout: "500 millis",
        delivery: { retry: { initial: "100 millis", max: "300 millis" } },
      },
    })
    const validated = await relay(["validate", "-c", config], { cwd })
    expect(validated.code).toBe(1)
    expect(validated.stdout).toContain(`rabbitmq ${rabbit.address} can't be reached: nothing listens there`)
    const running = await startRelay(config, { cwd })
    const sent = bodies(60, 7)
    const send = async (from: number, to: number) => {
      for (const one of sent.slice(from, to)) expect(await deliver(url, one)).toBe(202)
    }
    await send(0, 10)
    await running.prints(`sink events does not deliver: rabbitmq ${rabbit.address} can't be reached`)
    await rabbit.start()
    expect((await relay(["validate", "-c", config], { cwd })).code).toBe(0)
    await send(10, 20)
    await readAll(bound.queue, sent.slice(0, 20))
    await rabbit.kill()
    await send(20, 40)
    await running.prints("sink events does not deliver: rabbitmq")
    await rabbit.start()
    await readAll(bound.queue, sent.slice(20, 40))
    rabbit.signal("SIGSTOP")
    await send(40, 60)
    await running.prints(`rabbitmq ${rabbit.address} does not answer`)
    rabbit.signal("SIGCONT")
    await readAll(bound.queue, sent.slice(40, 60))
    expect(await running.kill()).toBe(0)
    expect(running.stdout() + running.stderr()).not.toContain(users.password)
  }, 90_000)

  test("waits for a queue and a binding that are deleted, and delivers when they are made again", async () => {
    await rabbit.start()
    const delivery = { retry: { initial: "100 millis", max: "300 millis" } }
    const exchange = "amq.direct"
    const sink = { type: "rabbitmq", url: rabbit.url(), delivery }
    const { config, url } = await writeConfig(cwd, {
      queue: { ...sink, routingKey: "jobs" },
      binding: { ...sink, exchange, routingKey: "audit" },
    })
    const make = () =>
      onChannel(async (channel) => {
        await channel.assertQueue("jobs")
        await channel.assertQueue("audit")
        await channel.bindQueue("audit", exchange, "audit")
      })
    await make()
    const running = await startRelay(config, { cwd })
    const sent = bodies(24)
    for (const one of sent.slice(0, 2)) expect(await deliver(url, one)).toBe(202)
    await readAll("jobs", sent.slice(0, 2))
    await readAll("audit", sent.slice(0, 2))
    await onChannel(async (channel) => {
      await channel.deleteQueue("jobs")
      await channel.unbindQueue("audit", exchange, "audit")
    })
    for (const one of sent.slice(2)) expect(await deliver(url, one)).toBe(202)
    await running.prints('there is no queue "jobs": make it')
    await running.prints('no queue is bound for the routing key "audit": bind one')
    await make()
    await readAll("jobs", sent.slice(2))
    await readAll("audit", sent.slice(2))
    const letters = await relay(["dlq", "list", "--json", "-c", config], { cwd })
    expect(letters.code).toBe(0)
    expect(letters.stdout).not.toContain("evt_")
    expect(await running.kill()).toBe(0)
  }, 90_000)
})
