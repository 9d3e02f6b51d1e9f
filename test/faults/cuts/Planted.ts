/** A planted bug in a client library affects only its own sink, and the process lives. */
import { once } from "node:events"
import { type AddressInfo, createServer } from "node:net"
import { planted } from "../../lib/relay.ts"
import type { Options } from "../Line.ts"
import { eventually, Subject } from "../relay/Subject.ts"
import { Receiver } from "../relay/Traffic.ts"

const kinds = ["exception", "rejection", "error"] as const

/** A peer that takes connections and says nothing. */
const silent = async () => {
  const server = createServer((socket) => socket.on("error", () => {}))
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  return { port: (server.address() as AddressInfo).port, close: () => server.close() }
}

const play = async (options: Options, kind: (typeof kinds)[number]): Promise<ReadonlyArray<string>> => {
  const broken: Array<string> = []
  const [peer, other, good] = [await silent(), await silent(), new Receiver()]
  const server = (port: number) => ({
    server: `127.0.0.1:${port}`,
    security: "none",
    from: "a@example.com",
    to: ["b@example.com"],
  })
  const subject = await Subject.make(options, {
    sinks: {
      good: { type: "http", url: good.url },
      buggy: { type: "kafka", brokers: [`127.0.0.1:${peer.port}`], topic: "t", requestTimeout: "1 second" },
      neighbour: { type: "email", ...server(other.port) },
    },
  })
  const relay = await subject.start({ env: planted(peer.port, kind) })
  let ended = false
  void relay.exited.then(() => {
    ended = true
  })
  await subject.sender.burst(3)
  const bugs = () => subject.metric("relay_sink_bugs_total").catch(() => new Map<string, number>())
  const isBlamed = async () => ended || ((await bugs()).get("buggy") ?? 0) > 1
  if (!(await eventually(isBlamed, 15))) broken.push(`a planted ${kind} is not counted as a bug of its sink`)
  if (ended) broken.push(`a planted ${kind} ended the process`)
  else {
    await subject.sender.burst(3)
    if (!(await subject.drained(2, ["good"]))) broken.push(`a planted ${kind} held the healthy sink up`)
    for (const [sink, count] of await bugs()) {
      if (sink !== "buggy" && count > 0) broken.push(`a planted ${kind} is said to be of ${sink}`)
    }
  }
  await relay.kill("SIGKILL")
  peer.close()
  other.close()
  await good.goAway()
  if (broken.length === 0) subject.remove()
  return broken
}

/** Returns a sentence for each violation. */
export const playPlanted = async (options: Options): Promise<ReadonlyArray<string>> =>
  (await Promise.all(kinds.map((kind) => play(options, kind)))).flat()
