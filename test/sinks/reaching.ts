/**
 * Sends one event by each HTTP sink config on standard input, and prints the reasons. Bun and Deno both run this
 * program, so that a difference between them is seen to come from the runtime, not from the sink.
 */
import process from "node:process"
import { Effect, Schema } from "effect"
import { Http } from "../../src/sinks/http/Http.ts"
import { HttpConfig } from "../../src/sinks/http/HttpConfig.ts"
import { entry, reasonOf } from "./samples.ts"

let input = ""
for await (const chunk of process.stdin) input += chunk

const configs: Readonly<Record<string, unknown>> = JSON.parse(input)
const reasons: Record<string, unknown> = {}
for (const [name, config] of Object.entries(configs)) {
  const sink = Effect.suspend(() => Http.open(Schema.decodeUnknownSync(HttpConfig)(config)))
  const sent = Effect.scoped(Effect.flatMap(sink, (sink) => sink.send([entry(1)])))
  const reason = await Effect.runPromise(reasonOf(sent))
  reasons[name] = reason === undefined ? "delivered" : `${reason._tag}: ${reason.message}`
}
console.log(JSON.stringify(reasons))
