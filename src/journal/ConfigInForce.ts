/**
 * The journal's active config. A journal opens once. For each key that a reload may change (`JournalType` names
 * them), it reads the value here when it needs it. It is `undefined` if nothing reloads: in tests, and when a
 * command only looks at the journal.
 */
import { Context } from "effect"
import type { JournalConfig } from "../config/Config.ts"

export const ConfigInForce = Context.Reference<() => JournalConfig | undefined>("relay/journal/ConfigInForce", {
  defaultValue: () => () => undefined,
})
