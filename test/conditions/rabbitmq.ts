/** The RabbitMQ sink under each condition. */
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import type { Channel, Options } from "amqplib"
import { Effect } from "effect"
import { bodyOf } from "../faults/relay/Traffic.ts"
import { largest, makeRabbit, type Rabbit, reasonToSkip, sharedRabbit } from "../parts/RabbitMq.ts"
import { channelTo, drain } from "../parts/RabbitQueues.ts"
import type { Column } from "./Column.ts"
import * as Wires from "./Wires.ts"

const on = Wires.on(reasonToSkip())

const { largeBodies, numberIn, sized, special } = Wires

/** Uses a channel of its own. */
const onChannel = <A>({ url }: Rabbit, use: (channel: Channel) => Promise<A>): Promise<A> =>
  Effect.runPromise(Effect.scoped(Effect.flatMap(channelTo(url()), (channel) => Effect.promise(() => use(channel)))))

const declare = (rabbit: Rabbit, queue: string, options: Options.AssertQueue = {}) =>
  onChannel(rabbit, (channel) => channel.assertQueue(queue, { durable: true, ...options }))

/** Reads a queue and deletes it. */
const remove = async ({ rabbit, queue, arrived }: RabbitTarget) => {
  await arrived()
  await onChannel(rabbit, (channel) => channel.deleteQueue(queue))
}

/** Collects the numbers of the events in a queue. A queue that is missing has none. */
const arrivedAt = (rabbit: Rabbit, queue: string) => {
  const numbers: Array<number> = []
  return async (): Promise<ReadonlyArray<number>> => {
    const bodies = await drain(rabbit.url(), queue).catch((error: Error) => {
      if (error.message.includes("NOT_FOUND - no queue")) return []
      throw error
    })
    for (const body of bodies) numbers.push(numberIn(body))
    return numbers
  }
}

interface RabbitTarget extends Wires.Target {
  readonly rabbit: Rabbit
  readonly queue: string
}

let made = 0

/** A queue, and a sink to it with these keys. */
const at =
  (keys: (queue: string) => object = (queue) => ({ routingKey: queue }), shared = sharedRabbit) =>
  async (): Promise<RabbitTarget> => {
    const rabbit = await shared()
    const queue = `condition-${made++}`
    await declare(rabbit, queue)
    return {
      rabbit,
      queue,
      port: Number(new URL(rabbit.url()).port),
      sink: (address, ca) => {
        const url = new URL(rabbit.url())
        url.host = address
        if (ca !== undefined) url.protocol = "amqps:"
        const tls = ca === undefined ? {} : { tls: { ca } }
        return { type: "rabbitmq", url: url.href, requestTimeout: "3 seconds", ...tls, ...keys(queue) }
      },
      arrived: arrivedAt(rabbit, queue),
    }
  }

const started = async (): Promise<Rabbit> => {
  const rabbit = await makeRabbit()
  await rabbit.start()
  return rabbit
}
let own: Promise<Rabbit> | undefined
/** A broker that scenarios may stop. */
const ownRabbit = (): Promise<Rabbit> => {
  own ??= started()
  return own
}

/** A user of its own, whose password the relay has from a file. */
const withUser = async (place: { readonly directory: string }) => {
  const target = await at((queue) => ({ routingKey: queue, password: "file:password" }))()
  const user = `user-${target.queue}`
  const text = (value: string) => `<<"${value}">>`
  const all = text(".*")
  const by = text("test")
  const setPassword = (password: string) =>
    target.rabbit.evaluate(`rabbit_auth_backend_internal:change_password(${text(user)}, ${text(password)}, ${by}).`)
  const allow = (write: string) =>
    target.rabbit.evaluate(
      `rabbit_auth_backend_internal:set_permissions(${text(user)}, <<"/">>, ${all}, ${text(write)}, ${all}, ${by}).`,
    )
  const keep = (password: string) => writeFileSync(join(place.directory, "password"), password)
  await target.rabbit.evaluate(`rabbit_auth_backend_internal:add_user(${text(user)}, <<"one">>, ${by}).`)
  await allow(".*")
  keep("one")
  return {
    ...target,
    sink: (address: string) => ({ ...target.sink(address), url: `amqp://${user}@${address}/` }),
    setPassword,
    allow,
    keep,
  }
}

/** An exchange, with a queue bound to it by a constant key. */
const behindExchange = async () => {
  const exchange = `exchange-${made}`
  const target = await at((queue) => ({ exchange, routingKey: queue }))()
  const { rabbit, queue } = target
  const make = (type = "topic") =>
    onChannel(rabbit, async (channel) => {
      await channel.assertExchange(exchange, type)
      await channel.bindQueue(queue, exchange, queue)
    })
  return {
    ...target,
    make,
    unbind: () => onChannel(rabbit, (channel) => channel.unbindQueue(queue, exchange, queue)),
    removeExchange: () => onChannel(rabbit, (channel) => channel.deleteExchange(exchange)),
  }
}

/** A queue for all events but `special`. A second queue, which holds one message at most, takes that one. */
const withFullQueue = async () => {
  const exchange = `exchange-${made}`
  const target = await at(() => ({ exchange, routingKey: "{{account_id}}" }))()
  const { rabbit, queue } = target
  const full = `${queue}-full`
  await declare(rabbit, full, { maxLength: 1, arguments: { "x-overflow": "reject-publish" } })
  await onChannel(rabbit, async (channel) => {
    await channel.assertExchange(exchange, "topic")
    for (let number = 0; number < 10; number++) {
      await channel.bindQueue(number === special ? full : queue, exchange, `acct_${number}`)
    }
  })
  const arrivedAtFull = arrivedAt(rabbit, full)
  return {
    ...target,
    arrived: async () => [...(await target.arrived()), ...(await arrivedAtFull())],
    fill: () => onChannel(rabbit, async (channel) => channel.sendToQueue(full, Buffer.from(bodyOf(filler)))),
    empty: arrivedAtFull,
  }
}
const filler = 1_000

export const column: Column = {
  sink: "rabbitmq",
  cells: {
    a: Wires.forgets(on, at()),
    b: [
      ...Wires.moves(on, at(), /can't be reached/),
      on("the name gets another address, and the old broker lives on without the queue", {
        names: true,
        start: Wires.byName(
          at(),
          ({ target }) => remove(target),
          ({ lead }) => lead(Wires.addresses.second),
          async ({ queue }) => {
            const rabbit = await ownRabbit()
            await declare(rabbit, queue)
            return { port: Number(new URL(rabbit.url()).port), arrived: arrivedAt(rabbit, queue) }
          },
        ),
        says: /misconfigured: .*there is no queue "condition-\d+": make it/,
      }),
    ],
    c: [
      on("the password changes at the broker, and then in its file", {
        start: Wires.byProxy(
          withUser,
          async ({ target, wire }) => {
            await target.setPassword("two")
            wire.cut()
          },
          async ({ target, place }) => {
            target.keep("two")
            await place.reload()
          },
        ),
        says: /misconfigured: .*refuses the user or its password/,
      }),
    ],
    d: [
      on("the queue is deleted, and declared again as a quorum queue", {
        start: Wires.byProxy(
          at(),
          ({ target }) => remove(target),
          ({ target: { rabbit, queue } }) => declare(rabbit, queue, { arguments: { "x-queue-type": "quorum" } }),
        ),
        says: /misconfigured: .*there is no queue/,
      }),
      on("the queue's binding is gone for a while", {
        start: Wires.byProxy(
          async () => {
            const target = await behindExchange()
            await target.make()
            return target
          },
          ({ target }) => target.unbind(),
          ({ target }) => target.make(),
        ),
        says: /misconfigured: .*no queue is bound/,
        isQuick: true,
      }),
      on("the exchange is deleted, and declared again with another type", {
        start: Wires.byProxy(
          async () => {
            const target = await behindExchange()
            await target.make()
            return target
          },
          ({ target }) => target.removeExchange(),
          ({ target }) => target.make("direct"),
        ),
        says: /misconfigured: .*NOT_FOUND - no exchange/,
      }),
      on("the exchange never existed", {
        isThereAtStart: true,
        start: Wires.byProxy(
          behindExchange,
          () => {},
          ({ target }) => target.make(),
        ),
        says: /misconfigured: .*there is no such exchange/,
      }),
    ],
    e: Wires.answersLate(on, at(), /does not answer/),
    f: [
      on("a full queue refuses one event of a batch until its consumer is back; the others are sent once", {
        start: Wires.byProxy(withFullQueue, async ({ target }) => {
          await target.fill()
          void Bun.sleep(500).then(target.empty)
        }),
        bound: { copies: 0, because: "only the refused event is sent again" },
      }),
    ],
    g: [
      // The broker remembers for a busy channel what its user may do, so the relay needs another channel.
      on("the right to write is taken away, and the connection breaks", {
        start: Wires.byProxy(
          withUser,
          async ({ target, wire }) => {
            await target.allow("^$")
            wire.cut()
          },
          ({ target }) => target.allow(".*"),
        ),
        says: /misconfigured: .*may not write .*ACCESS_REFUSED - /,
      }),
      on("one event is larger than the broker takes, among others", {
        start: async (place) => ({ ...(await Wires.byProxy(at(), () => {})(place)), config: largeBodies }),
        body: (number) => (number === special ? sized(number, largest + 1) : bodyOf(number)),
        letters: (number) => number === special,
        says: /an event of 2097153 bytes is larger than the 2097152 that the broker takes/,
      }),
    ],
    h: Wires.answersHttp(on, at(), /misconfigured: .*no RabbitMQ/),
    i: Wires.clocks(on, at()),
    j: [
      on("the broker is low on memory and blocks who publishes; AMQP names no time", {
        start: Wires.byProxy(
          at((queue) => ({ routingKey: queue, requestTimeout: "4 seconds" })),
          ({ target }) => target.rabbit.evaluate("vm_memory_monitor:set_vm_memory_high_watermark(0.0000001)."),
          ({ target }) => target.rabbit.evaluate("vm_memory_monitor:set_vm_memory_high_watermark(0.9)."),
        ),
        delivery: { timeout: "5 seconds" },
        says: /waiting: .*takes no messages, of anybody: low on memory/,
        bound: { wait: 5_000, because: "memory is not freed in a moment, so the sink asks for a pause of 5 seconds" },
      }),
    ],
    k: Wires.severalAddresses(on, at()),
    l: [
      on("the broker is killed, and starts again", {
        start: Wires.byProxy(
          at(undefined, ownRabbit),
          async ({ target }) => {
            // The broker's log of definitions keeps the newest ones, among them the queue, in memory for some seconds.
            await target.rabbit.evaluate("mnesia:sync_log().")
            await target.rabbit.kill()
          },
          ({ target }) => target.rabbit.start(),
        ),
        says: /waiting: .*can't be reached|waiting: .*closes the connection/,
      }),
      on("the node is in maintenance, for an upgrade", {
        start: Wires.byProxy(
          at(undefined, ownRabbit),
          ({ target }) => target.rabbit.evaluate("rabbit_maintenance:drain()."),
          ({ target }) => target.rabbit.evaluate("rabbit_maintenance:revive()."),
        ),
        says: /waiting: /,
      }),
    ],
    m: Wires.behindFront(on, at()),
    n: [
      on("an event of the largest size that the broker takes", {
        start: async (place) => ({ ...(await Wires.byProxy(at(), () => {})(place)), config: largeBodies }),
        body: (number) => (number === special ? sized(number, largest) : bodyOf(number)),
      }),
    ],
  },
}
