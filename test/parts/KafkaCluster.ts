/**
 * Three brokers of Apache Kafka on loopback that are their own controllers, for tests in which the leaders of topics
 * move. Everything has three copies, and two must be in sync.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { freePort } from "../lib/port.ts"
import { answers, ensureJars, jars, java, quietIn } from "./Kafka.ts"
import { ServerProcess } from "./ServerProcess.ts"
import { asAdmin } from "./Topics.ts"

const ids = [1, 2, 3] as const

export interface ClusterNode {
  readonly id: number
  readonly address: string
  /** kill -9. */
  readonly kill: () => Promise<void>
  /** Hands its partitions to the other brokers, and ends. */
  readonly leave: () => Promise<void>
  /** Starts it again on the same port and data, and waits until it answers. */
  readonly start: () => Promise<void>
  readonly signal: (signal: NodeJS.Signals) => void
}

export interface Cluster {
  readonly nodes: ReadonlyArray<ClusterNode>
  readonly brokers: ReadonlyArray<string>
  readonly stop: () => Promise<void>
}

const heap = ["-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]

interface Ports {
  readonly id: number
  readonly plain: number
  readonly controller: number
}

const propertiesOf = ({ id, plain, controller }: Ports, all: ReadonlyArray<Ports>, data: string): string =>
  Object.entries({
    "process.roles": "broker,controller",
    "node.id": id,
    "controller.quorum.voters": all.map((one) => `${one.id}@127.0.0.1:${one.controller}`).join(","),
    listeners: `PLAIN://127.0.0.1:${plain},CONTROLLER://127.0.0.1:${controller}`,
    "advertised.listeners": `PLAIN://127.0.0.1:${plain}`,
    "listener.security.protocol.map": "PLAIN:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAIN",
    "log.dirs": data,
    "auto.create.topics.enable": false,
    "min.insync.replicas": 2,
    "unclean.leader.election.enable": false,
    "offsets.topic.replication.factor": 3,
    "offsets.topic.num.partitions": 1,
    "group.initial.rebalance.delay.ms": 0,
    // By default the partitions of a killed leader have no leader for nine seconds.
    "broker.session.timeout.ms": 1500,
    "broker.heartbeat.interval.ms": 300,
    // By default every event waits thirty seconds for the replica on a killed broker.
    "replica.lag.time.max.ms": 3000,
    // By default the log cleaner takes 128 MB of a heap of 192.
    "log.cleaner.dedupe.buffer.size": 4 * 1024 * 1024,
    // By default a broker that stops waits a minute if its leaders can't be moved.
    "controlled.shutdown.max.retries": 1,
  })
    .map(([key, value]) => `${key}=${value}\n`)
    .join("")

const makeNode = (ports: Ports, all: ReadonlyArray<Ports>, home: string): ClusterNode => {
  const directory = join(home, String(ports.id))
  mkdirSync(directory)
  const properties = join(directory, "server.properties")
  writeFileSync(properties, propertiesOf(ports, all, join(directory, "data")))
  const logging = quietIn(directory)
  const cluster = ["--cluster-id", "cmVsYXktdGVzdC1jbHVzdA", "--config", properties]
  const formatted = java([logging, "kafka.tools.StorageTool", "format", ...cluster])
  if (formatted.status !== 0) throw new Error(`a broker's disk: ${formatted.stdout}${formatted.stderr}`)
  const own = new ServerProcess({
    name: `broker ${ports.id}`,
    // If the test process ends, each broker's shell removes the files of all. The shell of a leaving broker keeps them.
    home,
    command: ["java", ...heap, logging, "-cp", join(jars, "*"), "kafka.Kafka", properties],
    isUp: () => answers(ports.plain),
  })
  return {
    id: ports.id,
    address: `127.0.0.1:${ports.plain}`,
    kill: own.kill,
    leave: own.leave,
    start: own.start,
    signal: own.signal,
  }
}

/** Starts a cluster for one test. */
export const startCluster = async (): Promise<Cluster> => {
  ensureJars()
  const home = mkdtempSync(join(tmpdir(), "relay-kafka-"))
  const ports = await Promise.all(
    ids.map(async (id) => ({ id, plain: await freePort(), controller: await freePort() })),
  )
  const nodes = ports.map((port) => makeNode(port, ports, home))
  const stop = async () => {
    await Promise.all(nodes.map(({ kill }) => kill()))
    rmSync(home, { recursive: true, force: true })
  }
  try {
    await Promise.all(nodes.map(({ start }) => start()))
  } catch (error) {
    await stop()
    throw error
  }
  return { nodes, brokers: nodes.map(({ address }) => address), stop }
}

interface Replicas {
  readonly leader: number
  readonly isr: ReadonlyArray<number>
}

/** Waits until a topic's partitions satisfy `isSo`, by the metadata of the given broker. */
export const until = (
  broker: string,
  topic: string,
  isSo: (partitions: ReadonlyArray<Replicas>) => boolean,
): Promise<ReadonlyArray<Replicas>> =>
  asAdmin(broker, async (admin) => {
    for (;;) {
      const found = await admin.metadata({ topics: [topic], forceUpdate: true })
      const partitions = Object.values(found.topics.get(topic)?.partitions ?? {})
      if (partitions.length > 0 && isSo(partitions)) return partitions
      await Bun.sleep(50)
    }
  })
