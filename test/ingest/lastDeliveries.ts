/** Ingest after a restart: it has received nothing, and the journal may have deliveries. */
import { Context, Effect, Layer, Redacted } from "effect"
import { Ingest } from "../../src/ingest/Ingest.ts"
import { LastDeliveries } from "../../src/ingest/SenderSilence.ts"
import type { Archive } from "../../src/journal/Archive.ts"
import type { Journal } from "../../src/journal/Journal.ts"
import { activeConfig } from "../lib/activeConfig.ts"
import { webhook } from "./fixture.ts"

const secrets = ["main", "old"].map((name) => ({ name, value: Redacted.make(name) }))

export const startIngest = Effect.fnUntraced(function* (journal: Layer.Layer<Journal | Archive>) {
  const context = yield* Layer.build(
    LastDeliveries.layer.pipe(
      Layer.provideMerge(Ingest.layer),
      Layer.provide(Layer.merge(journal, activeConfig({ webhooks: [webhook({ secrets })] }))),
      // Without `fresh`, the layers would be built once for all calls of an outer test.
      Layer.fresh,
    ),
  )
  const { counters } = Context.get(context, Ingest)
  return {
    ...Context.get(context, LastDeliveries),
    signed: (name: string) => Object.fromEntries(counters.webhooks.get(name)?.secretsLastUsed ?? []),
  }
})
