/**
 * The instances of one relay that open its journal in turn: around a restart, two
 * processes, or the same one again. A journal that knows relays by name gives it
 * to the next instance at once, because the ones before have ended.
 */
import { Context } from "effect"

export interface Turn {
  /** The id of the instance that opens the journal now. */
  readonly instance: string
  /** The ids of instances that have ended. */
  readonly ended: ReadonlyArray<string>
}

/** Unless a restart says otherwise, each opening is an instance of its own. */
export const Turn = Context.Reference<() => Turn>("relay/journal/Turn", {
  defaultValue: () => () => ({ instance: crypto.randomUUID(), ended: [] }),
})
