/** NATS sinks to the server of the tests, and the tests that need one. */
import type { StreamConfig } from "@nats-io/jetstream"
import type { ConnectionOptions } from "@nats-io/transport-node"
import { Effect } from "effect"
import { Nats } from "../../../src/sinks/nats/Nats.ts"
import type { Failures } from "../../../src/sinks/Sink.ts"
import { type NatsServer, reasonToSkip, sharedNats } from "../../parts/Nats.ts"
import { makeStream } from "../../parts/Streams.ts"
import { openThere, suitesWith } from "../thereSink.ts"

export const openNats = (config: () => Record<string, unknown>) => openThere("nats", Nats, config)

/** Tests against a real server. */
export const withNats = suitesWith(reasonToSkip, sharedNats)

/** Makes streams for one test on a server, and deletes each with its scope. */
export const streamOn =
  (server: () => NatsServer, options?: () => ConnectionOptions) => (config?: Partial<StreamConfig>) =>
    Effect.acquireRelease(
      Effect.promise(() => makeStream(server().server, config, options?.())),
      ({ remove }) => Effect.promise(remove),
    )

export const reasons = (failures: Failures) =>
  Object.fromEntries([...failures].map(([index, { reason }]) => [index, reason._tag]))
