/**
 * `bun test/parts/rabbit.ts` runs RabbitMQ on 127.0.0.1:5672 until Ctrl-C, with the targets of
 * config/examples/rabbitmq.json. It needs Debian's rabbitmq-server.
 */
import { connect } from "amqplib"
import { lacking, makeRabbit } from "./RabbitMq.ts"

const why = lacking()
if (why !== undefined) {
  console.error(`RabbitMQ is missing: ${why}`)
  process.exit(1)
}
const rabbit = await makeRabbit(5672)
process.once("SIGINT", () => void rabbit.stop().then(() => process.exit(0)))
process.once("SIGTERM", () => void rabbit.stop().then(() => process.exit(0)))
await rabbit.start()
const model = await connect(rabbit.url())
const channel = await model.createChannel()
await channel.assertExchange("scheduling", "topic", { durable: true })
await channel.assertQueue("bookings", { durable: true })
await channel.bindQueue("bookings", "scheduling", "#")
await model.close()
console.log(`RabbitMQ listens on ${rabbit.address}; what is in it goes when it stops (Ctrl-C)`)
