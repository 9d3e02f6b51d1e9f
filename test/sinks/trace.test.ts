/** The trace of an event goes out with it, by whatever carries it: a header, or an attribute. */
import { describe, expect, test } from "bun:test"
import { Schema } from "effect"
import { sinkTypes } from "../../src/sinks/SinkTypes.ts"
import { entry } from "./samples.ts"

const trace = { traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", tracestate: "vendor=1" }
const traced = { ...entry(1), event: { ...entry(1).event, trace } }

const configs: Readonly<Record<string, object>> = {
  http: { url: "https://example.com/hooks" },
  kafka: { brokers: ["broker:9092"], topic: "events" },
  sns: { topicArn: "arn:aws:sns:eu-west-1:000000000000:events" },
}

describe("a sink of type", () => {
  for (const [name, config] of Object.entries(configs)) {
    test(`${name} sends the trace of an event that has one, and nothing of one where there is none`, () => {
      const type = sinkTypes[name]
      if (type === undefined) throw new Error(`nothing shows what ${name} sends`)
      const decoded = Schema.decodeUnknownSync(type.config)(config)
      const shown = JSON.stringify(type.preview(decoded, [traced]))
      expect(shown).toContain(trace.traceparent)
      expect(shown).toContain(trace.tracestate)
      expect(JSON.stringify(type.preview(decoded, [entry(1)]))).not.toContain("trace")
    })
  }
})
