/** A NATS server, killed and frozen, with a JetStream stream on disk. */
import type { Line } from "../Line.ts"
import { skipped } from "../relay/Subject.ts"
import { bodyOf, numberOf } from "../relay/Traffic.ts"
import { killed } from "./Killed.ts"

const arrival = (body: Uint8Array): number => {
  const text = Buffer.from(body).toString()
  const number = numberOf(JSON.parse(text).id)
  return text === bodyOf(number) ? number : -1
}

export const natsKilled: Line = {
  name: "nats-killed",
  fault: "a NATS server and the relay are killed in turn under load; it freezes",
  run: async (options) => {
    const { lacking, startNats } = await import("../../parts/Nats.ts")
    const why = lacking()
    if (why !== undefined) return skipped(why)
    const { makeStream } = await import("../../parts/Streams.ts")
    const nats = await startNats()
    const stream = await makeStream(nats.server)
    await nats.kill()
    const numbers: Array<number> = []
    return killed(
      {
        config: { type: "nats", servers: [nats.server], subject: `${stream.name}.events` },
        kill: nats.kill,
        start: nats.start,
        freeze: () => nats.signal("SIGSTOP"),
        thaw: () => nats.signal("SIGCONT"),
        arrived: async () => {
          for (const { body } of await stream.received(0, numbers.length + 1)) numbers.push(arrival(body))
          return numbers
        },
        remove: nats.stop,
      },
      options,
    )
  },
}
