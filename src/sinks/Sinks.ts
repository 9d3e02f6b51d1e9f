/**
 * The sinks there are. The only file that names them: a new one is a line here.
 */
import { Console } from "./Console.ts"
import { File } from "./File.ts"
import { Http } from "./Http.ts"
import { Kafka } from "./Kafka.ts"
import type { SinkType } from "./Sink.ts"

/** A type whose config only its own schema knows: what comes out of `config` is what goes into `open`. */
export type AnySinkType = SinkType<unknown>

const erase = <Config>(type: SinkType<Config>): AnySinkType => ({
  ...type,
  open: (name, config) => type.open(name, config as Config),
})

export const sinkTypes: Readonly<Record<string, AnySinkType>> = {
  http: erase(Http),
  file: erase(File),
  console: erase(Console),
  kafka: erase(Kafka),
}
