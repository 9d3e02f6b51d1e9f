/**
 * Apache Kafka itself, for tests: one broker on loopback, from the jars of Maven Central.
 *
 * The version is pinned here, and the checksums in a file next to `pom.xml`. The jars are kept in `.cache/kafka`. The
 * broker runs under a shell that kills it and removes its files when the test process ends, for whatever reason.
 */
import { spawnSync } from "node:child_process"
import { createHash } from "node:crypto"
import { once } from "node:events"
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { connect } from "node:net"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { freePort } from "../lib/port.ts"
import { madeOnce } from "./cached.ts"
import { type Authorities, makeCertificates } from "./certificates.ts"
import { ServerProcess } from "./ServerProcess.ts"

const here = join(import.meta.dir, "kafka")
const cache = resolve(import.meta.dir, "../../.cache/kafka")
const releases = { "4.3": "4.3.1", "3.9": "3.9.1" } as const
export type Release = keyof typeof releases
export const allReleases = Object.keys(releases) as ReadonlyArray<Release>

/** RELAY_KAFKA selects a release other than the newest. */
const release = ((): Release => {
  const wanted = process.env.RELAY_KAFKA ?? "4.3"
  const found = allReleases.find((one) => one === wanted)
  if (found === undefined) throw new Error(`RELAY_KAFKA=${wanted}: there are ${allReleases.join(" and ")}`)
  return found
})()

export const lockFile = (of: Release): string => join(here, `jars-${of}.sha256`)
const lock = lockFile(release)
/** The directory of Apache Kafka's jars. It exists after `ensureJars`. */
export const jars = join(cache, `jars-${createHash("sha256").update(readFileSync(lock)).digest("hex").slice(0, 12)}`)

let found: boolean | undefined
const hasJava = (): boolean => {
  found ??= spawnSync("java", ["-version"], { stdio: "ignore" }).status === 0
  return found
}

/**
 * Why the broker's tests don't run and how to run them, or `undefined` if they run. They take a minute, so they are off
 * by default.
 */
export const reasonToSkip = (): string | undefined => {
  if (process.env.RELAY_PARTS === "1") return undefined
  return hasJava()
    ? "RELAY_PARTS=1 bun test runs it against Apache Kafka (fetched once, by Maven, into .cache)"
    : "it needs Java 17 or later and, once, Maven; then RELAY_PARTS=1 bun test runs it against Apache Kafka"
}

/** Why no broker can run here, or `undefined` if one can. */
export const unavailable = (): string | undefined => (hasJava() ? undefined : "Apache Kafka needs Java 17 or later")

const must = (command: string, args: ReadonlyArray<string>, hint: string): void => {
  const { status, stdout, stderr, error } = spawnSync(command, args, { encoding: "utf8" })
  if (status !== 0) throw new Error(`${command} ${args[0]}: ${hint}\n${error?.message ?? ""}${stdout}${stderr}`)
}

const sums = (directory: string): string =>
  readdirSync(directory)
    .sort()
    .map(
      (name) =>
        `${createHash("sha256")
          .update(readFileSync(join(directory, name)))
          .digest("hex")}  ${name}\n`,
    )
    .join("")

/** Fetches the jars of a release into a directory, by Maven. */
export const fetchJars = (directory: string, of = release): void =>
  must(
    "mvn",
    [
      "--batch-mode",
      "--quiet",
      "--file",
      join(here, "pom.xml"),
      `-Dkafka=${releases[of]}`,
      "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies",
      "-DincludeScope=runtime",
      `-DoutputDirectory=${directory}`,
    ],
    "Maven fetches the Apache Kafka of the tests, once",
  )

/** The checksums of a directory of jars, in the format of `sha256sum`. */
export const lockOf = sums

export const ensureJars = (): void => {
  must("java", ["-version"], "the broker of the tests needs Java 17 or later")
  madeOnce(jars, (path) => {
    fetchJars(path)
    if (sums(path) !== readFileSync(lock, "utf8")) {
      throw new Error(`the jars differ from those of ${lock}: look at the changes before you write it again`)
    }
  })
}

export const java = (args: ReadonlyArray<string>, options: { readonly input?: string } = {}) =>
  spawnSync("java", ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", join(jars, "*"), ...args], {
    encoding: "utf8",
    maxBuffer: 1 << 30,
    ...options,
  })

/** The login of the broker's users. Anonymous users may do everything. */
export const user = { name: "relay", password: "relay-canary-3f9a1c" }

/** A broker closes the connection at a larger request, in bytes. */
export const largestRequest = 4 * 1024 * 1024

export interface Broker {
  /** Plain text, without a login. */
  readonly plain: string
  /** TLS, with a certificate of `authorities.own`. A client certificate is optional, but must be valid. */
  readonly tls: string
  /** TLS that demands a client certificate. */
  readonly mutual: string
  /** PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512 over TLS, for `user`. */
  readonly sasl: string
  /** SCRAM-SHA-512 alone, over TLS that demands a client certificate. */
  readonly scram: string
  readonly certificates: Authorities
  readonly pid: () => number
  /** kill -9. */
  readonly kill: () => Promise<void>
  /** Starts it again on the same ports and data, and waits until it answers. */
  readonly start: () => Promise<void>
  readonly signal: (signal: NodeJS.Signals) => void
  readonly stop: () => Promise<void>
}

/** Whether a program listens at a port of this machine. */
export const answers = async (port: number): Promise<boolean> => {
  const socket = connect(port, "127.0.0.1")
  try {
    await once(socket, "connect")
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}

/** A listener that advertises another port than its own: the port of a proxy in front of it. */
export interface Proxied {
  readonly name: string
  readonly protocol: "PLAINTEXT" | "SSL" | "SASL_PLAINTEXT" | "SASL_SSL"
  readonly port: number
  readonly advertised: number
  /** The advertised host (default: 127.0.0.1). */
  readonly host?: string
}

/** Writes a config that makes a broker log only warnings. Returns Java's option for it. */
export const quietIn = (home: string): string => {
  const quiet = join(home, "log4j2.properties")
  writeFileSync(
    quiet,
    "status=error\nappender.out.type=Console\nappender.out.name=out\nappender.out.layout.type=PatternLayout\nappender.out.layout.pattern=%d %p %c %m%n\nrootLogger.level=warn\nrootLogger.appenderRef.out.ref=out\n",
  )
  return `-Dlog4j2.configurationFile=${quiet}`
}

/** Additional settings of a broker, and options for its Java. */
export interface Settings {
  readonly properties?: Readonly<Record<string, string | number>>
  readonly options?: ReadonlyArray<string>
}

/** Makes a broker for one test, formatted and not started (default: on free ports). */
export const makeBroker = async (
  ports: { readonly plain?: number } = {},
  proxied: ReadonlyArray<Proxied> = [],
  { properties: own = {}, options = [] }: Settings = {},
): Promise<Broker> => {
  ensureJars()
  const home = mkdtempSync(join(tmpdir(), "relay-kafka-"))
  const certificates = makeCertificates(home)
  const [free, tls, mutual, sasl, scram, controller] = (await Promise.all([1, 2, 3, 4, 5, 6].map(freePort))) as [
    number,
    number,
    number,
    number,
    number,
    number,
  ]
  const plain = ports.plain ?? free
  const properties = join(home, "server.properties")
  const more = (each: (one: Proxied) => string) => proxied.map((one) => `,${each(one)}`).join("")
  const jaas = (module: string, more = "") => `org.apache.kafka.common.security.${module} required${more};`
  writeFileSync(
    properties,
    Object.entries({
      "process.roles": "broker,controller",
      "node.id": 1,
      "controller.quorum.voters": `1@127.0.0.1:${controller}`,
      listeners: `PLAIN://127.0.0.1:${plain},TLS://127.0.0.1:${tls},MUTUAL://127.0.0.1:${mutual},SASL://127.0.0.1:${sasl},SCRAM://127.0.0.1:${scram},CONTROLLER://127.0.0.1:${controller}${more(({ name, port }) => `${name}://127.0.0.1:${port}`)}`,
      "advertised.listeners": `PLAIN://127.0.0.1:${plain},TLS://127.0.0.1:${tls},MUTUAL://127.0.0.1:${mutual},SASL://127.0.0.1:${sasl},SCRAM://127.0.0.1:${scram}${more(({ name, advertised, host = "127.0.0.1" }) => `${name}://${host}:${advertised}`)}`,
      "listener.security.protocol.map": `PLAIN:PLAINTEXT,TLS:SSL,MUTUAL:SSL,SASL:SASL_SSL,SCRAM:SASL_SSL,CONTROLLER:PLAINTEXT${more(({ name, protocol }) => `${name}:${protocol}`)}`,
      "controller.listener.names": "CONTROLLER",
      "inter.broker.listener.name": "PLAIN",
      "socket.request.max.bytes": largestRequest,
      "log.dirs": join(home, "data"),
      "auto.create.topics.enable": false,
      "num.partitions": 3,
      "offsets.topic.replication.factor": 1,
      "offsets.topic.num.partitions": 1,
      "transaction.state.log.replication.factor": 1,
      "transaction.state.log.min.isr": 1,
      "transaction.state.log.num.partitions": 1,
      "share.coordinator.state.topic.replication.factor": 1,
      "share.coordinator.state.topic.min.isr": 1,
      "group.initial.rebalance.delay.ms": 0,
      // By default a client's bytes count against its quota for eleven seconds, and throttle it again and again.
      "quota.window.num": 2,
      "quota.window.size.seconds": 1,
      // By default a killed broker is unavailable for 14 seconds.
      "broker.session.timeout.ms": 1500,
      "broker.heartbeat.interval.ms": 500,
      // By default an expired producer is forgotten only after up to ten minutes.
      "producer.id.expiration.check.interval.ms": 200,
      // By default a topic is compacted after 15 seconds, with a buffer of half the broker's memory.
      "log.cleaner.backoff.ms": 500,
      "log.cleaner.dedupe.buffer.size": 8 * 1024 * 1024,
      "ssl.keystore.type": "PEM",
      "ssl.keystore.location": certificates.serverChain,
      "ssl.truststore.type": "PEM",
      "ssl.truststore.location": certificates.ca,
      "listener.name.tls.ssl.client.auth": "requested",
      "listener.name.mutual.ssl.client.auth": "required",
      "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
      ...Object.fromEntries(
        ["sasl", ...proxied.flatMap(({ name, protocol }) => (protocol.startsWith("SASL") ? [name.toLowerCase()] : []))]
          .flatMap((name) => [
            [`${name}.plain`, jaas("plain.PlainLoginModule", ` user_${user.name}="${user.password}"`)],
            [`${name}.scram-sha-256`, jaas("scram.ScramLoginModule")],
            [`${name}.scram-sha-512`, jaas("scram.ScramLoginModule")],
          ])
          .map(([name, value]) => [`listener.name.${name}.sasl.jaas.config`, value]),
      ),
      "listener.name.scram.ssl.client.auth": "required",
      "listener.name.scram.sasl.enabled.mechanisms": "SCRAM-SHA-512",
      "listener.name.scram.scram-sha-512.sasl.jaas.config": jaas("scram.ScramLoginModule"),
      "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
      "super.users": "User:ANONYMOUS",
      "allow.everyone.if.no.acl.found": true,
      ...own,
    })
      .map(([key, value]) => `${key}=${value}\n`)
      .join(""),
  )
  const logging = quietIn(home)
  const login = (mechanism: string) => ["--add-scram", `${mechanism}=[name=${user.name},password=${user.password}]`]
  const formatted = java([
    logging,
    "kafka.tools.StorageTool",
    "format",
    "--cluster-id",
    "cmVsYXktdGVzdC1jbHVzdA",
    "--config",
    properties,
    ...login("SCRAM-SHA-256"),
    ...login("SCRAM-SHA-512"),
  ])
  if (formatted.status !== 0) throw new Error(`the broker's disk: ${formatted.stdout}${formatted.stderr}`)

  const server = new ServerProcess({
    name: "the broker",
    home,
    command: [
      "java",
      ...["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", logging, ...options],
      ...["-cp", join(jars, "*"), "kafka.Kafka", properties],
    ],
    isUp: () => answers(plain),
  })

  return {
    plain: `127.0.0.1:${plain}`,
    tls: `127.0.0.1:${tls}`,
    mutual: `127.0.0.1:${mutual}`,
    sasl: `127.0.0.1:${sasl}`,
    scram: `127.0.0.1:${scram}`,
    certificates,
    pid: () => server.pid,
    start: server.start,
    kill: server.kill,
    signal: server.signal,
    stop: server.stop,
  }
}

let shared: Promise<Broker> | undefined

/** The broker that all tests of a process share. Tests that kill a broker start their own. */
export const sharedBroker = (): Promise<Broker> => {
  shared ??= makeBroker().then(async (broker) => {
    await broker.start()
    return broker
  })
  return shared
}

const property = release === "3.9" ? "--property" : "--formatter-property"

/** The records of a topic as Kafka's own console consumer prints them. It shares no code with the relay. */
export const consoleConsumer = (broker: string, topic: string, count: number): string =>
  java([
    "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "--bootstrap-server",
    broker,
    "--topic",
    topic,
    "--from-beginning",
    "--max-messages",
    String(count),
    "--timeout-ms",
    "20000",
    property,
    "print.key=true",
    property,
    "print.headers=true",
    property,
    "print.partition=true",
  ]).stdout
