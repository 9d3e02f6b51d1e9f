/** The parts of a journal type. `Journals.ts` lists the types. */
import { Context, type Effect, type Layer, type Schema } from "effect"
import { Archive } from "./Archive.ts"
import { Journal } from "./Journal.ts"
import type { Copying } from "./JournalCopy.ts"
import type { JournalError } from "./JournalError.ts"

/** The functions are methods, so that a list of types needs no casts. */
export interface JournalType<Config> {
  /** The keys of its config, in addition to `type`. */
  readonly config: Schema.Struct<Schema.Struct.Fields> & { readonly Type: Config }
  /** Loads the engine. Only the engine of the journal in use is loaded. */
  load(): Promise<{
    layer(config: Config): Layer.Layer<Journal | Archive, JournalError>
    /** The version of the schema that this relay writes. */
    readonly schema: number
  }>
  /** A string that differs for two journals, and for two relays on one journal. It may contain secrets. */
  identity(config: Config): string
  /** The keys that a reload may change: the journal reads them from `ConfigInForce`. */
  readonly live?: ReadonlyArray<string>
  /** Returns the findings of `validate` and `doctor` without opening the journal. */
  inspect?(config: Config): Effect.Effect<ReadonlyArray<Inspected>>
  /** Reads and writes it for `relay journal copy`. */
  copying?(): Promise<Copying<Config>>
  /** Returns the config of a journal in this file, or in the default file. */
  readonly ofFile?: (path?: string) => Config
  /** Returns the journal's file; absent if the type keeps no file on this machine. */
  file?(config: Config): JournalFile
}

/** A finding. */
export interface Inspected {
  readonly verdict: "wrong" | "warning" | "ok"
  /** The problem and how to solve it, or the sound part. */
  readonly message: string
}

/** A journal's file, and the limits of its size in bytes. */
export interface JournalFile {
  readonly path: string
  /** The lock file, which is locked while a relay runs on the journal. */
  readonly lock: string
  readonly maxSize: number
  readonly minFree: number
}

export type WholeJournal = Journal["Service"] & Archive["Service"]

/** Returns a context with both services of a journal, for its layer. */
export const servicesOf = (journal: WholeJournal): Context.Context<Journal | Archive> =>
  Context.make(Journal, journal).pipe(Context.add(Archive, journal))
