/**
 * Rules between the parts of a config, beyond the schema of each.
 *
 * The rules read the resolved JSON rather than the decoded config, so that one
 * mistake doesn't hide another. Values of the wrong shape are skipped: the schema
 * reports them.
 */
import type { Finding } from "../diagnostics/Source.ts"
import type { ConfiguredTypes } from "../schema/ConfiguredTypes.ts"
import type { JournalTypes } from "../schema/JournalSchema.ts"
import { idleRules, routeRules, testRules } from "./RouteRules.ts"
import { fields } from "./Shape.ts"
import { clientRules, fileRules, sinkRules } from "./SinkRules.ts"
import { textRules } from "./TextRules.ts"
import { listenRules, webhookRules } from "./WebhookRules.ts"

interface Types {
  readonly sinkTypes: ConfiguredTypes
  readonly journalTypes: JournalTypes
  /** Which file a path leads to: the same text for the same file. */
  readonly fileOf?: (path: string) => string
}

/** The rules one after the other, none of which takes long: they find what is wrong on the config as it is written, and on what its references give. `now` is in epoch milliseconds. */
export const steps = (
  written: unknown,
  resolved: unknown,
  types: Types,
  now: number,
): ReadonlyArray<() => ReadonlyArray<Finding>> => {
  const root = fields(resolved)
  return [
    ...textRules(written, root, types),
    () => [...listenRules(root), ...webhookRules(root, now)],
    () => sinkRules(root, types.sinkTypes),
    () => fileRules(root, types),
    ...routeRules(root),
    () => [...testRules(root), ...clientRules(root)],
  ]
}

export const idle = (resolved: unknown): ReadonlyArray<Finding> => idleRules(fields(resolved))
