/** Guards against client libraries, each removed on purpose. */
import { mutantsOf } from "../Line.ts"

const containment = "src/sinks/Containment.ts"

export const mutants = mutantsOf({
  cuts: {
    "nobody listens for the second error of a Kafka connection": [
      "src/sinks/kafka/Platformatic.ts",
      `connection.on("error", ignoreErrors)`,
      "",
    ],
    "what nobody caught ends the process": [containment, "containedBy(contain)\n", ""],
    "a bug is given to the sink that was opened first": [
      containment,
      "frames.some(isOurs) ? [] : [owner]",
      "frames.some(isOurs) ? [] : [...known].slice(0, 1)",
    ],
  },
  "cuts-journal": {
    "nobody catches what the reader of PostgreSQL's answers throws": [
      "src/journal/postgres/connection/Connection.ts",
      "      contain(client)\n",
      "",
      4711,
    ],
    "a connection that closed before the pool had it is not lent": [
      "src/journal/postgres/connection/PooledDatabase.ts",
      "connection.isOpen ? f(connection)",
      "connection.server !== undefined ? f(connection)",
      5,
    ],
  },
  "wrong-answers": {
    "a greeting of NATS may be without an end": [
      "src/sinks/nats/NatsConnection.ts",
      "if (this.#greeting.length > longestLine)",
      "if (this.#greeting.length < 0)",
    ],
    "the client of NATS prints what it does not understand": [
      "src/sinks/nats/NatsConnection.ts",
      "        reader.parse(bytes)\n",
      "",
    ],
    "nobody listens for the second error of a connection to Kafka": [
      "src/sinks/kafka/Platformatic.ts",
      `connection.on("error", ignoreErrors)`,
      "",
    ],
  },
})
