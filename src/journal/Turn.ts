/**
 * The instances of one relay that open its journal one after another: two processes around a restart, or the
 * same process again. A journal that knows relays by name gives the name to the next instance immediately,
 * because the earlier ones have ended.
 */
import { Context } from "effect"

export interface Turn {
  /** The id of the instance that opens the journal now. */
  readonly instance: string
  /** The ids of instances that have ended. */
  readonly ended: ReadonlyArray<string>
}

/** By default, each opening is an instance of its own. */
export const Turn = Context.Reference<() => Turn>("relay/journal/Turn", {
  defaultValue: () => () => ({ instance: crypto.randomUUID(), ended: [] }),
})
