/** What a type of journal is; `Journals.ts` lists the types. */
import type { Layer, Schema } from "effect"
import type { Journal } from "./Journal.ts"
import type { JournalError } from "./JournalError.ts"

export interface JournalType<Config> {
  /** The keys of its config, beside `type`. */
  readonly config: Schema.Struct<Schema.Struct.Fields> & { readonly Type: Config }
  /** Loads the engine: only that of the journal in use is loaded. */
  readonly load: () => Promise<{ readonly layer: (config: Config) => Layer.Layer<Journal, JournalError> }>
  /** The file that it keeps; absent where it keeps none on this machine. */
  readonly file?: (config: Config) => JournalFile
}

/** A journal's file, and the limits of its size in bytes. */
export interface JournalFile {
  readonly path: string
  readonly maxSize: number
  readonly minFree: number
}
