/**
 * Opens sinks from configs written as in a file, here or under the runtime that RELAY_UNDER names. Also makes suites
 * that need a part to send to.
 */
import { beforeAll } from "bun:test"
import { Effect, Schema, type Scope } from "effect"
import type { Sink, SinkError, SinkType } from "../../src/sinks/Sink.ts"
import { suiteUnless } from "../lib/lacking.ts"
import { openElsewhere, startElsewhere } from "./elsewhereSink.ts"

const under = process.env.RELAY_UNDER

/** Opens a sink of the type. RELAY_UNDER selects another runtime, or a binary. */
export const openThere = <Config>(
  name: string,
  type: SinkType<Config>,
  config: () => Record<string, unknown>,
): Effect.Effect<Sink, SinkError, Scope.Scope> =>
  Effect.suspend(() =>
    under === undefined
      ? type.open(Schema.decodeUnknownSync(type.config)(config()))
      : openElsewhere(under, name, config()),
  )

/** Starts the process that RELAY_UNDER names. Call it before a suite, because it takes longer than a test may. */
export const startThere = (): Promise<void> => (under === undefined ? Promise.resolve() : startElsewhere(under))

/** Makes suites that need a part. Each runs against the part, or reports why it was skipped and how to get it. */
export const suitesWith =
  <Part>(reasonToSkip: () => string | undefined, shared: () => Promise<Part>) =>
  (title: string, body: (part: () => Part) => void): void =>
    suiteUnless(reasonToSkip(), title, () => {
      let part: Part
      beforeAll(async () => {
        part = await shared()
        await startThere()
      }, 300_000)
      body(() => part)
    })
