/**
 * Rules between the parts of a config, beyond the schema of each.
 *
 * The rules read the resolved JSON rather than the decoded config, so that one
 * mistake doesn't hide another. Values of the wrong shape are skipped: the schema
 * reports them.
 */

import type { EpochMillis } from "../../event/Quantities.ts"
import type { Finding } from "../diagnostics/Source.ts"
import { fields } from "../Fields.ts"
import type { Types } from "../schema/ConfiguredTypes.ts"
import { drainRules } from "./DrainRules.ts"
import { idleRules, routeRules, testRules } from "./RouteRules.ts"
import { sampleRules } from "./ShapeRules.ts"
import { clientRules, type FileIdentity, fileRules, sinkRules } from "./SinkRules.ts"
import { textRules } from "./TextRules.ts"
import { tokenRules } from "./TokenRules.ts"
import { type HeaderLimit, listenRules, maxHeadersRules, webhookRules } from "./WebhookRules.ts"

/** The rules one after the other, none of which takes long: they find what is wrong on the config as it is written, and on what its references give. */
export const steps = (
  written: unknown,
  resolved: unknown,
  types: Types & FileIdentity & HeaderLimit,
  now: EpochMillis,
): ReadonlyArray<() => ReadonlyArray<Finding>> => {
  const root = fields(resolved)
  return [
    ...textRules(written, root, types),
    () => [
      ...listenRules(root),
      ...maxHeadersRules(root, types),
      ...drainRules(root),
      ...tokenRules(root),
      ...webhookRules(root, now),
    ],
    () => sinkRules(root, types),
    () => sampleRules(root, types),
    () => fileRules(root, types),
    ...routeRules(root),
    () => [...testRules(root), ...clientRules(root)],
  ]
}

export const idle = (resolved: unknown): ReadonlyArray<Finding> => idleRules(fields(resolved))
