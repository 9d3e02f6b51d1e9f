/** Previews an event at a sink, whose config is written as in a file. */
import { Schema } from "effect"
import type { Preview } from "../../src/sinks/Sink.ts"
import { sinkTypes } from "../../src/sinks/SinkTypes.ts"
import { entry } from "./samples.ts"

export const preview = (name: string, config: object, one = entry(1)): Preview => {
  const type = sinkTypes[name]
  if (type === undefined) throw new Error(`there is no sink type ${name}`)
  return type.preview(Schema.decodeUnknownSync(type.config)(config), [one])[0] ?? {}
}
