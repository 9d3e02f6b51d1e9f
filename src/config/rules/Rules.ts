/**
 * What must hold between the parts of a config, beyond the shape of each.
 *
 * The rules read the resolved JSON and not the decoded config, so a mistake in
 * one part never hides another: everything is told at once. What has the wrong
 * shape is passed over here; the schema has said it already.
 */

import type { Finding } from "../diagnostics/Source.ts"
import type { ConfiguredTypes } from "../schema/ConfiguredTypes.ts"
import { idleRules, routeRules, testRules } from "./RouteRules.ts"
import { fields } from "./Shape.ts"
import { clientRules, fileRules, sinkRules } from "./SinkRules.ts"
import { listenRules, webhookRules } from "./WebhookRules.ts"

/** Everything that the parts' shapes can't say. `now` is in epoch milliseconds. */
export const check = (resolved: unknown, sinkTypes: ConfiguredTypes, now: number): ReadonlyArray<Finding> => {
  const root = fields(resolved)
  return [
    ...listenRules(root),
    ...webhookRules(root, now),
    ...sinkRules(root, sinkTypes),
    ...fileRules(root, sinkTypes),
    ...routeRules(root),
    ...testRules(root),
    ...clientRules(root),
  ]
}

export const idle = (resolved: unknown): ReadonlyArray<Finding> => idleRules(fields(resolved))
