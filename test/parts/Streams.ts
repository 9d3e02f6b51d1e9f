/** Streams of a test's own, and the messages in them, read by the NATS project's client. */
import { jetstreamManager, RetentionPolicy, StorageType, type StreamAPI, type StreamConfig } from "@nats-io/jetstream"
import { type ConnectionOptions, connect, type MsgHdrs } from "@nats-io/transport-node"

export interface Stored {
  readonly subject: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array
}

const headersOf = (all: MsgHdrs): Record<string, string> =>
  Object.fromEntries([...all.keys()].map((name) => [name, all.values(name).join(", ")]))

export interface Stream {
  readonly name: string
  /** Waits for `count` messages. Returns all messages ever stored, in order, or those from sequence `from` on. */
  readonly received: (count: number, from?: number) => Promise<ReadonlyArray<Stored>>
  readonly purge: () => Promise<void>
  readonly remove: () => Promise<void>
}

/** Number of concurrent requests for messages. */
const atOnce = 256

let made = 0

/** A name that no other stream has, and that is valid as a token of a subject. */
export const streamName = (): string => `stream${++made}`

const connected = async <A>(options: ConnectionOptions, use: (streams: StreamAPI) => Promise<A>): Promise<A> => {
  const connection = await connect({ reconnect: false, ...options })
  try {
    return await use((await jetstreamManager(connection, { checkAPI: false })).streams)
  } finally {
    await connection.close()
  }
}

/** Makes a stream on disk (default: of all subjects below its name). */
export const makeStream = async (
  server: string,
  config: Partial<StreamConfig> = {},
  login: ConnectionOptions = {},
): Promise<Stream> => {
  const options = { servers: server, ...login }
  const { name = streamName() } = config
  const usual = { subjects: [`${name}.>`], storage: StorageType.File, retention: RetentionPolicy.Limits }
  await connected(options, (streams) => streams.add({ ...usual, ...config, name }))
  return {
    name,
    received: (count, from = 1) =>
      connected(options, async (streams) => {
        const newest = async () => (await streams.info(name)).state.last_seq
        while ((await newest()) < count) await Bun.sleep(10)
        const last = await newest()
        const all: Array<Stored> = []
        for (let first = from; first <= last; first += atOnce) {
          const some = Array.from({ length: Math.min(atOnce, last + 1 - first) }, (_, index) => first + index)
          for (const one of await Promise.all(some.map((seq) => streams.getMessage(name, { seq })))) {
            if (one !== null) all.push({ subject: one.subject, headers: headersOf(one.header), body: one.data })
          }
        }
        return all
      }),
    purge: () => connected(options, async (streams) => void (await streams.purge(name))),
    remove: () => connected(options, async (streams) => void (await streams.delete(name))),
  }
}
