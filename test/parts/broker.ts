/**
 * `bun test/parts/broker.ts` runs Apache Kafka on 127.0.0.1:9092 until Ctrl-C, to try the Kafka sink. It needs Java 17.
 */
import { makeBroker } from "./Kafka.ts"

const broker = await makeBroker({ plain: 9092 })
process.once("SIGINT", () => void broker.stop().then(() => process.exit(0)))
process.once("SIGTERM", () => void broker.stop().then(() => process.exit(0)))
await broker.start()
console.log(`Apache Kafka listens on ${broker.plain}; what is in it goes when it stops (Ctrl-C)`)
