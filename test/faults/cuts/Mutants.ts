/** Guards against client libraries, each removed on purpose. */
import type { Mutant } from "../Line.ts"

const containment = "src/sinks/Containment.ts"

export const mutants: ReadonlyArray<Mutant> = [
  {
    line: "cuts",
    gone: "nobody listens for the second error of a Kafka connection",
    file: "src/sinks/kafka/Platformatic.ts",
    find: `connection.on("error", ignoreErrors)`,
    replace: "",
  },
  {
    line: "cuts-journal",
    gone: "nobody catches what the reader of PostgreSQL's answers throws",
    file: "src/journal/postgres/connection/Connection.ts",
    find: "      contain(client)\n",
    replace: "",
    seed: 4711,
  },
  {
    line: "cuts",
    gone: "what nobody caught ends the process",
    file: containment,
    find: "containedBy(contain)\n",
    replace: "",
  },
  {
    line: "cuts",
    gone: "a bug is given to the sink that was opened first",
    file: containment,
    find: "frames.some(isOurs) ? [] : [owner]",
    replace: "frames.some(isOurs) ? [] : [...known].slice(0, 1)",
  },
  {
    line: "wrong-answers",
    gone: "a greeting of NATS may be without an end",
    file: "src/sinks/nats/NatsConnection.ts",
    find: "if (this.#greeting.length > longestLine)",
    replace: "if (this.#greeting.length < 0)",
  },
  {
    line: "wrong-answers",
    gone: "the client of NATS prints what it does not understand",
    file: "src/sinks/nats/NatsConnection.ts",
    find: "        reader.parse(bytes)\n",
    replace: "",
  },
  {
    line: "wrong-answers",
    gone: "nobody listens for the second error of a connection to Kafka",
    file: "src/sinks/kafka/Platformatic.ts",
    find: `connection.on("error", ignoreErrors)`,
    replace: "",
  },
  {
    line: "cuts-journal",
    gone: "a connection that closed before the pool had it is not lent",
    file: "src/journal/postgres/connection/PooledDatabase.ts",
    find: "connection.isOpen ? f(connection)",
    replace: "connection.server !== undefined ? f(connection)",
    seed: 5,
  },
]
