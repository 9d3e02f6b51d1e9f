/** The Kafka sink under each condition, by its default client. */
import { columnOf } from "./KafkaRows.ts"

export const column = columnOf("platformatic")
