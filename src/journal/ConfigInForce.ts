/**
 * The journal's config as it is in force. A journal opens once; of what a reload
 * may change it takes the value here, when it needs it: `JournalType` names those
 * keys. `undefined` where nothing reloads (tests, a command's own look).
 */
import { Context } from "effect"
import type { JournalConfig } from "../config/Config.ts"

export const ConfigInForce = Context.Reference<() => JournalConfig | undefined>("relay/journal/ConfigInForce", {
  defaultValue: () => () => undefined,
})
