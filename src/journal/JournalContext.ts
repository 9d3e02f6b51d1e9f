/** Values that the program gives to its journal, each with a default. */
import { Context } from "effect"
import type { JournalConfig } from "../config/Config.ts"

/**
 * The name of the client that requests a change. It is recorded with each event that is dropped, replayed or moved.
 */
export const Operator = Context.Reference<string>("relay/journal/Operator", { defaultValue: () => "the relay" })

/**
 * The function that returns the journal's active config. A journal opens once, so it reads a key that a reload may
 * change from here each time (`JournalType` names these keys). It returns `undefined` if the config never reloads:
 * in tests, and when a command only reads the journal.
 */
export const ConfigInForce = Context.Reference<() => JournalConfig | undefined>("relay/journal/ConfigInForce", {
  defaultValue: () => () => undefined,
})

/**
 * The URL that a journal uses to start a worker thread: the program's main module, which calls `runWorker` of
 * `Worker.ts` if it isn't on the main thread. It can't be another file, because a compiled binary starts only at
 * that module. Without it (in tests), a journal does its work on the event loop.
 */
export const WorkerEntrypoint = Context.Reference<URL | undefined>("relay/journal/WorkerEntrypoint", {
  defaultValue: () => undefined,
})

/**
 * The instances of one relay that open its journal one after another: two processes around a restart, or the same
 * process again. A journal that knows relays by name gives the name to the next instance immediately, because the
 * earlier ones have ended.
 */
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
