/**
 * RabbitMQ itself, for tests: one broker on loopback, from Debian's package.
 *
 * It has its own directory, node name, ports, cookie and port mapper (epmd), so it is separate from a broker of the
 * machine. Broker and mapper run under a shell that kills them and removes their files when the test process ends, for
 * whatever reason.
 */
import { execFile } from "node:child_process"
import { createHash } from "node:crypto"
import { existsSync, mkdirSync, mkdtempSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import process from "node:process"
import { promisify } from "node:util"
import { connect } from "amqplib"
import { freePort } from "../lib/port.ts"
import { type Authorities, makeCertificates } from "./certificates.ts"
import { ServerProcess } from "./ServerProcess.ts"

/** Debian's own command requires root or the user rabbitmq. */
const programs = "/usr/lib/rabbitmq/bin"

/** How to install it, or `undefined` if it is installed. */
export const lacking = (): string | undefined =>
  existsSync(join(programs, "rabbitmq-server")) ? undefined : "it needs RabbitMQ: apt-get install rabbitmq-server"

/** Why the broker's tests don't run and how to run them, or `undefined` if they run. */
export const reasonToSkip = (): string | undefined =>
  lacking() ?? (process.env.RELAY_PARTS === "1" ? undefined : "RELAY_PARTS=1 bun test runs it against RabbitMQ")

const password = "relay-canary-3f9a1c"

/** Users, by their permissions. */
export const users = {
  /** Everything. `guest` may do the same, and its password is its name. */
  relay: "relay",
  /** Read. */
  reader: "reader",
  /** Writing with routing keys that start with `appointment.`. */
  limited: "limited",
  password,
}

/** A queue that exists as soon as the broker answers, and its binding. */
export const bound = { queue: "bound", exchange: "amq.topic", key: "bound.#" }

/** Permissions of `limited`: no more than `docs/reference/rights.md` requires. */
export const rights = { configure: "^$", write: "^amq\\.topic$", read: "^$" }

const salted = (password: string): string => {
  const salt = Buffer.from("salt")
  const hash = createHash("sha256")
    .update(Buffer.concat([salt, Buffer.from(password)]))
    .digest()
  return Buffer.concat([salt, hash]).toString("base64")
}

const definitions = () => {
  const user = (name: string) => ({
    name,
    password_hash: salted(name === "guest" ? name : password),
    hashing_algorithm: "rabbit_password_hashing_sha256",
    tags: "",
  })
  const all = ".*"
  return {
    // The certificate in certificates.ts is for the user `client`.
    users: ["guest", "relay", "reader", "limited", "client"].map(user),
    vhosts: [{ name: "/" }, { name: "a/b" }, { name: "closed" }],
    permissions: [
      ...["guest", "relay", "client"].map((user) => ({
        user,
        vhost: "/",
        configure: all,
        write: all,
        read: all,
      })),
      ...["relay", "client"].map((user) => ({ user, vhost: "a/b", configure: all, write: all, read: all })),
      { user: "limited", vhost: "/", ...rights },
      { user: "reader", vhost: "/", configure: "", write: "", read: all },
    ],
    queues: [{ name: bound.queue, vhost: "/", durable: true, auto_delete: false, arguments: {} }],
    bindings: [
      {
        source: bound.exchange,
        vhost: "/",
        destination: bound.queue,
        destination_type: "queue",
        routing_key: bound.key,
        arguments: {},
      },
    ],
    topic_permissions: [{ user: "limited", vhost: "/", exchange: "amq.topic", write: "^appointment\\.", read: all }],
  }
}

/** The largest message that the broker accepts, in bytes. */
export const largest = 2 * 1024 * 1024

export interface Rabbit {
  /** The URL of a user, in plain text (default: `relay` and `/`). */
  readonly url: (user?: string, vhost?: string) => string
  /** The URL of a user over TLS. A client certificate is optional, and logs in by itself. */
  readonly tlsUrl: (user?: string) => string
  /** Host and port of `url`. */
  readonly address: string
  readonly certificates: Authorities
  /** kill -9. */
  readonly kill: () => Promise<void>
  /** Starts it again on the same ports and data, and waits until it answers. */
  readonly start: () => Promise<void>
  readonly signal: (signal: NodeJS.Signals) => void
  /** Makes it evaluate Erlang code. */
  readonly evaluate: (erlang: string) => Promise<void>
  readonly stop: () => Promise<void>
}

/** Makes a broker for one test, not started (default: on a free port). */
export const makeRabbit = async (at?: number): Promise<Rabbit> => {
  const home = mkdtempSync(join(tmpdir(), "relay-rabbitmq-"))
  const certificates = makeCertificates(home)
  const [free, tls, mapper, distribution] = (await Promise.all([1, 2, 3, 4].map(freePort))) as [
    number,
    number,
    number,
    number,
  ]
  const port = at ?? free
  const write = (name: string, text: string): string => {
    writeFileSync(join(home, name), text)
    return join(home, name)
  }
  const settings = {
    "listeners.tcp.1": `127.0.0.1:${port}`,
    "listeners.ssl.1": `127.0.0.1:${tls}`,
    "ssl_options.cacertfile": certificates.ca,
    "ssl_options.certfile": certificates.serverChain,
    "ssl_options.keyfile": certificates.serverChain,
    "ssl_options.verify": "verify_peer",
    "ssl_options.fail_if_no_peer_cert": false,
    ssl_cert_login_from: "common_name",
    "auth_mechanisms.1": "PLAIN",
    "auth_mechanisms.2": "EXTERNAL",
    max_message_size: largest,
    load_definitions: write("definitions.json", JSON.stringify(definitions())),
    // Other programs on the machine must not trigger its alarms.
    "vm_memory_high_watermark.relative": 0.9,
    "disk_free_limit.absolute": "1MB",
  }
  const config = write(
    "rabbitmq.conf",
    Object.entries(settings)
      .map(([key, value]) => `${key} = ${value}\n`)
      .join(""),
  )
  mkdirSync(join(home, "log"))
  const env = {
    PATH: process.env.PATH,
    HOME: home,
    // Its programs run in the tests' directory, which must get no crash dump.
    ERL_CRASH_DUMP: join(home, "erl_crash.dump"),
    ERL_EPMD_PORT: String(mapper),
    ERL_EPMD_ADDRESS: "127.0.0.1",
    RABBITMQ_BASE: home,
    RABBITMQ_MNESIA_BASE: join(home, "data"),
    RABBITMQ_LOG_BASE: join(home, "log"),
    RABBITMQ_CONFIG_FILE: config,
    RABBITMQ_CONF_ENV_FILE: join(home, "none"),
    RABBITMQ_NODENAME: `relay-${port}@localhost`,
    RABBITMQ_DIST_PORT: String(distribution),
    RABBITMQ_ENABLED_PLUGINS_FILE: write("plugins", "[rabbitmq_auth_mechanism_ssl].\n"),
    // Two schedulers are enough. They sleep while idle.
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS:
      "+S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none -kernel inet_dist_use_interface {127,0,0,1}",
    // Otherwise its script stays the parent process, and signals reach only the script.
    RUNNING_UNDER_SYSTEMD: "true",
  }
  const urlOf = (scheme: string, port: number, user: string, vhost: string) =>
    `${scheme}://${user}:${password}@127.0.0.1:${port}/${encodeURIComponent(vhost)}`
  const url = (user = users.relay, vhost = "/") => urlOf("amqp", port, user, vhost)

  const answers = async (): Promise<boolean> => {
    try {
      await (await connect(url(), { timeout: 2_000 })).close()
      return true
    } catch {
      return false
    }
  }

  const own = new ServerProcess({
    name: "RabbitMQ",
    home,
    command: [join(programs, "rabbitmq-server")],
    isUp: answers,
    env,
    beside: 'epmd -port "$ERL_EPMD_PORT" -address 127.0.0.1',
  })

  return {
    url,
    tlsUrl: (user = users.relay) => urlOf("amqps", tls, user, "/"),
    address: `127.0.0.1:${port}`,
    certificates,
    start: own.start,
    kill: own.kill,
    signal: own.signal,
    stop: own.stop,
    evaluate: async (erlang) => {
      await promisify(execFile)(join(programs, "rabbitmqctl"), ["eval", erlang], { env })
    },
  }
}

let shared: Promise<Rabbit> | undefined

/** The broker that all tests of a process share. Tests that kill a broker start their own. */
export const sharedRabbit = (): Promise<Rabbit> => {
  shared ??= makeRabbit().then(async (rabbit) => {
    await rabbit.start()
    return rabbit
  })
  return shared
}
