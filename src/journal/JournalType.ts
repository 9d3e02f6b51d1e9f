/** The parts of a type of journal; `Journals.ts` lists the types. */
import type { Effect, Layer, Schema } from "effect"
import type { Archive } from "./Archive.ts"
import type { Journal } from "./Journal.ts"
import type { Copying } from "./JournalCopy.ts"
import type { JournalError } from "./JournalError.ts"

export interface JournalType<Config> {
  /** The keys of its config, beside `type`. */
  readonly config: Schema.Struct<Schema.Struct.Fields> & { readonly Type: Config }
  /** Loads the engine: only that of the journal in use is loaded. */
  readonly load: () => Promise<{
    readonly layer: (config: Config) => Layer.Layer<Journal | Archive, JournalError>
    /** The version of the schema that this relay writes. */
    readonly schema: number
  }>
  /** A text that differs for two journals, and for two relays on one journal. May contain secrets. */
  readonly identity: (config: Config) => string
  /** The keys that a reload may change: the journal takes them from `ConfigInForce`. */
  readonly live?: ReadonlyArray<string>
  /** The findings of `validate` and `doctor` without opening it. */
  readonly inspect?: (config: Config) => Effect.Effect<ReadonlyArray<Inspected>>
  /** Reads and writes it for `relay journal copy`. */
  readonly copying?: () => Promise<Copying<Config>>
  /** The config of one in this file, or in the usual one. */
  readonly ofFile?: (path?: string) => Config
  /** The file that it keeps; absent where it keeps none on this machine. */
  readonly file?: (config: Config) => JournalFile
}

/** One thing that was looked at. */
export interface Inspected {
  readonly verdict: "wrong" | "warning" | "ok"
  /** The problem and what to do, or what was found in order. */
  readonly message: string
}

/** A journal's file, and the limits of its size in bytes. */
export interface JournalFile {
  readonly path: string
  /** Held locked while a relay runs on the journal. */
  readonly lock: string
  readonly maxSize: number
  readonly minFree: number
}
