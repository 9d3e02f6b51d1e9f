/**
 * A cluster of three brokers under load: its leaders are killed, and its brokers restarted one after the other.
 * RELAY_ROUNDS sets the number of rounds (the long campaign: RELAY_ROUNDS=10, thirty kills and ten rolling restarts).
 */
import { afterAll, expect } from "bun:test"
import { Effect, Fiber, Ref } from "effect"
import { it } from "../../lib/effect.ts"
import { reasonToSkip } from "../../parts/Kafka.ts"
import { type Cluster, startCluster, until } from "../../parts/KafkaCluster.ts"
import { follow, makeTopic, sizeOf } from "../../parts/Topics.ts"
import { entry } from "../samples.ts"
import { suitesWith } from "../thereSink.ts"
import { clients, openKafka } from "./kafkaSink.ts"
import { accounts, append, lake, lanes, settled } from "./load.ts"

const rounds = Number(process.env.RELAY_ROUNDS ?? 1)
/** Numbers of leaders killed and of restarts of all brokers. */
const times = {
  platformatic: { kills: rounds === 1 ? 2 : rounds * 3, restarts: rounds },
  kafkajs: { kills: Math.ceil(rounds / 4), restarts: Math.floor(rounds / 4) },
}
const perTenth = 100
const partitions = 6

/** Appends until interrupted. `sent` counts the events. */
const load = Effect.fnUntraced(function* (sent: Ref.Ref<number>) {
  for (;;) {
    const from = yield* Ref.get(sent)
    yield* append(from, from + perTenth)
    yield* Ref.set(sent, from + perTenth)
    yield* Effect.sleep("100 millis")
  }
})

/** Stops a broker. Starts it again once the others have taken over and all events sent until then have arrived. */
const without = Effect.fnUntraced(function* (
  cluster: Cluster,
  topic: string,
  id: number,
  sent: Ref.Ref<number>,
  how: "kill" | "leave",
) {
  const node = cluster.nodes.find((one) => one.id === id)
  const other = cluster.nodes.find((node) => node.id !== id)
  if (node === undefined || other === undefined) return yield* Effect.die(`broker ${id} is none of the cluster`)
  yield* Effect.promise(() => node[how]())
  yield* Effect.promise(() =>
    until(other.address, topic, (all) => all.every(({ leader, isr }) => leader > 0 && !isr.includes(id))),
  )
  // The two remaining brokers acknowledge events from now on.
  const head = yield* Ref.get(sent)
  while (((yield* lake)?.cursor ?? 0) < head) yield* Effect.sleep("50 millis")
  yield* Effect.promise(() => node.start())
  yield* Effect.promise(() => until(node.address, topic, (all) => all.every(({ isr }) => isr.length === 3)))
})

const leaderOf = (cluster: Cluster, topic: string, partition: number) =>
  Effect.map(
    Effect.promise(() => until(cluster.brokers[0] ?? "", topic, (all) => all.every(({ leader }) => leader > 0))),
    (all) => all[partition]?.leader ?? 0,
  )

suitesWith(reasonToSkip, startCluster)("the Kafka sink when the leaders of a cluster move", (cluster) => {
  afterAll(() => cluster().stop())

  for (const client of clients) {
    const { kills, restarts } = times[client]

    it.live(
      `${client}: ${kills} kills of a leader and ${restarts} rolling restarts under load: nothing is lost, order by key is kept`,
      function* () {
        const { brokers, nodes } = cluster()
        const [bootstrap = ""] = brokers
        const topic = yield* Effect.promise(() => makeTopic(bootstrap, partitions, { "min.insync.replicas": "2" }, 3))
        const sent = yield* Ref.make(0)
        yield* Effect.gen(function* () {
          const loading = yield* Effect.forkChild(load(sent))
          for (let kill = 0; kill < kills; kill++) {
            const leader = yield* leaderOf(cluster(), topic, kill % partitions)
            yield* without(cluster(), topic, leader, sent, "kill")
          }
          for (let restart = 0; restart < restarts; restart++) {
            for (const { id } of nodes) yield* without(cluster(), topic, id, sent, "leave")
          }
          yield* Fiber.interrupt(loading)
          yield* settled
          expect(yield* lake).toMatchObject({ deadLetters: 0, retrying: 0 })
        }).pipe(Effect.provide(lanes(client, () => ({ brokers, topic }))))

        const total = yield* Ref.get(sent)
        const { lost, overtaken, twice } = yield* accounts(bootstrap, topic, total)
        console.log(
          `${client}: ${total} events, ${kills} kills of a leader, ${restarts} rolling restarts: ${lost} lost, ${overtaken} overtaken, ${twice} twice`,
        )
        expect({ lost, overtaken }).toEqual({ lost: 0, overtaken: 0 })
      },
      60_000 * (kills + 3 * restarts + 1),
    )
  }

  it.live(
    "platformatic: what a leader has written and too few replicas have is sent again: nothing is lost, order by key is kept",
    function* () {
      const { brokers, nodes } = cluster()
      const [bootstrap = ""] = brokers
      const topic = yield* Effect.promise(() => makeTopic(bootstrap, 1, { "min.insync.replicas": "3" }, 3))
      const leader = yield* leaderOf(cluster(), topic, 0)
      const follower = nodes.find(({ id }) => id !== leader)
      if (follower === undefined) return yield* Effect.die("no broker follows")
      yield* Effect.addFinalizer(() => Effect.sync(() => follower.signal("SIGCONT")))
      // The frozen broker still accepts connections, so the client would keep asking it if it were in the list.
      const others = brokers.filter((broker) => broker !== follower.address)
      yield* Effect.gen(function* () {
        yield* append(0, perTenth)
        yield* settled
        follower.signal("SIGSTOP")
        yield* append(perTenth, 2 * perTenth)
        // The leader has written the events. Kafka 3.9 reports that (NOT_ENOUGH_REPLICAS_AFTER_APPEND), and 4.3 makes
        // them wait.
        const said = Effect.map(lake, (lane) => lane?.lastFailure?.message ?? "")
        while (!(yield* said).includes("NOT_ENOUGH_REPLICAS")) yield* Effect.sleep("20 millis")
        expect((yield* lake)?.backlog).toBe(perTenth)
        follower.signal("SIGCONT")
        yield* settled
        expect(yield* lake).toMatchObject({ deadLetters: 0, retrying: 0 })
      }).pipe(Effect.provide(lanes("platformatic", () => ({ brokers: others, topic, requestTimeout: "5 seconds" }))))
      const { lost, overtaken, twice } = yield* accounts(bootstrap, topic, 2 * perTenth)
      console.log(
        `platformatic: ${2 * perTenth} events, a follower frozen: ${lost} lost, ${overtaken} overtaken, ${twice} twice`,
      )
      expect({ lost, overtaken }).toEqual({ lost: 0, overtaken: 0 })
    },
    120_000,
  )

  it.live(
    "kafkajs: loses nothing when a partition has moved to a broker that answers for others",
    function* () {
      const { nodes, brokers } = cluster()
      const [bootstrap = ""] = brokers
      const topic = yield* Effect.promise(() => makeTopic(bootstrap, partitions, {}, 3))
      const sink = yield* openKafka(() => ({ client: "kafkajs", brokers, topic, key: "{{account_id}}" }))
      const send = (from: number) =>
        sink.send(Array.from({ length: perTenth }, (_, n) => entry(from + n, { accountId: `acct_${n}` })))
      expect(yield* send(0)).toEqual(new Map())
      const leader = yield* leaderOf(cluster(), topic, 0)
      const node = nodes.find(({ id }) => id === leader)
      if (node === undefined) return yield* Effect.die(`broker ${leader} is none of the cluster`)
      // After its restart it leads no partition, but the client still takes it for the leader.
      yield* Effect.promise(() => node.leave())
      yield* Effect.promise(() => node.start())
      yield* Effect.promise(() => until(node.address, topic, (all) => all.every(({ isr }) => isr.length === 3)))

      const missed = yield* send(perTenth)
      const received = yield* follow(bootstrap, [topic])
      const all = yield* Effect.promise(async () => received(await sizeOf(bootstrap, topic)))
      const ids = new Set(all.map(({ value }) => JSON.parse(value.toString()).id))
      expect(ids.size + missed.size).toBe(2 * perTenth)
    },
    60_000,
  )
})
