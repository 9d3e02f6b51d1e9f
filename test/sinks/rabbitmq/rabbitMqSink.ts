/** RabbitMQ sinks to the broker of the tests, and the tests that need one. */
import { RabbitMq } from "../../../src/sinks/rabbitmq/RabbitMq.ts"
import { reasonToSkip, sharedRabbit } from "../../parts/RabbitMq.ts"
import { openThere, suitesWith } from "../thereSink.ts"

export const openRabbitMq = (config: () => Record<string, unknown>) => openThere("rabbitmq", RabbitMq, config)

/** Tests against a real broker. */
export const withRabbit = suitesWith(reasonToSkip, sharedRabbit)
