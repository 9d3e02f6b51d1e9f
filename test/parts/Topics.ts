/** Topics of a test's own, and the records in them. */

import { pbkdf2Sync, randomBytes } from "node:crypto"
import {
  AclOperations,
  AclPermissionTypes,
  Admin,
  alterUserScramCredentialsV0,
  type Broker,
  ConfigResourceTypes,
  Consumer,
  describeProducersV0,
  IncrementalAlterConfigOperationTypes,
  ListOffsetTimestamps,
  type Message,
  MessagesStreamModes,
  ResourcePatternTypes,
  ResourceTypes,
} from "@platformatic/kafka"
import { Effect, type Scope } from "effect"

export type Kept = Message<Buffer, Buffer, Buffer, Buffer>

export const asAdmin = async <A>(broker: string, use: (admin: Admin) => Promise<A>): Promise<A> => {
  const admin = new Admin({ clientId: "test", bootstrapBrokers: [broker], retries: 20, retryDelay: 250 })
  try {
    return await use(admin)
  } finally {
    await admin.close()
  }
}

let made = 0

/** Number of records in a topic. Fails until the broker has all of its partitions. */
const endsOf = async (admin: Admin, topic: string, partitions: number): Promise<number> => {
  const each = Array.from({ length: partitions }, (_, partitionIndex) => ({
    partitionIndex,
    timestamp: ListOffsetTimestamps.LATEST,
  }))
  const [ends] = await admin.listOffsets({ topics: [{ name: topic, partitions: each }] })
  return ends?.partitions.reduce((sum, { offset }) => sum + Number(offset), 0) ?? 0
}

/** All errors in a tree of causes, the root first. */
const errorsIn = (error: unknown): ReadonlyArray<unknown> =>
  error instanceof AggregateError ? [error, ...error.errors.flatMap(errorsIn)] : [error]

/** Whether a broker knows no other broker for a topic yet. That happens for a moment after its start. */
const isTooEarly = (error: unknown): boolean =>
  errorsIn(error).some((one) => Reflect.get(Object(one), "apiId") === "INVALID_REPLICATION_FACTOR")

/** Repeats a call while the cluster is starting. */
const onceStarted = async (call: () => Promise<unknown>): Promise<void> => {
  const end = performance.now() + 60_000
  for (;;) {
    try {
      await call()
      return
    } catch (error) {
      const said = errorsIn(error).map((one) => (one instanceof Error ? one.message : String(one)))
      if (!isTooEarly(error) || performance.now() > end) throw new Error(said.join(": "), { cause: error })
      await Bun.sleep(100)
    }
  }
}

/** Makes a topic (default: with a unique name), and waits until the broker has it. The broker answers before that. */
export const makeTopic = (
  broker: string,
  partitions = 1,
  configs: Readonly<Record<string, string>> = {},
  replicas = 1,
  name?: string,
): Promise<string> =>
  asAdmin(broker, async (admin) => {
    made += 1
    const topic = name ?? `topic-${made}`
    await onceStarted(() =>
      admin.createTopics({
        topics: [topic],
        partitions,
        replicas,
        configs: Object.entries(configs).map(([name, value]) => ({ name, value })),
      }),
    )
    const isThere = () =>
      endsOf(admin, topic, partitions).then(
        () => true,
        () => false,
      )
    while (!(await isThere())) await Bun.sleep(20)
    return topic
  })

/** Deletes a topic, and waits until the broker has forgotten it. */
export const removeTopic = (broker: string, topic: string): Promise<void> =>
  asAdmin(broker, async (admin) => {
    await admin.deleteTopics({ topics: [topic] })
    const isThere = () =>
      endsOf(admin, topic, 1).then(
        () => true,
        () => false,
      )
    while (await isThere()) await Bun.sleep(20)
  })

/** The settings of a topic, by name. */
export const settingsOf = (
  broker: string,
  topic: string,
): Promise<Readonly<Record<string, string | null | undefined>>> =>
  asAdmin(broker, async (admin) => {
    const resources = [{ resourceType: ConfigResourceTypes.TOPIC, resourceName: topic }]
    const [one] = await admin.describeConfigs({ resources })
    return Object.fromEntries(one?.configs.map(({ name, value }) => [name, value]) ?? [])
  })

/** Changes a setting of a topic. */
export const configure = (broker: string, topic: string, name: string, value: string): Promise<void> =>
  asAdmin(broker, (admin) => {
    const configOperation = IncrementalAlterConfigOperationTypes.SET
    const resource = { resourceType: ConfigResourceTypes.TOPIC, resourceName: topic }
    return admin.incrementalAlterConfigs({ resources: [{ ...resource, configs: [{ name, configOperation, value }] }] })
  })

/** Changes a user's password for SCRAM-SHA-256. */
export const setPassword = (broker: string, name: string, password: string): Promise<void> =>
  asAdmin(broker, async (admin) => {
    const { controllerId, brokers } = await admin.metadata({ topics: [] })
    const connection = await admin.connections.get(brokers.get(controllerId) ?? ([...brokers.values()][0] as Broker))
    const [salt, iterations] = [randomBytes(16), 4_096]
    const saltedPassword = pbkdf2Sync(password, salt, iterations, 32, "sha256")
    await alterUserScramCredentialsV0.api.async(
      connection,
      [],
      [{ name, mechanism: 1, iterations, salt, saltedPassword }],
    )
  })

/**
 * Follows a topic from its beginning. Waits for `count` records, and returns all that were received since the start.
 */
export const follow = (
  broker: string,
  topics: ReadonlyArray<string>,
): Effect.Effect<(count: number) => Promise<ReadonlyArray<Kept>>, never, Scope.Scope> =>
  Effect.gen(function* () {
    const consumer = new Consumer<Buffer, Buffer, Buffer, Buffer>({
      clientId: "test",
      groupId: `test-${topics.join("-")}`,
      bootstrapBrokers: [broker],
      maxWaitTime: 100,
      retries: 100,
      retryDelay: 250,
    })
    const stream = yield* Effect.promise(() =>
      consumer.consume({ topics: [...topics], mode: MessagesStreamModes.EARLIEST, autocommit: false }),
    )
    yield* Effect.addFinalizer(() => Effect.promise(() => consumer.close(true).catch(() => undefined)))
    const kept: Array<Kept> = []
    let wake: Array<() => void> = []
    stream.on("data", (message) => {
      kept.push(message)
      const waiting = wake
      wake = []
      for (const go of waiting) go()
    })
    return async (count) => {
      while (kept.length < count) await new Promise<void>((resolve) => wake.push(resolve))
      return kept
    }
  })

const aclOf = (resourceName: string, kind: "TOPIC" | "CLUSTER" = "TOPIC") => ({
  resourceType: ResourceTypes[kind],
  resourceName,
  resourcePatternType: ResourcePatternTypes.LITERAL,
  host: "*",
})

/** Denies a user one operation on a resource. Everything else stays allowed. */
const deny = (
  broker: string,
  resource: ReturnType<typeof aclOf>,
  principal: string,
  operation: "WRITE" | "CREATE",
): Promise<void> =>
  asAdmin(broker, (admin) =>
    admin.createAcls({
      creations: [
        { ...resource, principal, operation: AclOperations[operation], permissionType: AclPermissionTypes.DENY },
        { ...resource, principal: "User:*", operation: AclOperations.ALL, permissionType: AclPermissionTypes.ALLOW },
      ],
    }),
  )

/** Denies a user Write on a topic. Everything else stays allowed. */
export const forbid = (broker: string, topic: string, principal: string): Promise<void> =>
  deny(broker, aclOf(topic), principal, "WRITE")

/** Denies a user the creation of topics. Everything else stays allowed. */
export const forbidCreate = async (broker: string, topic: string, principal: string): Promise<void> => {
  for (const resource of [aclOf("kafka-cluster", "CLUSTER"), aclOf(topic)]) {
    await deny(broker, resource, principal, "CREATE")
  }
}

/** Allows a user Write on a topic, and other users nothing. */
export const allowWrite = (broker: string, topic: string, principal: string): Promise<void> =>
  asAdmin(broker, (admin) =>
    admin.createAcls({
      creations: [
        { ...aclOf(topic), principal, operation: AclOperations.WRITE, permissionType: AclPermissionTypes.ALLOW },
      ],
    }),
  )

/** Sets the quota of bytes per second that a client may produce, as `kafka-configs --alter` does. */
export const limit = (broker: string, clientId: string, bytesPerSecond: number): Promise<void> =>
  asAdmin(broker, async (admin) => {
    const entities = [{ entityType: "client-id" as const, entityName: clientId }]
    const ops = [{ key: "producer_byte_rate" as const, value: bytesPerSecond, remove: false }]
    await admin.alterClientQuotas({ entries: [{ entities, ops }], validateOnly: false })
  })

/** Makes the only broker forget producers that have written nothing for `millis` (default: a day). */
export const forgetProducersAfter = (broker: string, millis = 86_400_000): Promise<void> =>
  asAdmin(broker, (admin) => {
    const configOperation = IncrementalAlterConfigOperationTypes.SET
    const configs = [{ name: "producer.id.expiration.ms", configOperation, value: String(millis) }]
    return admin.incrementalAlterConfigs({
      resources: [{ resourceType: ConfigResourceTypes.BROKER, resourceName: "1", configs }],
    })
  })

/** Number of producers of a topic's first partition that the only broker knows. */
export const producersOf = (broker: string, topic: string): Promise<number> =>
  asAdmin(broker, async (admin) => {
    const [host = "", port] = broker.split(":")
    const connection = await admin.connections.get({ host, port: Number(port) })
    const { topics } = await describeProducersV0.api.async(connection, [{ name: topic, partitionIndexes: [0] }])
    return topics[0]?.partitions[0]?.activeProducers.length ?? 0
  })

/** Number of records in a topic whose partitions are not known. */
export const sizeOf = (broker: string, topic: string): Promise<number> =>
  asAdmin(broker, async (admin) => {
    const { topics } = await admin.metadata({ topics: [topic] })
    return endsOf(admin, topic, topics.get(topic)?.partitionsCount ?? 0)
  })

export const partitionsOf = (broker: string, topic: string): Promise<number> =>
  asAdmin(broker, async (admin) => {
    const { topics } = await admin.metadata({ topics: [topic] })
    return topics.get(topic)?.partitionsCount ?? 0
  })
