/** The NATS sink under each condition. */
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { DiscardPolicy, StorageType, type StreamConfig } from "@nats-io/jetstream"
import { type ConnectionOptions, connect } from "@nats-io/transport-node"
import { bodyOf } from "../faults/relay/Traffic.ts"
import { freePort } from "../lib/port.ts"
import { type NatsServer, reasonToSkip, sharedNats, startNats } from "../parts/Nats.ts"
import { makeStream, type Stored, type Stream, streamName } from "../parts/Streams.ts"
import type { Column } from "./Column.ts"
import type { Place } from "./Play.ts"
import * as Wires from "./Wires.ts"

const { numberIn, sized, special } = Wires
const on = Wires.on(reasonToSkip())

interface NatsTarget extends Wires.Target {
  readonly server: NatsServer
  readonly name: string
  /** The messages of the stream. */
  readonly stored: () => Promise<ReadonlyArray<Stored>>
  /** Reads the stream and deletes it. */
  readonly remove: () => Promise<void>
  /** Makes it, or makes it again with other settings. */
  readonly make: (config?: Partial<StreamConfig>) => Promise<Stream>
}

interface Setup {
  readonly server?: () => Promise<NatsServer>
  readonly keys?: object
  readonly login?: ConnectionOptions
  readonly subject?: string
}

/** A stream, and a sink to it. */
const stream =
  (
    { server: started = sharedNats, keys = {}, login = {}, subject = "events" }: Setup = {},
    config: Partial<StreamConfig> = {},
  ) =>
  async (): Promise<NatsTarget> => {
    const server = await started()
    const name = streamName()
    const numbers: Array<number> = []
    let read = 0
    let there: Stream | undefined
    const arrived = async () => {
      if (there === undefined) return numbers
      for (const { body } of await there.received(0, read + 1)) {
        numbers.push(numberIn(body))
        read += 1
      }
      return numbers
    }
    const make = async (config: Partial<StreamConfig> = {}) => {
      there = await makeStream(server.server, { name, ...config }, login)
      return there
    }
    await make(config)
    return {
      server,
      name,
      port: server.port,
      sink: (address, ca) => ({
        type: "nats",
        servers: [address],
        subject: `${name}.${subject}`,
        ...(ca !== undefined && { tls: { ca } }),
        ...keys,
      }),
      arrived,
      stored: async () => (await there?.received(0)) ?? [],
      make,
      remove: async () => {
        await arrived()
        await there?.remove()
        there = undefined
        read = 0
      },
      close: () => (started === sharedNats ? undefined : server.stop()),
    }
  }

/** A server whose configuration changes while it runs. */
const configured = async (place: Place, config: string, setup: Setup = {}) => {
  const file = join(place.directory, "more.conf")
  writeFileSync(file, config)
  // It looks for the file below its own directory.
  const server = () => startNats(`include "${"../".repeat(9)}${file}"`)
  const target = await stream({ ...setup, server })()
  return {
    ...target,
    configure: (config: string) => {
      writeFileSync(file, config)
      target.server.signal("SIGHUP")
    },
  }
}

const admin = { user: "admin", pass: "admin" }
const users = (password: string, permissions = "") =>
  `authorization { users: [
    { user: admin, password: admin }
    { user: relay, password: "${password}" ${permissions} }
  ] }`

/** A user whose password the relay has from a file. */
const withUser = async (place: Place) => {
  const keep = (password: string) => writeFileSync(join(place.directory, "password"), password)
  keep("one")
  const keys = { auth: { username: "relay", password: "file:password" } }
  return { ...(await configured(place, users("one"), { keys, login: admin })), keep }
}

/** A server with a certificate. It is restarted with another one. */
const overTls = async (place: Place, pem: object) => {
  const [cert, key] = [join(place.directory, "server.pem"), join(place.directory, "server.key")]
  const write = (pem: { readonly cert?: unknown; readonly key?: unknown }) => {
    writeFileSync(cert, String(pem.cert))
    writeFileSync(key, String(pem.key))
  }
  write(pem)
  const target = await stream({
    server: () => startNats(`tls { cert_file: "${cert}", key_file: "${key}" }`),
    login: { tls: { caFile: join(place.directory, "trusted.pem") } },
  })()
  return {
    target,
    front: {
      port: target.port,
      present: async (pem: object) => {
        await target.server.kill()
        write(pem)
        await target.server.start()
      },
      close: async () => {},
    },
  }
}

/** Asks until the servers have elected a leader. */
const answered = async <A>(ask: () => Promise<A>): Promise<A> => {
  try {
    return await ask()
  } catch {
    await Bun.sleep(100)
    return answered(ask)
  }
}

/** Three servers with three copies of a stream. Two of them are killed. */
const withQuorum = async () => {
  const ports = await Promise.all([1, 2, 3].map(freePort))
  const routes = ports.map((port) => `nats://127.0.0.1:${port}`)
  const servers = await Promise.all(
    ports.map((port, index) =>
      startNats(
        `server_name: n${index}\ncluster { name: c, listen: "127.0.0.1:${port}", routes: ${JSON.stringify(routes)} }`,
      ),
    ),
  )
  const [first, ...others] = servers
  const made = stream({ server: async () => first as NatsServer }, { num_replicas: 3 })
  const target = await answered(made)
  return {
    ...target,
    sink: (address: string) => ({ ...target.sink(address), servers: [address, ...others.map(({ server }) => server)] }),
    others,
    close: () => Promise.all(servers.map(({ stop }) => stop())),
  }
}

/** The server's own limit, in bytes with the headers. */
const maxPayload = 1024 * 1024
/** The largest body beside the headers of the relay. */
let largestBody = 0
const isLarge = (number: number): boolean => number === special || number === special + 1

export const column: Column = {
  sink: "nats",
  cells: {
    a: Wires.forgets(on, stream()),
    b: [
      ...Wires.moves(on, stream(), /can't be reached/),
      on("the name gets another address, and the old server lives on without the stream", {
        names: true,
        start: Wires.byName(
          stream(),
          ({ target }) => target.remove(),
          ({ lead }) => lead(Wires.addresses.second),
          async ({ name }) => {
            const server = await startNats()
            const { received } = await makeStream(server.server, { name })
            return {
              port: server.port,
              arrived: async () => (await received(0)).map(({ body }) => numberIn(body)),
              close: server.stop,
            }
          },
        ),
        says: /misconfigured: .*no stream takes this subject/,
      }),
    ],
    c: [
      on("the password changes at the server, and then in its file", {
        start: Wires.byProxy(
          withUser,
          ({ target }) => target.configure(users("two")),
          async ({ target, place }) => {
            target.keep("two")
            await place.reload()
          },
        ),
        says: /misconfigured: .*refuses who logs in: correct "auth"/,
      }),
    ],
    d: [
      on("the stream is deleted, and made again with other settings", {
        start: Wires.byProxy(
          stream(),
          ({ target }) => target.remove(),
          ({ target }) => target.make({ storage: StorageType.Memory, max_msgs: 100 }),
        ),
        says: /misconfigured: .*no stream takes this subject/,
        isQuick: true,
      }),
      on("the stream never existed", {
        isThereAtStart: true,
        start: Wires.byProxy(
          stream(),
          ({ target }) => target.remove(),
          ({ target }) => target.make(),
        ),
        says: /misconfigured: .*no stream takes this subject/,
      }),
    ],
    e: Wires.answersLate(on, stream(), /no answer within 3s/),
    f: [
      on("the stream refuses one message of a batch until it has room for its subject; the others are sent once", {
        start: Wires.byProxy(
          stream(
            { subject: "{{account_id}}" },
            {
              max_msgs_per_subject: 1,
              discard: DiscardPolicy.New,
              discard_new_per_subject: true,
            },
          ),
          async ({ target }) => {
            const connection = await connect({ servers: target.server.server })
            await connection.request(`${target.name}.acct_${special}`, bodyOf(1_000))
            await connection.close()
            void Bun.sleep(500).then(async () => {
              const own = await connect({ servers: target.server.server })
              await own.request(
                `$JS.API.STREAM.PURGE.${target.name}`,
                JSON.stringify({ filter: `${target.name}.acct_${special}` }),
              )
              await own.close()
            })
          },
        ),
        bound: { copies: 0, because: "only the refused event is sent again" },
      }),
    ],
    g: [
      on("the right to publish is taken away", {
        start: Wires.byProxy(
          withUser,
          ({ target }) => target.configure(users("one", ', permissions: { publish: "other.>" }')),
          ({ target }) => target.configure(users("one")),
        ),
        says: /misconfigured: .*the user may not publish to this subject/,
      }),
      on("one event is larger than the stream takes, among others", {
        start: Wires.byProxy(stream({}, { max_msg_size: 20_000 }), () => {}),
        body: (number) => (number === special ? sized(number, 30_000) : bodyOf(number)),
        letters: (number) => number === special,
        says: /an event of 30\d\d\d bytes, headers included, is larger than the stream takes: .*10054/,
      }),
    ],
    h: [
      // It waits for a request, as the relay waits for the server's greeting.
      ...Wires.answersHttp(on, stream(), /waiting: (no answer within 3s|NATS .* does not answer)/),
      on("another program answers on the subject in the stream's place", {
        start: Wires.byProxy(
          async () => {
            const target = await stream()()
            const connection = await connect({ servers: target.server.server })
            return {
              ...target,
              connection,
              close: () => connection.close(),
            }
          },
          async ({ target: { connection, name, remove } }) => {
            await remove()
            connection.subscribe(`${name}.events`, { max: 30, callback: (_, message) => void message.respond("ok") })
            await connection.flush()
          },
          async ({ target: { connection, make } }) => {
            await connection.close()
            await make()
          },
        ),
        says: /misconfigured: .*what answers on this subject is no stream/,
      }),
    ],
    i: Wires.clocks(on, stream()),
    j: [
      on("the stream is full and asks to wait; the protocol names no time", {
        start: Wires.byProxy(
          stream({}, { max_msgs: 5, discard: DiscardPolicy.New }),
          () => {},
          async ({ target }) => {
            await target.arrived()
            const connection = await connect({ servers: target.server.server })
            await connection.request(`$JS.API.STREAM.PURGE.${target.name}`)
            await connection.close()
          },
        ),
        says: /waiting: .*the stream is full: .*maximum messages exceeded/,
        bound: {
          wait: 5_000,
          because: "consumers don't make room in a moment, so the sink asks for a pause of 5 seconds",
        },
      }),
    ],
    k: [
      ...Wires.severalAddresses(on, stream()),
      on("the first server of the list is dead", {
        isThereAtStart: true,
        start: async (place) => {
          const dead = await freePort()
          const target = await stream()()
          return Wires.byProxy(
            async () => ({
              ...target,
              sink: (address) => ({ ...target.sink(address), servers: [`127.0.0.1:${dead}`, address] }),
            }),
            () => {},
          )(place)
        },
      }),
    ],
    l: [
      on("the server is killed, and starts again", {
        start: Wires.byProxy(
          stream({ server: startNats }),
          ({ target }) => target.server.kill(),
          ({ target }) => target.server.start(),
        ),
        says: /waiting: .*can't be reached|waiting: .*has closed the connection/,
        isQuick: true,
      }),
      on("two of three servers are killed, so the stream has no quorum", {
        start: Wires.byProxy(
          withQuorum,
          ({ target }) => Promise.all(target.others.map(({ kill }) => kill())),
          async ({ target }) => {
            await Promise.all(target.others.map(({ start }) => start()))
            await answered(target.stored)
          },
        ),
        says: /waiting: .*the stream has no leader now/,
      }),
    ],
    m: Wires.certificates(on, overTls),
    n: [
      on("an event of the largest size that the server takes, and one that is a byte larger", {
        start: Wires.byProxy(stream(), async ({ target }) => {
          const [stored] = await target.stored()
          const headers = Object.entries(stored?.headers ?? {}).map(([name, value]) => `${name}: ${value}\r\n`)
          largestBody = maxPayload - `NATS/1.0\r\n${headers.join("")}\r\n`.length
        }),
        body: (number) => (isLarge(number) ? sized(number, largestBody + number - special) : bodyOf(number)),
        letters: (number) => number === special + 1,
        says: /an event of 1048577 bytes, headers included, is larger than the server takes: raise its max_payload/,
      }),
    ],
  },
}
