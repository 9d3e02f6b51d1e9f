/** The Kafka sink under each condition, by either client. */
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { Effect } from "effect"
import { bodyOf } from "../faults/relay/Traffic.ts"
import { freePort } from "../lib/port.ts"
import { type Broker, makeBroker, type Proxied, reasonToSkip } from "../parts/Kafka.ts"
import { startCluster } from "../parts/KafkaCluster.ts"
import { makeProxy } from "../parts/Proxy.ts"
import { allowWrite, configure, follow, limit, makeTopic, removeTopic, setPassword, sizeOf } from "../parts/Topics.ts"
import type { Column } from "./Column.ts"
import { type Condition, hostName, type Place, play, type Service } from "./Play.ts"
import * as Wires from "./Wires.ts"

const { numberIn, sized, special } = Wires

/** Kafka's default of max.message.bytes counts the batch: the webhook accepts a little less than that. */
const largest = 1024 * 1024
const overhead = 1_024

type Client = "platformatic" | "kafkajs"
const clients = ["platformatic", "kafkajs"] as const
/** Ways to a broker: by a proxy, by another proxy, by a name, and by a proxy with a login. */
const ways = { proxy: "PLAINTEXT", second: "PLAINTEXT", name: "PLAINTEXT", login: "SASL_PLAINTEXT" } as const
type Way = keyof typeof ways

/** A broker, with listeners for each client and way: their own ports, and those that they name. */
interface Cluster {
  readonly broker: Broker
  readonly listeners: ReadonlyArray<Proxied>
}

let named: Promise<ReadonlyArray<Omit<Proxied, "port">>> | undefined
/** Both brokers name the same ports to their clients. */
const namedPorts = () => {
  named ??= Promise.all(
    clients.flatMap((client) =>
      Object.entries(ways).map(async ([way, protocol]) => ({
        name: `${client}${way}`.toUpperCase(),
        protocol,
        advertised: await freePort(),
        ...(way === "name" && { host: hostName }),
      })),
    ),
  )
  return named
}

const started = async (): Promise<Cluster> => {
  const listeners = await Promise.all((await namedPorts()).map(async (one) => ({ ...one, port: await freePort() })))
  const broker = await makeBroker({}, listeners)
  await broker.start()
  return { broker, listeners }
}
const once = <A>(make: () => Promise<A>): (() => Promise<A>) => {
  let made: Promise<A> | undefined
  return () => {
    made ??= make()
    return made
  }
}
const shared = once(started)
/** Further ones, which scenarios of a client may stop. */
const others = { platformatic: once(started), kafkajs: once(started) }

interface KafkaTarget extends Wires.Target {
  /** The broker by its plain listener. */
  readonly at: string
  readonly broker: Broker
  readonly topic: string
  readonly namedPort: number
}

interface Setup {
  readonly way?: Way
  readonly cluster?: () => Promise<Cluster>
  readonly keys?: object
  /** Settings of the topic. */
  readonly topic?: Readonly<Record<string, string>>
}

/** The numbers of the events in a topic. A topic that is missing has none. */
const read = async (at: string, topic: string): Promise<ReadonlyArray<number>> => {
  const size = await sizeOf(at, topic).catch(() => 0)
  if (size === 0) return []
  return Effect.runPromise(
    Effect.scoped(
      Effect.flatMap(follow(at, [topic]), (received) =>
        Effect.promise(async () => (await received(size)).map(({ value }) => numberIn(value))),
      ),
    ),
  )
}

/** A topic, and a sink to it. */
const topicOf =
  (client: Client, { way = "proxy", cluster = shared, keys = {}, topic: settings = {} }: Setup = {}) =>
  async (): Promise<KafkaTarget> => {
    const { broker, listeners } = await cluster()
    const at = broker.plain
    const topic = await makeTopic(at, 1, settings)
    const listener = listeners.find(({ name }) => name === `${client}${way}`.toUpperCase()) as Proxied
    return {
      at,
      broker,
      topic,
      port: listener.port,
      namedPort: listener.advertised,
      sink: (address, ca) => ({
        type: "kafka",
        client,
        brokers: [address],
        topic,
        requestTimeout: "3 seconds",
        ...(ca !== undefined && { tls: { ca } }),
        ...keys,
      }),
      arrived: () => read(at, topic),
    }
  }

/** The numbers of a topic's events before it is deleted, and after it was made again. */
const removable = (make: () => Promise<KafkaTarget>) => async () => {
  const target = await make()
  const { at, topic } = target
  const before: Array<number> = []
  return {
    ...target,
    arrived: async () => [...before, ...(await read(at, topic))],
    remove: async () => {
      before.push(...(await read(at, topic)))
      await removeTopic(at, topic)
    },
    make: (partitions = 1) => makeTopic(at, partitions, {}, 1, topic),
  }
}

/** A user whose password the relay has from a file. */
const withUser = (client: Client) => async (place: Place) => {
  const name = `user-${client}`
  const keep = (password: string) => writeFileSync(join(place.directory, "password"), password)
  keep("one")
  const sasl = { mechanism: "SCRAM-SHA-256", username: name, password: "file:password" }
  const target = await topicOf(client, { way: "login", keys: { sasl } })()
  const change = (password: string) => setPassword(target.at, name, password)
  await change("one")
  return { ...target, name, keep, change }
}

/** Asks until the topic has a leader. */
const answered = async (at: string, topic: string): Promise<void> => {
  while ((await sizeOf(at, topic).catch(() => -1)) < 0) await Bun.sleep(100)
}

/** Three brokers. Two of them are killed. */
const withQuorum =
  (client: Client): Condition["start"] =>
  async (): Promise<Service> => {
    const { nodes, brokers, stop } = await startCluster()
    const [first, ...others] = nodes
    const at = first?.address ?? ""
    const topic = await makeTopic(at, 1, {}, 3)
    return {
      sink: { type: "kafka", client, brokers, topic, requestTimeout: "3 seconds" },
      breaks: () => Promise.all(others.map(({ kill }) => kill())),
      heals: async () => {
        await Promise.all(others.map(({ start }) => start()))
        await answered(at, topic)
      },
      arrived: () => read(at, topic),
      close: stop,
    }
  }

/** The cluster names other brokers: those before are gone, and the address of the config leads to the new ones. */
const renamed =
  (client: Client): Condition["start"] =>
  async (): Promise<Service> => {
    const [before, after] = [await topicOf(client)(), await topicOf(client, { way: "second" })()]
    const wires = [
      await makeProxy(before.port, { port: before.namedPort }),
      await makeProxy(after.port, { port: after.namedPort }),
    ]
    const first = await makeProxy(before.port)
    return {
      sink: before.sink(`127.0.0.1:${first.port}`),
      breaks: async () => {
        wires[0]?.cut()
        await wires[0]?.close()
      },
      heals: () => {
        first.pointTo(after.port)
        first.cut()
      },
      arrived: before.arrived,
      close: () => Promise.all([first, ...wires].map((wire) => wire.close())),
    }
  }

const hours = 3_600_000

const lacking = reasonToSkip()

/** Conditions of the network. */
const network = (client: Client) => {
  const on = Wires.on(lacking)
  const topic = topicOf(client)
  const byName = topicOf(client, { way: "name" })
  return {
    a: Wires.forgets(on, topic),
    b: [
      ...Wires.moves(on, byName, /can't be reached/),
      on("the name gets another address, and the old broker lives on without the topic", {
        names: true,
        start: Wires.byName(
          removable(byName),
          ({ target }) => target.remove(),
          ({ lead }) => lead(Wires.addresses.second),
          async (target) => {
            const second = await topicOf(client, { way: "name", cluster: others[client] })()
            await makeTopic(second.at, 1, {}, 1, target.topic).catch(() => {})
            return { port: second.port, arrived: () => read(second.at, target.topic) }
          },
        ),
        says: /misconfigured: .*there is no such topic/,
      }),
      play({
        what: "all brokers get other addresses, and the ones that the cluster named are gone",
        lacking,
        start: renamed(client),
        says: /can't be reached/,
      }),
    ],
    e: Wires.answersLate(
      on,
      topic,
      /no answer within 3s|does not answer/,
      client === "kafkajs" ? { copies: 10, because: "this client sends again once by itself" } : undefined,
    ),
    k: [
      ...Wires.severalAddresses(on, byName),
      on("the first broker of the list is dead", {
        isThereAtStart: true,
        start: async (place) => {
          const dead = `127.0.0.1:${await freePort()}`
          const target = await topic()
          const sink = (address: string) => ({ ...target.sink(address), brokers: [dead, address] })
          return Wires.byProxy(
            async () => ({ ...target, sink }),
            () => {},
          )(place)
        },
      }),
    ],
  }
}

/** Conditions of the login and the clock. */
const identity = (client: Client) => {
  const on = Wires.on(lacking)
  const topic = topicOf(client)
  return {
    c: [
      on("the password changes at the broker, and then in its file", {
        start: Wires.byProxy(
          withUser(client),
          async ({ target, wire }) => {
            await target.change("two")
            wire.cut()
          },
          async ({ target, place }) => {
            target.keep("two")
            await place.reload()
          },
        ),
        says: /misconfigured: .*refused the user or its password/,
      }),
    ],
    i: [
      on("the relay's clock is two hours ahead; Kafka refuses times of more than an hour ahead", {
        isThereAtStart: true,
        skew: 2 * hours,
        start: async (place) =>
          Wires.byProxy(
            topic,
            () => {},
            () => place.setClock(0),
          )(place),
        says: /misconfigured: .*refuses the time of this machine/,
      }),
      on("the relay's clock is two hours behind", {
        skew: -2 * hours,
        start: Wires.byProxy(topic, () => {}),
      }),
    ],
  }
}

/** Conditions of the topic. */
const topics = (client: Client) => {
  const on = Wires.on(lacking)
  const topic = topicOf(client)
  return {
    d: [
      on("the topic is deleted, and made again with other partitions", {
        start: Wires.byProxy(
          removable(topic),
          ({ target }) => target.remove(),
          ({ target }) => target.make(3),
        ),
        says: /misconfigured: .*there is no such topic/,
        isQuick: true,
      }),
      on("the topic never existed", {
        isThereAtStart: true,
        start: Wires.byProxy(
          removable(topic),
          ({ target }) => target.remove(),
          ({ target }) => target.make(),
        ),
        says: /misconfigured: .*there is no such topic/,
      }),
    ],
    f: [
      on("one event of a batch is for a topic that is missing for a while; the others are sent once", {
        start: Wires.byProxy(
          async () => {
            const target = await topic()
            const { at } = target
            const name = (account: number) => `${target.topic}.acct_${account}`
            for (let account = 0; account < 10; account++) {
              if (account !== special) await makeTopic(at, 1, {}, 1, name(account))
            }
            const all = Array.from({ length: 10 }, (_, account) => name(account))
            return {
              ...target,
              missing: name(special),
              sink: (address: string) => ({ ...target.sink(address), topic: `${target.topic}.{{account_id}}` }),
              arrived: async () => (await Promise.all(all.map((topic) => read(at, topic)))).flat(),
            }
          },
          ({ target: { at, missing } }) => {
            void Bun.sleep(500).then(() => makeTopic(at, 1, {}, 1, missing))
          },
        ),
        bound: { copies: 0, because: "only the refused event is sent again" },
      }),
    ],
    n: [
      on("an event of the largest size that the topic takes, and one that is larger", {
        start: Wires.byProxy(topic, () => {}),
        body: (number) => {
          if (number === special) return sized(number, largest - overhead)
          return number === special + 1 ? sized(number, largest) : bodyOf(number)
        },
        letters: (number) => number === special + 1,
        says: /an event of 1048576 bytes is larger than the broker takes/,
      }),
    ],
  }
}

/** Refusals and throttling. */
const refusals = (client: Client) => {
  const on = Wires.on(lacking)
  const topic = topicOf(client)
  return {
    g: [
      on("the right to write is taken away", {
        start: Wires.byProxy(
          withUser(client),
          ({ target: { at, topic } }) => allowWrite(at, topic, "User:another"),
          ({ target: { at, topic, name } }) => allowWrite(at, topic, `User:${name}`),
        ),
        says: /misconfigured: .*the user lacks Write/,
      }),
      on("the topic becomes compacted and takes no event without a key", {
        start: Wires.byProxy(
          topicOf(client, { keys: { key: "{{/data/object/none}}" } }),
          ({ target: { at, topic } }) => configure(at, topic, "cleanup.policy", "compact"),
          ({ target: { at, topic } }) => configure(at, topic, "cleanup.policy", "delete"),
        ),
        says: /misconfigured: .*compacted/,
      }),
      on("one event is larger than the topic takes, among others", {
        start: Wires.byProxy(topicOf(client, { topic: { "max.message.bytes": "50000" } }), () => {}),
        body: (number) => (number === special ? sized(number, 60_000) : bodyOf(number)),
        letters: (number) => number === special,
        says: /an event of 60000 bytes is larger than the broker takes/,
      }),
    ],
    h: Wires.answersHttp(on, topic, /waiting: .*(?:HTTP|not Kafka|can't be reached)/),
    j: [
      on("the client's quota is used up, and the broker says for how long it throttles", {
        start: Wires.byProxy(
          topicOf(client, { keys: { clientId: `limited-${client}`, batch: { maxEvents: 1 } } }),
          ({ target }) => limit(target.at, `limited-${client}`, 1_000),
          ({ target }) => limit(target.at, `limited-${client}`, 100_000_000),
        ),
        body: (number) => (number > 4 ? sized(number, 20_000) : bodyOf(number)),
        says: /waiting: .*throttles the client "limited-/,
        bound: { wait: 30_000, because: "the broker names the time" },
      }),
    ],
  }
}

/** Conditions of the brokers. */
const brokers = (client: Client) => {
  const on = Wires.on(lacking)
  const topic = topicOf(client)
  return {
    l: [
      on("the broker is killed, and starts again", {
        start: Wires.byProxy(
          topicOf(client, { cluster: others[client] }),
          ({ target }) => target.broker.kill(),
          async ({ target }) => {
            await target.broker.start()
            await answered(target.at, target.topic)
          },
        ),
        says: /waiting: /,
      }),
      play({
        what: "two of three brokers are killed, so the partition has no quorum",
        lacking,
        start: withQuorum(client),
        says: /waiting: /,
        bound: { copies: 60, because: "the last broker stores each attempt and can't confirm it alone" },
      }),
    ],
    m: Wires.behindFront(on, topic),
  }
}

export const columnOf = (client: Client): Column => ({
  sink: "kafka",
  cells: { ...network(client), ...identity(client), ...topics(client), ...refusals(client), ...brokers(client) },
})
