/** RabbitMQ, killed and frozen, with a durable queue: confirmed messages are on disk. */
import { Effect } from "effect"
import type { Line } from "../Line.ts"
import { skipped } from "../relay/Subject.ts"
import { bodyOf, numberOf } from "../relay/Traffic.ts"
import { killed } from "./Killed.ts"

const arrival = (body: Buffer): number => {
  const text = body.toString()
  const number = numberOf(JSON.parse(text).id)
  return text === bodyOf(number) ? number : -1
}

export const rabbitMqKilled: Line = {
  name: "rabbitmq-killed",
  fault: "RabbitMQ and the relay are killed in turn under load; it freezes",
  run: async (options) => {
    const { makeRabbit, reasonToSkip } = await import("../../parts/RabbitMq.ts")
    const why = reasonToSkip()
    if (why !== undefined) return skipped(why)
    const { drain, makeQueue } = await import("../../parts/RabbitQueues.ts")
    const rabbit = await makeRabbit()
    await rabbit.start()
    const queue = await Effect.runPromise(makeQueue(rabbit.url(), { exchange: "" }))
    await rabbit.kill()
    const numbers: Array<number> = []
    return killed(
      {
        config: { type: "rabbitmq", url: rabbit.url(), routingKey: queue },
        kill: rabbit.kill,
        start: rabbit.start,
        freeze: () => rabbit.signal("SIGSTOP"),
        thaw: () => rabbit.signal("SIGCONT"),
        arrived: async () => {
          for (const body of await drain(rabbit.url(), queue)) numbers.push(arrival(body))
          return numbers
        },
        remove: rabbit.stop,
      },
      options,
    )
  },
}
