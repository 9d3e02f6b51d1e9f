/** The Kafka sink under each condition, by kafkajs. */
import { columnOf } from "./KafkaRows.ts"

export const column = columnOf("kafkajs")
