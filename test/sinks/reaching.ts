/**
 * Sends one event by each HTTP sink config on standard input, and prints the
 * reasons: the same program under Bun and under Deno, so that what a runtime
 * calls a fault is no fault of the sink.
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
